"""How much a room and a gateway hold; what a control event may use beyond; what makes way for it.

The totals are set past the library: it counts what the rows say.
"""

from collections.abc import Callable

import pytest

from fsm.lifecycles.tables import ROOMS
from fsm.rooms import HostedRoomError, events
from tests.rooms.support import MIB, Gateway
from tests.world import START

LOG = 50_000 + 64
ROOM_BYTES = 256 * MIB + MIB
GATEWAY_BYTES = 16 * MIB + MIB

# The bytes of each call's event: its id, kind, actor and payload.
CALLS: dict[str, tuple[str, Callable[[Gateway], object], int]] = {
    "claim": ("live", Gateway.claim, 138),
    "disband": ("live", Gateway.disband, 90),
    "adopt": ("legacy", Gateway.create, 163),
}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest, gateway: Gateway) -> tuple[Callable[[], object], int]:
    """Each call that stores an event, in a room that is ready for it, with the bytes of that event."""
    state, function, size = CALLS[request.param]
    gateway.bring(state)
    return (lambda: function(gateway)), size


Ready = tuple[Callable[[], object], int]


def test_the_sizes_of_the_events(gateway: Gateway, call: Ready) -> None:
    """Each call's event counts by the bytes that these tests go by."""
    make, size = call
    make()
    assert gateway.stored()["event_bytes"] == size


def test_the_last_number_of_the_reserve(gateway: Gateway, call: Ready) -> None:
    """A control event may still be number 50,064 of its room, and no later one."""
    make, _ = call
    gateway.alter(next_seq=LOG)
    make()
    assert gateway.stored()["next_seq"] == LOG + 1


def test_beyond_the_reserve_of_numbers(gateway: Gateway, call: Ready) -> None:
    """A room that has 50,064 events takes no control event either."""
    make, _ = call
    gateway.alter(next_seq=LOG + 1)
    with gateway.refuses(HostedRoomError):
        make()


def test_the_last_byte_of_a_room(gateway: Gateway, call: Ready, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control event may fill a room up to 257 MiB exactly; the gateway's own limit is lower and set aside here."""
    make, size = call
    monkeypatch.setattr(events, "MAX_GATEWAY_EVENT_BYTES", 1024 * MIB)
    gateway.alter(event_bytes=ROOM_BYTES - size + 1)
    with gateway.refuses(HostedRoomError):
        make()
    gateway.alter(event_bytes=ROOM_BYTES - size)
    make()
    assert gateway.row() is None or gateway.stored()["event_bytes"] == ROOM_BYTES


def test_the_last_byte_of_the_gateway(gateway: Gateway, call: Ready) -> None:
    """A control event may fill the gateway up to 17 MiB exactly, over all of its live rooms together."""
    make, size = call
    gateway.create("other")
    gateway.alter("other", event_bytes=10 * MIB)
    gateway.alter(event_bytes=GATEWAY_BYTES - 10 * MIB - size + 1)
    with gateway.refuses(HostedRoomError):
        make()
    gateway.alter(event_bytes=GATEWAY_BYTES - 10 * MIB - size)
    make()
    assert gateway.stored()["event_bytes"] == GATEWAY_BYTES - 10 * MIB


def test_closed_rooms_make_way_oldest_first(gateway: Gateway, call: Ready) -> None:
    """Where the gateway is full, as many closed rooms as needed are pruned, those closed longest ago first."""
    make, _ = call
    gateway.alter(event_bytes=14 * MIB)
    for room, at in (("young", START - 1), ("middle", START - 2), ("old", START - 3)):
        gateway.add_closed(room, at, MIB)
    make()
    assert gateway.room_ids() == _kept(gateway, ["middle", "room", "young"])
    assert {"old", "middle", "young"} <= gateway.retired().keys()


def _kept(gateway: Gateway, while_live: list[str]) -> list[str]:
    """Disbanding goes on pruning to 16 MiB, without the reserve."""
    return while_live if gateway.stored()["disbanded_at"] is None else [each for each in while_live if each != "middle"]


def test_rooms_that_were_closed_at_once_make_way_by_id(gateway: Gateway) -> None:
    """Of rooms closed at the same instant the one with the lesser id makes way."""
    gateway.create()
    gateway.alter(event_bytes=15 * MIB)
    gateway.add_closed("b", START - 3, MIB)
    gateway.add_closed("a", START - 3, MIB)
    gateway.claim()
    assert gateway.room_ids() == ["b", "room"]


def test_no_closed_room_makes_way_without_need(gateway: Gateway) -> None:
    """As long as the event fits, nothing is pruned, however old it is."""
    gateway.create()
    gateway.add_closed("ancient", 0.0, MIB)
    gateway.alter(event_bytes=16 * MIB - 138)
    gateway.claim()
    assert gateway.room_ids() == ["ancient", "room"]
    assert gateway.claim_from("gw2", 2, "gw3", "e2")["authority_epoch"] == 3
    assert gateway.room_ids() == ["room"]


def test_rooms_beyond_the_count_stay_while_there_is_space(gateway: Gateway) -> None:
    """An event that fits to the last byte prunes nothing, not even closed rooms beyond the kept count."""
    gateway.create()
    gateway.alter(event_bytes=GATEWAY_BYTES - 138)
    gateway.add_closed_many(513, START)
    gateway.claim()
    assert len(gateway.room_ids()) == 514


def test_a_live_room_never_makes_way(gateway: Gateway, call: Ready) -> None:
    """Where only live rooms hold the space, the call is refused and all of them stay."""
    make, _ = call
    gateway.create("other")
    gateway.alter("other", event_bytes=GATEWAY_BYTES, updated_at=0.0)
    with gateway.refuses(HostedRoomError):
        make()
    assert gateway.room_ids() == ["other", "room"]


def test_what_did_not_help_is_not_pruned(gateway: Gateway, call: Ready) -> None:
    """Where even all closed rooms together hold too little, the call is refused and each of them is still there."""
    make, _ = call
    gateway.alter(event_bytes=GATEWAY_BYTES)
    gateway.add_closed("old", START - 3, MIB)
    with gateway.refuses(HostedRoomError):
        make()
    assert gateway.room_ids() == ["old", "room"]


def test_making_way_also_drops_rooms_beyond_the_kept_count(gateway: Gateway) -> None:
    """While it makes space, the gateway also drops the closed rooms beyond the 512 that it keeps."""
    gateway.create()
    gateway.alter(event_bytes=GATEWAY_BYTES - 138)
    gateway.add_closed_many(514, START)
    gateway.execute(f"UPDATE {ROOMS.name} SET event_bytes = 200 WHERE room_id = 'old-0001'")
    gateway.claim()
    assert gateway.room_ids() == [*(f"old-{number:04}" for number in range(3, 515)), "room"]


def test_a_disbanding_brings_the_gateway_below_its_limit(gateway: Gateway) -> None:
    """A disbanding prunes other closed rooms, oldest first, until the events are within 16 MiB."""
    gateway.create()
    gateway.alter(event_bytes=15 * MIB)
    gateway.add_closed("old", START - 3, MIB)
    gateway.add_closed("young", START - 2, MIB - 90)
    gateway.disband()
    assert gateway.room_ids() == ["room", "young"]


@pytest.mark.parametrize(("beyond", "kept"), [(0, ["old", "room"]), (1, ["room"])])
def test_the_limit_after_a_disbanding(gateway: Gateway, beyond: int, kept: list[str]) -> None:
    """A gateway that holds 16 MiB exactly after a disbanding keeps its closed rooms; one byte more drives one out."""
    gateway.create()
    gateway.alter(event_bytes=15 * MIB - 90 + beyond)
    gateway.add_closed("old", START - 3, MIB)
    gateway.disband()
    assert gateway.room_ids() == kept


def test_a_disbanding_never_prunes_its_own_room(gateway: Gateway) -> None:
    """However much the room holds, and however old the clock makes it, its own disbanding leaves its history."""
    gateway.create()
    gateway.alter(event_bytes=16 * MIB + 1)
    gateway.add_closed("later", START + 9, 8)
    gateway.disband(now=START - 1e9)
    assert gateway.room_ids() == ["room"]
    assert gateway.disband()["event"]["kind"] == "room.disbanded"
    assert gateway.retired() == {"room": START - 1e9, "later": START + 9}


def test_the_number_of_live_rooms(gateway: Gateway) -> None:
    """A gateway has at most 256 live rooms; closed ones do not count; a disbanding makes a place."""
    gateway.add_closed_many(255, START)
    gateway.execute(f"UPDATE {ROOMS.name} SET disbanded_at = NULL")
    gateway.add_closed_many(9, START, prefix="closed")
    gateway.create()
    with gateway.refuses(HostedRoomError):
        gateway.create("next")
    assert gateway.create()["idempotent"] is True
    gateway.disband()
    assert gateway.create("next")["idempotent"] is False
