"""The list of rooms: what it holds, in which order, page by page."""

from fsm import rooms
from tests.world import World


def _made(world: World, *names: str) -> None:
    for name in names:
        world.clock.advance(1)
        world.create_room(name)


def _listed(world: World, **options: object) -> list[str]:
    return [room["room_id"] for room in rooms.list_rooms(world.db, **options)]


def test_rooms_are_listed_by_their_last_change(world: World) -> None:
    """The room that changed last comes first, and of two that changed at once the one with the lesser id."""
    _made(world, "b", "c")
    world.create_room("a")
    assert _listed(world) == ["a", "c", "b", "room"]
    world.clock.advance(1)
    claim = {"expected_gateway_id": "gw", "expected_epoch": 1, "new_gateway_id": "gw2", "event_id": "e1"}
    rooms.claim_authority(world.db, room_id="room", **claim)
    assert _listed(world)[0] == "room"


def test_closed_rooms_are_listed_when_asked_for(world: World) -> None:
    """A disbanded room is on the list only where it is asked for, and says when it was closed."""
    _made(world, "a")
    world.clock.advance(1)
    rooms.disband_room(world.db, room_id="a", expected_gateway_id="gw", expected_epoch=1)
    assert _listed(world) == ["room"]
    assert _listed(world, include_disbanded=True) == ["a", "room"]
    assert rooms.list_rooms(world.db, include_disbanded=True)[0]["disbanded_at"] == world.clock.now


def test_pages_cover_every_room_once(world: World) -> None:
    """Pages of any size hold each room exactly once, in one order, and the page after the last is empty."""
    _made(world, *"abcde")
    whole = _listed(world)
    for size in (1, 2, 4, 500):
        assert [name for start in range(0, 6, size) for name in _listed(world, limit=size, offset=start)] == whole
    assert _listed(world, offset=6) == []


def test_a_damaged_room_hides_no_other(world: World) -> None:
    """A room whose members do not decode is listed with `corrupt`, and the others as ever."""
    _made(world, "a")
    world.execute("UPDATE hosted_rooms SET members_json = '{' WHERE room_id = 'a'")
    bad, good = rooms.list_rooms(world.db)
    assert (bad["room_id"], bad["members"], "corrupt" in bad) == ("a", None, True)
    assert (good["room_id"], good["members"], "corrupt" in good) == ("room", [], False)
