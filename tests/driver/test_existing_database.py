"""A gateway's existing database opens in place, older shapes are migrated, and unknown ones are left as they were."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fsm import UnsupportedDatabaseError, driver, rooms
from fsm.lifecycles import DRIVER_TASK
from tests.world import identity, payload

OLD_STATES = ("queued", "running", "settled", "failed", "cancelled", "indeterminate")
ROOMS = """
    create table hosted_rooms (
        room_id text primary key, name text not null, members_json text not null, authority_gateway_id text not null,
        authority_epoch integer not null default 1 check (authority_epoch >= 1),
        next_seq integer not null default 1 check (next_seq >= 1),
        event_bytes integer not null default 0 check (event_bytes >= 0),
        revision integer not null default 1 check (revision >= 1),
        created_at real not null, updated_at real not null, disbanded_at real)
"""
TASKS = """
    create table hosted_room_driver_tasks (
        room_id text not null, task_id text not null, thread_id text not null, turn_id text not null,
        source_event_seq integer not null check (source_event_seq >= 1), payload_json text not null,
        payload_digest text not null, status text not null check (status in ({states})),
        execution_generation integer not null default 0 check (execution_generation >= 0),
        cancel_generation integer not null default 0 check (cancel_generation >= 0),
        run_gateway_id text, run_process_generation text, run_lease_generation integer, cancel_id text,
        settlement_id text, settlement_status text, result_json text, created_at real not null,
        updated_at real not null, started_at real, terminal_at real, indeterminate_at real{more},
        primary key (room_id, task_id), unique (room_id, thread_id, turn_id){reference})
"""
REFERENCE = ", foreign key (room_id) references hosted_rooms(room_id)"


def make(path: Path, *, states: tuple[str, ...] = OLD_STATES, more: str = "", reference: str = REFERENCE) -> None:
    """Make a database as an older gateway did, with a room and a task in each of the states."""
    listed = ", ".join(f"'{state}'" for state in states)
    connection = sqlite3.connect(path)
    connection.execute(ROOMS)
    connection.execute(TASKS.format(states=listed, more=more, reference=reference))
    connection.execute("insert into hosted_rooms values ('room', 'Room', '[]', 'gw', 1, 1, 0, 1, 1.0, 1.0, null)")
    for number in range(1, 601):
        state = states[number % len(states)]
        connection.execute(
            "insert into hosted_room_driver_tasks (room_id, task_id, thread_id, turn_id, source_event_seq,"
            " payload_json, payload_digest, status, created_at, updated_at)"
            " values ('room', ?, 'thread', ?, ?, '{}', 'x', ?, 1.0, 1.0)",
            (f"t{number}", f"turn-t{number}", number, state),
        )
    connection.commit()
    connection.close()


def stored(path: Path) -> list[tuple[str, ...]]:
    """Return the tasks as an independent reader sees them, and the schema."""
    connection = sqlite3.connect(path)
    rows = connection.execute("select * from hosted_room_driver_tasks order by task_id").fetchall()
    connection.close()
    return rows


def schema(path: Path) -> list[tuple[str, str, str]]:
    """Return the text of every table and index."""
    connection = sqlite3.connect(path)
    rows = connection.execute("select type, name, sql from sqlite_master order by name").fetchall()
    connection.close()
    return rows


def test_an_existing_database_opens_in_place(tmp_path: Path) -> None:
    """A database of the present shape keeps its rows and its own words; only what is missing is added."""
    path = tmp_path / "state.db"
    make(path, states=tuple(state.name for state in DRIVER_TASK.states))
    before, tables = stored(path), {name: text for _, name, text in schema(path)}
    assert len(driver.list_tasks(path, room_id="room")) == 600
    assert rooms.room_state(path, room_id="room")["name"] == "Room"
    assert stored(path) == before
    after = {name: text for _, name, text in schema(path)}
    assert {name: after[name] for name in tables} == tables
    assert "idx_hosted_room_driver_tasks_status" in after


OPENING = """
import sys, warnings
warnings.simplefilter("ignore")
from fsm import driver
sys.stdin.readline()
print(len(driver.list_tasks(sys.argv[1], room_id="room")))
"""


def test_the_older_table_is_migrated_by_two_processes_at_once(tmp_path: Path) -> None:
    """A CHECK without `stopping` and `deferred` is widened; no row is lost, whichever process comes first."""
    path = tmp_path / "state.db"
    make(path)
    before = stored(path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == ["600", "600"]
    assert stored(path) == before
    connection = sqlite3.connect(path)
    for state in DRIVER_TASK.states:
        connection.execute("update hosted_room_driver_tasks set status = ? where task_id = 't1'", (state.name,))
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("update hosted_room_driver_tasks set status = 'odd' where task_id = 't1'")
    connection.rollback()
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    assert connection.execute("pragma foreign_key_check").fetchall() == []
    connection.close()


def test_a_migrated_database_works(tmp_path: Path) -> None:
    """After the migration tasks go into the states that the older table refused."""
    path = tmp_path / "state.db"
    make(path)
    driver.admit_task(path, identity("new"), payload=payload(601))
    lease = driver.acquire_lease(
        path, room_id="room", gateway_id="gw", authority_epoch=1, process_generation="p1", ttl_seconds=60
    )
    stopping = driver.begin_task_cancel(path, identity("t1"), cancel_id="c1", expected_cancel_generation=0)
    assert stopping["status"] == "stopping"
    assert driver.recover_room(path, lease)["queued"]


@pytest.mark.parametrize(
    "shape",
    [
        {"more": ", colour text"},
        {"reference": ""},
        {"states": ("queued", "haunted")},
    ],
    ids=["another column", "no reference to its room", "rows in an unknown state"],
)
def test_an_unknown_shape_is_refused_and_left_untouched(tmp_path: Path, shape: dict[str, str]) -> None:
    """A driver table that is not the gateway's is refused with a clear error, and not one byte of it changes."""
    path = tmp_path / "state.db"
    make(path, **shape)  # type: ignore[arg-type] # each shape names what it changes
    content, before = path.read_bytes(), schema(path)
    with pytest.raises(UnsupportedDatabaseError, match="hosted_room_driver_tasks"):
        driver.list_tasks(path, room_id="room")
    assert (path.read_bytes(), schema(path)) == (content, before)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_draft_of_the_rooms_is_refused_and_left_untouched(tmp_path: Path) -> None:
    """A rooms table from before authorities existed is refused, and left as it was."""
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("create table hosted_rooms (room_id text primary key, name text not null)")
    connection.close()
    before = schema(path)
    with pytest.raises(UnsupportedDatabaseError, match="hosted_rooms"):
        rooms.room_state(path, room_id="room")
    assert schema(path) == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file that is no database is refused by name of the fault, and left as it was."""
    path = tmp_path / "state.db"
    path.write_bytes(b"This is not a database, whatever its name says." * 100)
    content = path.read_bytes()
    with pytest.raises(UnsupportedDatabaseError):
        driver.list_tasks(path, room_id="room")
    assert path.read_bytes() == content
