"""A gateway's older database, which two processes open at once: its tasks stay, and the new states fit in."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from fsm.lifecycles import DRIVER_TASK
from tests.faults.processes import Child, children, soon
from tests.older_gateway import INSERT, STATES, make_older, row

ROUNDS: Final = 10
ROWS: Final = 50 * len(STATES)


@pytest.fixture
def openers() -> Iterator[tuple[Child, ...]]:
    """Two long-lived processes."""
    with children("tests.faults.contender", ("left",), ("right",)) as started:
        yield started


def asked(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return what an independent reader is answered."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def stored(path: Path) -> list[tuple[Any, ...]]:
    """Return every column of every task."""
    return asked(path, "select * from hosted_room_driver_tasks order by source_event_seq")


def accepts(path: Path, status: str) -> bool:
    """Say whether the table takes a row in this state; nothing is kept of it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        try:
            connection.execute(INSERT, row("further", ROWS + 1, status))
        except sqlite3.IntegrityError:
            return False
        return True


@pytest.mark.parametrize("indexed", [True, False], ids=["with its index", "without an index"])
def test_two_processes_open_an_older_database_at_once(
    tmp_path: Path, openers: tuple[Child, ...], *, indexed: bool
) -> None:
    """Two processes that list the tasks of an older database at one moment both see every task, no row is lost or
    changed, and the table then takes the states that it lacked, and no others
    """
    for number in range(ROUNDS):
        path = tmp_path / f"older-{number}.db"
        make_older(path, tasks=ROWS, indexed=indexed)
        before = stored(path)
        assert not accepts(path, "stopping")
        at = soon()
        for child in openers:
            child.tell(what="read", at=at, path=str(path), room="room")
        assert [child.hear() for child in openers] == [{"won": ROWS}, {"won": ROWS}]
        assert len(before) == ROWS
        assert stored(path) == before
        taken = {state.name for state in DRIVER_TASK.states if accepts(path, state.name)}
        assert taken == {*STATES, "stopping", "deferred"}
        assert not accepts(path, "another")
        assert asked(path, "pragma integrity_check") == [("ok",)]
        assert asked(path, "pragma foreign_key_check") == []
