"""The two probes: yes, no, or that it cannot be told; never a wait, a file or a migration."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import storage
from fsm import rooms
from fsm.lifecycles.tables import PEER_RESERVATIONS, ROOMS
from fsm.rooms import HostedRoomError, RoomProbeUnavailableError
from storage import opening
from tests.rooms.peers import HOUR, Peers, scope
from tests.rooms.support import STATES, Gateway

PROBES: dict[str, Callable[[Any], bool]] = {
    "room": lambda db: rooms.probe_hosted_room(db, room_id="room"),
    "reservation": lambda db: rooms.probe_peer_room_reservation(db, room_id="room", target_profile="helper", now=1.0),
}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A database at rest with a live room and a live reservation."""
    path = tmp_path / "gateway" / "state.db"
    rooms.create_room(path, room_id="room", name="Room", members=[], authority_gateway_id="gw")
    rooms.reserve_peer_room(path, claims=scope(), expires_at=9.0, now=0.0)
    storage.resolve(path, error=AssertionError).close()
    return path


@pytest.mark.parametrize("state", STATES)
def test_a_hosted_room_is_a_live_one(gateway: Gateway, state: str) -> None:
    """Whoever holds its authority, a live room is hosted; an absent, disbanded or retired one is not."""
    gateway.bring(state)
    expected = state not in {"absent", "disbanded", "retired"}
    for db in (gateway.db, gateway.db.location, Path(gateway.db.location)):
        assert rooms.probe_hosted_room(db, room_id=" room ") is expected
        assert rooms.probe_hosted_room(db, room_id="another") is False


def test_a_reservation_is_probed_by_room_and_profile(peers: Peers) -> None:
    """The answer is that of the room and the profile asked for, at the instant of the handle's clock."""
    peers.reserve()
    location = peers.db.location
    for db in (peers.db, location):
        ask = partial(rooms.probe_peer_room_reservation, db)
        assert ask(room_id="room", target_profile=" helper ")
        assert not ask(room_id="room", target_profile="other")
        assert not ask(room_id="attic", target_profile="helper")
    peers.clock.advance(HOUR)
    assert not rooms.probe_peer_room_reservation(location, room_id="room", target_profile="helper")


@pytest.mark.parametrize("probe", PROBES)
def test_a_database_at_rest_stays_at_rest(closed: Path, probe: str) -> None:
    """Asking leaves no file, not a byte changed, and no handle."""
    content = closed.read_bytes()
    assert PROBES[probe](closed)
    assert closed.read_bytes() == content
    assert [each.name for each in closed.parent.iterdir()] == [closed.name]
    assert not opening._handles.by_location[str(closed), False].database.usable


@pytest.mark.parametrize("probe", PROBES)
def test_no_database_holds_nothing(tmp_path: Path, probe: str) -> None:
    """Where there is no file the answer is no, and neither file nor directory is made."""
    assert not PROBES[probe](tmp_path / "new" / "state.db")
    assert not PROBES[probe](tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("probe", PROBES)
def test_a_database_without_the_table_is_not_given_one(tmp_path: Path, probe: str) -> None:
    """A database of others holds nothing; no table is made in it."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE others (x)")
    content = path.read_bytes()
    assert not PROBES[probe](path)
    db = storage.open_database(":memory:")
    assert not PROBES[probe](db)
    assert db.read(lambda tx: tx.table_exists(ROOMS.name)) is False
    db.close()
    assert path.read_bytes() == content


def test_a_draft_is_asked_and_not_migrated(tmp_path: Path) -> None:
    """A rooms table from before authorities existed tells all that is asked of it, and stays what it was."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE hosted_rooms (room_id TEXT PRIMARY KEY, disbanded_at REAL)")
        connection.execute("INSERT INTO hosted_rooms VALUES ('room', NULL), ('old', 1.0)")
    content = path.read_bytes()
    assert PROBES["room"](path)
    assert not rooms.probe_hosted_room(path, room_id="old")
    assert not PROBES["reservation"](path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("probe", PROBES)
def test_a_table_that_cannot_be_asked(tmp_path: Path, probe: str) -> None:
    """Where the table lacks what the question is about, neither yes nor no is known."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {ROOMS.name} (x)")
        connection.execute(f"CREATE TABLE {PEER_RESERVATIONS.name} (x)")
    with pytest.raises(RoomProbeUnavailableError) as refusal:
        PROBES[probe](path)
    assert str(path) not in str(refusal.value)


@pytest.mark.parametrize("probe", PROBES)
def test_a_locked_database_cannot_be_asked(closed: Path, probe: str) -> None:
    """While another program keeps everybody out the probe gives up; afterwards it answers."""
    with closing(sqlite3.connect(closed, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RoomProbeUnavailableError):
            PROBES[probe](closed)
        other.execute("ROLLBACK")
    assert PROBES[probe](closed)


@pytest.mark.parametrize("probe", PROBES)
def test_a_writer_does_not_stand_in_the_way(closed: Path, probe: str) -> None:
    """In the write-ahead log a probe reads past whoever writes, be it this thread, and sees what is committed."""
    db = storage.open_database(closed)
    with db.transaction() as tx:
        tx.execute(f"DELETE FROM {ROOMS.name}")
        tx.execute(f"DELETE FROM {PEER_RESERVATIONS.name}")
        assert PROBES[probe](db)
        assert PROBES[probe](closed)
    assert not PROBES[probe](db)
    db.close()


@pytest.mark.parametrize("probe", PROBES)
def test_what_is_no_database_cannot_be_asked(tmp_path: Path, probe: str) -> None:
    """A file of something else says neither yes nor no."""
    path = tmp_path / "state.db"
    path.write_bytes(b"no database at all, whatever its name says" * 50)
    with pytest.raises(RoomProbeUnavailableError):
        PROBES[probe](path)


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_waits_fifty_milliseconds_at_most(closed: Path, monkeypatch: pytest.MonkeyPatch, probe: str) -> None:
    """Its connection has a busy timeout of 50 ms, and no other connection is made."""
    waits: list[float] = []
    real: Any = sqlite3.connect

    def connect(*args: Any, timeout: float, **more: Any) -> Any:
        waits.append(timeout)
        return real(*args, timeout=timeout, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert PROBES[probe](closed)
    assert waits == [0.05]


@pytest.mark.parametrize("probe", PROBES)
def test_a_closed_handle_cannot_be_asked(closed: Path, probe: str) -> None:
    """A handle that is closed tells neither yes nor no; a read-only one tells."""
    db = storage.open_database(closed, read_only=True)
    assert PROBES[probe](db)
    db.close()
    with pytest.raises(RoomProbeUnavailableError):
        PROBES[probe](db)


@pytest.mark.parametrize("probe", PROBES)
def test_memory_is_no_location(probe: str) -> None:
    """A database in memory is asked through its handle alone; as a location it would be another one in every call."""
    with pytest.raises(HostedRoomError) as refusal:
        PROBES[probe](":memory:")
    assert type(refusal.value) is HostedRoomError


def test_the_clock_of_a_handle_is_checked(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that answers no number is bad input, as in every other call."""
    monkeypatch.setattr(peers.db, "clock", lambda: "noon")
    with peers.refuses(HostedRoomError):
        peers.reserved()
