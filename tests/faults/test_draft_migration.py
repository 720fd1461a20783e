"""A draft's database is migrated by processes that die at any statement, and by two at once: no row is ever lost."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

import storage
from fsm.schema import GATEWAY_SCHEMA
from tests.faults.processes import Child, children, soon
from tests.older_rooms import TABLES, Draft, expected_rows, make_draft, rows_of

ROUNDS: Final = 10
DRAFTS: Final = {
    "all at once": Draft(),
    "receipts without a key": Draft(frozenset(), frozenset({"hosted_room_links"}), "none", indexed=False),
}
Shapes = list[tuple[Any, ...]]


def shapes_of(path: Path) -> Shapes:
    """Return the text of every table and index."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select type, name, sql from sqlite_master order by name").fetchall()


def sound(path: Path) -> bool:
    """Say whether SQLite finds nothing wrong with the file and its references."""
    with closing(sqlite3.connect(path)) as connection:
        checks = connection.execute("pragma integrity_check").fetchall()
        return checks == [("ok",)] and not connection.execute("pragma foreign_key_check").fetchall()


def open_whole(path: Path) -> None:
    """Bring a database to the present shape."""
    db = storage.open_database(path, synchronous="normal")
    db.require(GATEWAY_SCHEMA)
    db.close()


@pytest.fixture
def dying() -> Iterator[Child]:
    """A process that migrates by children that die."""
    with children("tests.faults.migrator", ()) as (child,):
        yield child


@pytest.mark.parametrize("case", DRAFTS)
def test_a_migration_that_is_killed_at_any_statement_is_whole_or_not_begun(
    tmp_path: Path, dying: Child, case: str
) -> None:
    """Killed at each of its statements in turn, a migration leaves the draft or the migrated database, every row in
    it, and the next opening ends where one that nobody killed does
    """
    draft, made = DRAFTS[case], tmp_path / "draft.db"
    make_draft(made, draft)
    whole = tmp_path / "whole.db"
    shutil.copyfile(made, whole)
    open_whole(whole)
    before, after = (rows_of(made), shapes_of(made)), (expected_rows(draft), shapes_of(whole))
    seen = []
    for number in count(1):
        path = tmp_path / f"{number}.db"
        shutil.copyfile(made, path)
        dying.tell(path=str(path), number=number)
        ended = dying.hear()["ended"]
        left = (rows_of(path), shapes_of(path))
        assert left in (before, after), f"killed at statement {number}"
        seen.append(left == after)
        assert sound(path)
        open_whole(path)
        assert (rows_of(path), shapes_of(path)) == after, f"killed at statement {number}"
        if ended != "killed":
            assert ended == 0
            break
    assert seen == sorted(seen)
    assert len(seen) > 100
    assert (seen[0], seen[-2], seen[-1]) == (False, True, True)


def test_two_processes_open_a_draft_at_once(tmp_path: Path) -> None:
    """Two processes that come upon a draft at one moment both go on, and it is migrated once, with every row."""
    draft = Draft(missing=frozenset(TABLES[2:]))
    with children("tests.faults.contender", ("left",), ("right",)) as openers:
        for number in range(ROUNDS):
            path = tmp_path / f"draft-{number}.db"
            make_draft(path, draft)
            at = soon()
            for child in openers:
                child.tell(what="read", at=at, path=str(path), room="lobby")
            assert [child.hear() for child in openers] == [{"won": 0}, {"won": 0}]
            assert rows_of(path) == expected_rows(draft)
            assert sound(path)
