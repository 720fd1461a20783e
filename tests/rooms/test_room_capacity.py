"""How much a room and a gateway hold; what a control event may use beyond; what makes way for it.

The totals are set past the library: it counts what the rows say.
"""

from collections.abc import Callable

import pytest
from attrs import frozen

from fsm.lifecycles.tables import ROOMS, TOTALS
from fsm.rooms import HostedRoomError, events
from storage import open_database
from tests.rooms.support import MIB, Gateway
from tests.world import START

GATEWAY_BYTES = 16 * MIB + MIB


def _lose(gateway: Gateway) -> object:
    return gateway.append(kind="authority.lost", actor={"kind": "system", "id": "gw"}, payload={})


# The bytes of each call's event, which are its id, kind, actor and payload, and whether it may use the reserve.
CALLS: dict[str, tuple[str, Callable[[Gateway], object], int, bool]] = {
    "claim": ("live", Gateway.claim, 138, True),
    "disband": ("live", Gateway.disband, 90, True),
    "adopt": ("legacy", Gateway.create, 163, True),
    "stop": ("live", Gateway.stop, 42 + 19 + 28 + 18, True),
    "lose": ("live", _lose, 2 + 14 + 27 + 2, True),
    "append": ("live", Gateway.append, 2 + 12 + 26 + 16, False),
    "rename": ("live", Gateway.rename, 2 + 12 + 37 + 16, False),
}


@frozen
class Ready:
    """A call that stores an event, in a room that is ready for it; the bytes of that event, and its limits."""

    make: Callable[[], object]
    size: int
    control: bool

    @property
    def log(self) -> int:
        """How many events the room may have."""
        return 50_000 + (64 if self.control else 0)

    @property
    def room_bytes(self) -> int:
        """How many bytes of events the room may have."""
        return (257 if self.control else 256) * MIB

    @property
    def gateway_bytes(self) -> int:
        """How many bytes of events the gateway may have."""
        return (17 if self.control else 16) * MIB


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest, gateway: Gateway) -> Ready:
    """Each call that stores an event."""
    state, function, size, control = CALLS[request.param]
    gateway.bring(state)
    return Ready(lambda: function(gateway), size, control)


def test_the_sizes_of_the_events(gateway: Gateway, call: Ready) -> None:
    """Each call's event counts by the bytes that these tests go by."""
    call.make()
    assert gateway.stored()["event_bytes"] == call.size


def test_the_last_number_of_the_reserve(gateway: Gateway, call: Ready) -> None:
    """A control event may still be number 50,064 of its room, any other number 50,000."""
    gateway.alter(next_seq=call.log)
    call.make()
    assert gateway.stored()["next_seq"] == call.log + 1


def test_beyond_the_reserve_of_numbers(gateway: Gateway, call: Ready) -> None:
    """A room that has 50,000 events takes control events only, one that has 50,064 takes none."""
    gateway.alter(next_seq=call.log + 1)
    with gateway.refuses(HostedRoomError):
        call.make()


def test_the_last_byte_of_a_room(gateway: Gateway, call: Ready, monkeypatch: pytest.MonkeyPatch) -> None:
    """A room holds 256 MiB exactly, with control events 257; the gateway's own limit is lower and set aside here."""
    monkeypatch.setattr(events, "MAX_GATEWAY_EVENT_BYTES", 1024 * MIB)
    gateway.alter(event_bytes=call.room_bytes - call.size + 1)
    with gateway.refuses(HostedRoomError):
        call.make()
    gateway.alter(event_bytes=call.room_bytes - call.size)
    call.make()
    assert gateway.row() is None or gateway.stored()["event_bytes"] == call.room_bytes


def test_the_last_byte_of_the_gateway(gateway: Gateway, call: Ready) -> None:
    """A gateway holds 16 MiB exactly, with control events 17, over all of its live rooms together."""
    gateway.create("other")
    gateway.alter("other", event_bytes=10 * MIB)
    gateway.alter(event_bytes=call.gateway_bytes - 10 * MIB - call.size + 1)
    with gateway.refuses(HostedRoomError):
        call.make()
    gateway.alter(event_bytes=call.gateway_bytes - 10 * MIB - call.size)
    call.make()
    assert gateway.stored()["event_bytes"] == call.gateway_bytes - 10 * MIB
    assert gateway.wrong_totals() == ()


def test_closed_rooms_make_way_oldest_first(gateway: Gateway, call: Ready) -> None:
    """Where the gateway is full, as many closed rooms as needed are pruned, those closed longest ago first."""
    gateway.alter(event_bytes=call.gateway_bytes - 3 * MIB)
    for room, at in (("young", START - 1), ("middle", START - 2), ("old", START - 3)):
        gateway.add_closed(room, at, MIB)
    call.make()
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
    gateway.create("other")
    gateway.alter("other", event_bytes=call.gateway_bytes, updated_at=0.0)
    with gateway.refuses(HostedRoomError):
        call.make()
    assert gateway.room_ids() == ["other", "room"]


def test_what_did_not_help_is_not_pruned(gateway: Gateway, call: Ready) -> None:
    """Where even all closed rooms together hold too little, the call is refused and each of them is still there."""
    gateway.alter(event_bytes=call.gateway_bytes)
    gateway.add_closed("old", START - 3, MIB)
    with gateway.refuses(HostedRoomError):
        call.make()
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


def test_creating_reads_one_row_and_counts_none(gateway: Gateway) -> None:
    """The number of live rooms is compared as the database keeps it, whatever the rooms themselves say."""
    gateway.execute(f"UPDATE {TOTALS.name} SET total = 256 WHERE name = 'live_rooms'")
    with gateway.refuses(HostedRoomError):
        gateway.create()
    gateway.execute(f"UPDATE {TOTALS.name} SET total = 255 WHERE name = 'live_rooms'")
    assert gateway.create()["idempotent"] is False


@pytest.mark.parametrize("damage", ["DELETE FROM hosted_room_totals", "UPDATE hosted_room_totals SET total = -1"])
def test_a_total_that_is_none_admits_nothing(gateway: Gateway, call: Ready, damage: str) -> None:
    """Where a total is missing or below zero nothing is stored by it, and opening the database sums it up anew."""
    gateway.execute(damage)
    with gateway.refuses(HostedRoomError):
        call.make()
    gateway.execute("DELETE FROM hosted_room_totals")
    gateway.db.close()
    again = open_database(gateway.db.location, clock=gateway.clock, synchronous="normal")
    gateway.db = again
    gateway.prune()
    assert gateway.wrong_totals() == ()
    again.close()


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("column", ["next_seq", "event_bytes"])
def test_a_damaged_number_is_refused_by_its_name(gateway: Gateway, column: str) -> None:
    """A number of the room that is none is a refusal that names the column, never a raw error."""
    gateway.create()
    gateway.alter(**{column: "many"})
    with pytest.raises(HostedRoomError, match=column):
        gateway.append()
