"""Every state of a lease against every call on it; the table is the contract."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, frozen

from fsm import driver, rooms
from fsm.driver import DriverLease, InvalidTaskTransitionError, LeaseHeldError, RoomUnavailableError, StaleLeaseError
from fsm.lifecycles import DRIVER_LEASE
from fsm.lifecycles.tables import LEASES
from tests.world import World

REFUSALS: dict[str, type[Exception]] = {
    "R": RoomUnavailableError,
    "L": StaleLeaseError,
    "H": LeaseHeldError,
    "I": InvalidTaskTransitionError,
}
STATES = ("vacant", "held", "held under another authority", "expired", "released", "held with running work")

# `>state generation`: done; `=`: an exact retry; a letter: refused.
MATRIX: dict[str, tuple[str, ...]] = {
    "acquire": (">held 1", ">held 1", ">held 2", ">held 2", ">held 2", ">held 1"),
    "acquire by another process": (">held 1", "H", ">held 2", ">held 2", ">held 2", "H"),
    "acquire by another gateway": ("L", "L", "L", "L", "L", "L"),
    "acquire at an older epoch": ("L", "L", "L", "L", "L", "L"),
    "acquire in a disbanded room": ("R", "R", "R", "R", "R", "R"),
    "renew": ("L", ">held 1", "L", "L", "L", ">held 1"),
    "renew an older generation": ("L", "L", "L", "L", "L", "L"),
    "renew by another process": ("L", "L", "L", "L", "L", "L"),
    "renew in a disbanded room": ("R", "R", "R", "R", "R", "R"),
    "release": ("L", ">released 1", "L", "L", "=", "I"),
    "release an older generation": ("L", "L", "L", "L", "L", "L"),
    "release by another process": ("L", "L", "L", "L", "L", "L"),
    "release in a disbanded room": ("R", "R", "R", "R", "R", "R"),
}


@frozen
class Call:
    """What one cell calls with."""

    world: World
    lease: DriverLease
    gateway: str
    epoch: int


def _acquire(call: Call, process: str = "p1", **changes: Any) -> DriverLease:
    arguments = {"gateway": call.gateway, "epoch": call.epoch, **changes}
    return call.world.acquire(process, **arguments)


def _renew(call: Call, **changes: Any) -> object:
    return driver.renew_lease(call.world.db, evolve(call.lease, **changes), ttl_seconds=90)


def _release(call: Call, **changes: Any) -> Any:
    return driver.release_lease(call.world.db, evolve(call.lease, **changes))


def _disbanded(call: Call) -> Call:
    rooms.disband_room(call.world.db, room_id="room", expected_gateway_id=call.gateway, expected_epoch=call.epoch)
    return call


CALLS: dict[str, Callable[[Call], Any]] = {
    "acquire": _acquire,
    "acquire by another process": lambda call: _acquire(call, "p2"),
    "acquire by another gateway": lambda call: _acquire(call, gateway="gw9"),
    "acquire at an older epoch": lambda call: _acquire(call, epoch=call.epoch + 1),
    "acquire in a disbanded room": lambda call: _acquire(_disbanded(call)),
    "renew": _renew,
    "renew an older generation": lambda call: _renew(call, lease_generation=call.lease.lease_generation + 1),
    "renew by another process": lambda call: _renew(call, process_generation="p2"),
    "renew in a disbanded room": lambda call: _renew(_disbanded(call)),
    "release": _release,
    "release an older generation": lambda call: _release(call, lease_generation=call.lease.lease_generation + 1),
    "release by another process": lambda call: _release(call, process_generation="p2"),
    "release in a disbanded room": lambda call: _release(_disbanded(call)),
}


def _bring(world: World, state: str) -> Call:
    call = Call(world, world.lease, "gw", 1)
    if state == "vacant":
        world.execute(f"DELETE FROM {LEASES.name}")
    if state == "expired":
        world.clock.advance(60)
    if state == "released":
        driver.release_lease(world.db, world.lease)
    if state == "held with running work":
        world.start()
    if state == "held under another authority":
        claim = {"expected_gateway_id": "gw", "expected_epoch": 1, "new_gateway_id": "gw2", "event_id": "e1"}
        rooms.claim_authority(world.db, room_id="room", **claim)
        return evolve(call, gateway="gw2", epoch=2)
    return call


def _lease(world: World) -> dict[str, Any]:
    return (world.everything()[LEASES.name] or [{}])[0]


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [(name, state, code) for name, codes in MATRIX.items() for state, code in zip(STATES, codes, strict=True)],
)
def test_cell(world: World, name: str, state: str, code: str) -> None:
    """A call on a lease does what the table says, and a refusal leaves every row as it was."""
    call = _bring(world, state)
    if "disbanded" in name:
        _disbanded(call)
    before = world.everything()
    if code in REFUSALS:
        with pytest.raises(REFUSALS[code]) as refusal:
            CALLS[name](call)
        assert type(refusal.value) is REFUSALS[code]
        assert world.everything() == before
        return
    answer = CALLS[name](call)
    if code == "=":
        assert answer["idempotent"] is True
        assert world.everything() == before
        return
    expected, generation = code[1:].split()
    row = _lease(world)
    assert (row["released_at"] is None) == (expected == "held")
    assert row["lease_generation"] == int(generation)


def test_the_matrix_covers_every_state() -> None:
    """No declared state of driver_lease is missing from the table."""
    assert {state.name for state in DRIVER_LEASE.states} <= set(STATES)


def test_an_expiry_is_never_shortened(world: World) -> None:
    """Neither acquiring again nor renewing with a shorter time brings the expiry forward."""
    first = world.lease.expires_at
    assert world.acquire("p1", ttl=1).expires_at == first
    assert driver.renew_lease(world.db, world.lease, ttl_seconds=1).expires_at == first
    assert driver.renew_lease(world.db, world.lease, ttl_seconds=100).expires_at == first + 40


def test_a_clock_that_steps_back_shortens_nothing(world: World) -> None:
    """A clock stepped back may delay an expiry and never brings one forward."""
    world.clock.advance(-1000)
    assert driver.renew_lease(world.db, world.lease, ttl_seconds=60).expires_at == world.lease.expires_at


def test_a_lease_ends_at_its_expiry(world: World) -> None:
    """At the very instant of its expiry a lease is over: not renewed by its holder, free for another."""
    world.clock.advance(59.999)
    with pytest.raises(LeaseHeldError):
        world.acquire("p2")
    world.clock.now = world.lease.expires_at
    with pytest.raises(StaleLeaseError):
        driver.renew_lease(world.db, world.lease, ttl_seconds=60)
    assert world.acquire("p2").lease_generation == 2


@pytest.mark.parametrize("state", ["vacant", "held", "expired", "released"])
def test_reclaimed_tells_whether_a_term_came_before(world: World, state: str) -> None:
    """`reclaimed` is True for a new term after an earlier one and False for a first or an extended term."""
    lease = _acquire(_bring(world, state))
    assert lease.reclaimed is (state in {"expired", "released"})


def test_the_same_holder_in_a_newer_term_is_not_touched_by_its_older_self(world: World) -> None:
    """A process that acquired again after its term ended cannot renew or release with the older lease."""
    older = world.lease
    world.clock.advance(61)
    newer = world.acquire("p1")
    for call in (
        lambda: driver.renew_lease(world.db, older, ttl_seconds=60),
        lambda: driver.release_lease(world.db, older),
    ):
        with pytest.raises(StaleLeaseError):
            call()
    assert driver.renew_lease(world.db, newer, ttl_seconds=60).lease_generation == 2
