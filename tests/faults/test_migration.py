"""A gateway's older database, which two processes open at once: its tasks stay, and the new states fit in."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from fsm.driver.parse import parse_payload
from fsm.lifecycles import DRIVER_TASK
from fsm.lifecycles.tables import TASKS
from tests.faults.processes import Child, children, soon
from tests.world import START, payload

ROUNDS: Final = 10
OLDER_STATES: Final = ("queued", "running", "settled", "failed", "cancelled", "indeterminate")
ROWS: Final = 50 * len(OLDER_STATES)
OLDER_TABLES: Final = (
    """CREATE TABLE hosted_rooms (
        room_id TEXT PRIMARY KEY, name TEXT NOT NULL, members_json TEXT NOT NULL, authority_gateway_id TEXT NOT NULL,
        authority_epoch INTEGER NOT NULL DEFAULT 1 CHECK (authority_epoch >= 1),
        next_seq INTEGER NOT NULL DEFAULT 1 CHECK (next_seq >= 1),
        event_bytes INTEGER NOT NULL DEFAULT 0 CHECK (event_bytes >= 0),
        revision INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
        created_at REAL NOT NULL, updated_at REAL NOT NULL, disbanded_at REAL)""",
    """CREATE TABLE hosted_room_driver_tasks (
        room_id TEXT NOT NULL, task_id TEXT NOT NULL, thread_id TEXT NOT NULL, turn_id TEXT NOT NULL,
        source_event_seq INTEGER NOT NULL CHECK (source_event_seq >= 1),
        payload_json TEXT NOT NULL, payload_digest TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN (
            'queued', 'running', 'settled', 'failed', 'cancelled', 'indeterminate')),
        execution_generation INTEGER NOT NULL DEFAULT 0 CHECK (execution_generation >= 0),
        cancel_generation INTEGER NOT NULL DEFAULT 0 CHECK (cancel_generation >= 0),
        run_gateway_id TEXT, run_process_generation TEXT, run_lease_generation INTEGER, cancel_id TEXT,
        settlement_id TEXT, settlement_status TEXT, result_json TEXT, created_at REAL NOT NULL,
        updated_at REAL NOT NULL, started_at REAL, terminal_at REAL, indeterminate_at REAL,
        PRIMARY KEY (room_id, task_id), UNIQUE (room_id, thread_id, turn_id),
        FOREIGN KEY (room_id) REFERENCES hosted_rooms(room_id))""",
    """CREATE INDEX idx_hosted_room_driver_tasks_status
        ON hosted_room_driver_tasks(room_id, status, source_event_seq, created_at, task_id)""",
)
INSERT: Final = """
    INSERT INTO hosted_room_driver_tasks
        (room_id, task_id, thread_id, turn_id, source_event_seq, payload_json, payload_digest, status,
         result_json, created_at, updated_at)
    VALUES ('room', :name, 'thread', :name, :number, :payload_json, :payload_digest, :status, :result_json, :at, :at)
"""


@pytest.fixture
def openers() -> Iterator[tuple[Child, ...]]:
    """Two long-lived processes."""
    with children("tests.faults.contender", ("left",), ("right",)) as started:
        yield started


def make_older(path: Path) -> list[tuple[Any, ...]]:
    """Make a database as an older gateway left it, with tasks in each of its states; return their rows."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in OLDER_TABLES:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO hosted_rooms (room_id, name, members_json, authority_gateway_id, created_at, updated_at)"
            " VALUES ('room', 'Room', '[]', 'gw', 1.5, 1.5)"
        )
        for number in range(1, ROWS + 1):
            status = OLDER_STATES[number % len(OLDER_STATES)]
            connection.execute(INSERT, row(f"t{number}", number, status))
    return stored(path)


def row(name: str, number: int, status: str) -> dict[str, Any]:
    """Return what is inserted of a task."""
    _, payload_json, digest = parse_payload(payload(number))
    content = {"payload_json": payload_json, "payload_digest": digest, "result_json": '{"n":1}'}
    return {"name": name, "number": number, "status": status, "at": START + number / 8, **content}


def stored(path: Path) -> list[tuple[Any, ...]]:
    """Return every column of every task."""
    names = ", ".join(column.name for column in TASKS.columns)
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {names} FROM hosted_room_driver_tasks ORDER BY source_event_seq").fetchall()


def accepts(path: Path, status: str) -> bool:
    """Say whether the table takes a row in this state; nothing is kept of it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        try:
            connection.execute(INSERT, row("further", ROWS + 1, status))
        except sqlite3.IntegrityError:
            return False
        return True


def test_two_processes_open_an_older_database_at_once(tmp_path: Path, openers: tuple[Child, ...]) -> None:
    """Two processes that list the tasks of an older database at one moment both see every task, no row is lost or
    changed, and the table then takes the states that it lacked, and no others
    """
    for number in range(ROUNDS):
        path = tmp_path / f"older-{number}.db"
        before = make_older(path)
        assert not accepts(path, "stopping")
        at = soon()
        for child in openers:
            child.tell(what="read", at=at, path=str(path), room="room")
        assert [child.hear() for child in openers] == [{"won": ROWS}, {"won": ROWS}]
        assert stored(path) == before
        taken = {state.name for state in DRIVER_TASK.states if accepts(path, state.name)}
        assert taken == {*OLDER_STATES, "stopping", "deferred"}
        assert not accepts(path, "another")
