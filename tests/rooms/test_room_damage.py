"""Rooms whose rows were damaged or written past the library: closed, pruned and refused as far as that is possible."""

from collections.abc import Callable
from typing import Any

import pytest

from fsm import driver, rooms
from fsm.lifecycles.tables import TASKS
from fsm.rooms import HostedRoomError, RoomConflictError
from storage import Database
from tests.engines import Engine
from tests.rooms.support import Gateway
from tests.world import World, identity

LAST_EPOCH = 2**63 - 1


def test_a_live_room_that_is_listed_as_retired_can_still_be_closed(world: World) -> None:
    """A stray entry among the retired ids does not pass for a disbanding that never happened."""
    world.execute("INSERT INTO hosted_room_retired_ids VALUES ('room', 1.0)")
    view = rooms.disband_room(world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1)
    assert (view["idempotent"], view["disbanded_at"]) == (False, world.clock.now)
    assert "event" in view


def test_a_retired_id_is_never_created_again(world: World) -> None:
    """An id among the retired ones is refused even where a live room has it, and creating is no exact retry then."""
    world.execute("INSERT INTO hosted_room_retired_ids VALUES ('room', 1.0)")
    with pytest.raises(RoomConflictError):
        rooms.create_room(world.db, room_id="room", name="Room", members=[], authority_gateway_id="gw")


def test_a_room_at_the_last_epoch_can_be_closed(world: World) -> None:
    """No claim leads beyond the greatest epoch, and a room that is there can still be disbanded."""
    world.execute("UPDATE hosted_rooms SET authority_epoch = :last", last=LAST_EPOCH)
    claim = {"expected_gateway_id": "gw", "expected_epoch": LAST_EPOCH, "new_gateway_id": "gw2", "event_id": "e1"}
    with pytest.raises(HostedRoomError):
        rooms.claim_authority(world.db, room_id="room", **claim)
    view = rooms.disband_room(world.db, room_id="room", expected_gateway_id="gw", expected_epoch=LAST_EPOCH)
    assert view["idempotent"] is False


def test_a_task_in_no_declared_state_does_not_keep_its_room(world: World, engine: Engine) -> None:
    """Pruning deletes what no sweep reaches: rows whose status was written past the CHECK."""
    world.admit("odd")
    engine.spoil(world.db.location, f"UPDATE {TASKS.name} SET status = 'weird'")
    assert driver.list_tasks(world.db, room_id="room")[0]["identity"] == identity("odd")
    rooms.disband_room(world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1)
    world.clock.advance(91 * 24 * 60 * 60)
    assert rooms.prune_disbanded_rooms(world.db) == 1
    assert world.row("odd") is None


DAMAGES = [
    ("hosted_rooms", "authority_epoch", "'many'", ("rename",)),
    ("hosted_rooms", "authority_gateway_id", "X'FF'", ("read", "state")),
    ("hosted_rooms", "event_bytes", "9e999", ("append",)),
    ("hosted_rooms", "revision", "9223372036854775807", ("rename", "claim_authority", "disband")),
    ("hosted_rooms", "revision", "'many'", ("rename",)),
    ("hosted_rooms", "next_seq", "'many'", ("append", "create", "read", "state")),
    ("hosted_room_totals", "total", "9e999", ("append", "rename", "disband")),
    ("hosted_room_events", "seq", "'many'", ("read",)),
]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(("table", "column", "value", "calls"), DAMAGES)
def test_a_damaged_column_is_the_modules_own_refusal(
    gateway: Gateway, engine: Engine, table: str, column: str, value: str, calls: tuple[str, ...]
) -> None:
    """A number that is none, or that cannot grow, and bytes for text are refused by name, and nothing is stored."""
    gateway.create()
    gateway.append()
    engine.spoil(gateway.db.location, f"UPDATE {table} SET {column} = {value}")
    ways: dict[str, Callable[[], object]] = {
        "append": lambda: gateway.append("m2"),
        "claim_authority": gateway.claim,
        "create": gateway.create,
        "disband": gateway.disband,
        "read": gateway.read,
        "rename": gateway.rename,
        "state": gateway.state,
    }
    for call in calls:
        with gateway.refuses(HostedRoomError):
            ways[call]()


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("column", ["authority_epoch", "event_id", "kind"])
def test_an_event_with_bytes_hides_no_other(gateway: Gateway, engine: Engine, column: str) -> None:
    """What no JSON can show is left out of the page, which says so and shows the next event."""
    gateway.create()
    gateway.append()
    gateway.append("m2")
    engine.spoil(gateway.db.location, f"UPDATE hosted_room_events SET {column} = X'FF' WHERE seq = 1")
    first, second = gateway.read()["events"]
    assert first["seq"] == 1
    assert column in first["corrupt"]
    assert second["event_id"] == "m2"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(("column", "value"), [("name", "X'FF'"), ("next_seq", "'many'")])
def test_a_room_with_a_damaged_column_is_listed(gateway: Gateway, engine: Engine, column: str, value: str) -> None:
    """A list of rooms goes on beside a name that no JSON can show and an end of the log that is no number."""
    gateway.create()
    gateway.create("next")
    engine.spoil(gateway.db.location, f"UPDATE hosted_rooms SET {column} = {value} WHERE room_id = 'room'")
    listed = {view["room_id"]: view for view in rooms.list_rooms(gateway.db)}
    assert column in listed["room"]["corrupt"]
    assert "corrupt" not in listed["next"]


def test_a_home_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot be found is the module's error, with the variable's name."""
    monkeypatch.setenv("GATEWAY_HOME", "~nobody-has-this-name/x")
    for call in (rooms.default_db_path, rooms.local_authority_gateway_id):
        with pytest.raises(HostedRoomError, match="GATEWAY_HOME"):
            call()


def test_an_adoption_whose_event_id_is_taken_is_refused(db: Database) -> None:
    """A room that went back to `legacy` and is adopted a second time is refused by the module's own error."""
    rooms.create_room(db, room_id="room", name="Room", members=[], authority_gateway_id="gw")
    for number in (1, 3):
        claim = {"expected_gateway_id": "gw", "expected_epoch": number, "new_gateway_id": "legacy"}
        rooms.claim_authority(db, room_id="room", **claim, event_id=f"e{number}")
        if number == 1:
            rooms.create_room(db, room_id="room", name="Room", members=[], authority_gateway_id="gw")
    with pytest.raises(rooms.EventConflictError):
        rooms.create_room(db, room_id="room", name="Room", members=[], authority_gateway_id="gw")


def test_creating_a_room_again_at_the_last_epoch_is_an_exact_retry(world: World) -> None:
    """A room that has an authority is none to adopt, so that no epoch beyond its own is asked for."""
    world.execute("UPDATE hosted_rooms SET authority_epoch = :last", last=LAST_EPOCH)
    assert rooms.create_room(world.db, **world_room(world))["idempotent"] is True


@pytest.mark.engines("sqlite")
def test_an_epoch_that_is_no_number_is_refused_where_it_is_needed(world: World, engine: Engine) -> None:
    """A room to adopt whose epoch is text is refused by the module's own error."""
    room = world_room(world)
    engine.spoil(world.db.location, "UPDATE hosted_rooms SET authority_gateway_id = 'legacy', authority_epoch = 'x'")
    with pytest.raises(HostedRoomError, match="authority_epoch"):
        rooms.create_room(world.db, **room)


@pytest.mark.engines("sqlite")
def test_a_total_beyond_every_number_is_refused(world: World, engine: Engine) -> None:
    """Where the total of bytes is no integer, an event is refused by the module's own error."""
    engine.spoil(world.db.location, "UPDATE hosted_room_totals SET total = 9e999")
    with pytest.raises(HostedRoomError, match="total"):
        rooms.rename_room(world.db, room_id="room", event_id="e1", name="Other")


@pytest.mark.engines("sqlite")
def test_a_closed_room_of_unknown_size_still_makes_way(world: World, engine: Engine) -> None:
    """Where a closed room's bytes are no number, it is pruned for space like any other, and no raw error escapes."""
    rooms.disband_room(world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1)
    world.create_room("other")
    engine.spoil(world.db.location, "UPDATE hosted_rooms SET event_bytes = 'many' WHERE room_id = 'room'")
    engine.spoil(world.db.location, f"UPDATE hosted_room_totals SET total = {2**40} WHERE name = 'event_bytes'")
    with pytest.raises(HostedRoomError, match="full"):
        rooms.rename_room(world.db, room_id="other", event_id="e1", name="Other")


def world_room(world: World) -> dict[str, Any]:
    """Return what the room of the world was created with."""
    view = rooms.room_state(world.db, room_id="room")
    return {name: view[name] for name in ("room_id", "name", "members", "authority_gateway_id")}
