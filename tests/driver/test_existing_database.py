"""A gateway's existing database opens in place, older shapes are migrated, and unknown ones are left as they were."""

import sqlite3
from pathlib import Path

import pytest

from fsm import UnsupportedDatabaseError, driver, rooms
from fsm.lifecycles import DRIVER_TASK
from tests.older_gateway import make_older
from tests.world import identity, payload


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
    make_older(path, tasks=600, states=tuple(state.name for state in DRIVER_TASK.states))
    before, tables = stored(path), {name: text for _, name, text in schema(path)}
    assert len(driver.list_tasks(path, room_id="room")) == 600
    assert rooms.room_state(path, room_id="room")["name"] == "Room"
    assert stored(path) == before
    after = {name: text for _, name, text in schema(path)}
    assert {name: after[name] for name in tables} == tables
    assert "idx_hosted_room_driver_tasks_status" in after


def test_a_migrated_database_works(tmp_path: Path) -> None:
    """After the migration tasks go into the states that the older table refused."""
    path = tmp_path / "state.db"
    make_older(path, tasks=600)
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
    make_older(path, tasks=600, **shape)  # type: ignore[arg-type] # each shape names what it changes
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
