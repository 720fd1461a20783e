"""Two processes want the same thing at the same moment, five hundred times: one of them gets it."""

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from attrs import asdict

from fsm import driver, rooms
from fsm.driver import TaskAttempt
from fsm.driver.values import lease_of
from fsm.schema import GATEWAY_SCHEMA
from storage import wrong_totals
from tests.faults.processes import Child, children, soon
from tests.rooms.peers import scope
from tests.world import World, identity

pytestmark = pytest.mark.contention

ROUNDS: Final = 500
NAMES: Final = ("left", "right")
DICE: Final = random.Random(1)  # noqa: S311 # the same dice every time


@pytest.fixture
def contenders() -> Iterator[tuple[Child, ...]]:
    """Two long-lived processes."""
    with children("tests.faults.contender", *((name,) for name in NAMES)) as started:
        yield started


def together(contenders: tuple[Child, ...], world: World, **order: object) -> dict[str, dict[str, Any]]:
    """Let both carry out one order at one moment, and return what each was answered.

    They are told in turn and set off within a tenth of a millisecond, which is less than a transaction takes: so each
    arrives before, within and after the other's.
    """
    at = soon()
    for child in DICE.sample(contenders, len(contenders)):
        child.tell(at=at + DICE.uniform(0, 0.0001), path=world.db.location, room="room", now=world.clock.now, **order)
    return {name: child.hear() for name, child in zip(NAMES, contenders, strict=True)}


def race(contenders: tuple[Child, ...], world: World, **order: object) -> tuple[str, int, str]:
    """Let both carry out one order at one moment; return who won, what it won, and what the other was told."""
    answers = together(contenders, world, **order)
    winners = [name for name, answer in answers.items() if "won" in answer]
    assert len(winners) == 1, answers
    (refused,) = (answer["error"] for answer in answers.values() if "error" in answer)
    return winners[0], answers[winners[0]]["won"], refused


def vacate(world: World, kind: int) -> int:
    """Make the lease vacant, released or expired; return the generation that the next holder must get."""
    (row,) = world.execute("SELECT * FROM hosted_room_driver_leases")
    held = lease_of(row)
    if kind == 0:
        world.execute("DELETE FROM hosted_room_driver_leases")
        return 1
    if kind == 1:
        driver.release_lease(world.db, held)
    else:
        world.clock.now = held.expires_at
    return held.lease_generation + 1


def test_one_of_two_processes_gets_a_lease(world: World, contenders: tuple[Child, ...]) -> None:
    """Of two processes that acquire one vacant, released or expired lease at once, exactly one holds it, and the other
    is told LeaseHeldError
    """
    won = dict.fromkeys(NAMES, 0)
    for number in range(ROUNDS):
        expected = vacate(world, number % 3)
        winner, generation, refused = race(contenders, world, what="acquire")
        won[winner] += 1
        (row,) = world.execute("SELECT * FROM hosted_room_driver_leases")
        held = (row["process_generation"], row["lease_generation"], row["expires_at"], row["released_at"])
        assert held == (winner, expected, world.clock.now + 60, None)
        assert generation == expected
        assert refused == "LeaseHeldError"
    assert min(won.values()) >= 1, f"the race was not one: {won}"


def test_one_of_two_processes_starts_a_task(world: World, contenders: tuple[Child, ...]) -> None:
    """Of two processes that start one task under one lease at once, exactly one is answered with the attempt, and the
    other is told that the task is not, or no longer, where it believed
    """
    won = dict.fromkeys(NAMES, 0)
    for number in range(ROUNDS):
        task = f"t{number}"
        world.admit(task, number + 1)
        winner, generation, refused = race(contenders, world, what="start", task=task, lease=asdict(world.lease))
        won[winner] += 1
        row = world.row(task) or {}
        assert (row["status"], row["execution_generation"], generation) == ("running", 1, 1)
        assert refused in {"InvalidTaskTransitionError", "StaleTaskError"}
        attempt = TaskAttempt(identity(task), world.lease, generation, 0)
        driver.settle_task(world.db, attempt, settlement_id=f"s{number}", status="settled", result=None)
    assert min(won.values()) >= 1, f"the race was not one: {won}"


def test_one_of_two_rivals_reserves_a_profile(world: World, contenders: tuple[Child, ...]) -> None:
    """Of two gateways that reserve one profile for the same epoch of a room at once, through members of their own,
    exactly one holds it, and the other is told AuthorityConflictError
    """
    won = dict.fromkeys(NAMES, 0)
    for _ in range(ROUNDS):
        world.clock.advance(60)
        winner, at, refused = race(contenders, world, what="reserve", claims=scope())
        won[winner] += 1
        assert (at, refused) == (int(world.clock.now), "AuthorityConflictError")
        rows = world.execute("SELECT * FROM hosted_room_peer_reservations")
        assert [(row["member_id"], row["authority_gateway_id"], row["revoked_at"]) for row in rows] == [
            (winner, winner, None)
        ]
    assert min(won.values()) >= 1, f"the race was not one: {won}"


def test_two_processes_append_to_one_log(world: World, contenders: tuple[Child, ...]) -> None:
    """Of two processes that append at once, each gets a number of its own, without a gap; under one id both get the
    same event, which one of them stored; and the totals are those of the rows
    """
    first = dict.fromkeys(NAMES, 0)
    for number in range(ROUNDS // 2):
        answers = together(contenders, world, what="append", event=f"own-{number}-{{process}}")
        numbers = {name: answer["won"] for name, answer in answers.items()}
        assert sorted(numbers.values()) == [3 * number + 1, 3 * number + 2]
        first[min(numbers, key=lambda name: numbers[name])] += 1
        shared = together(contenders, world, what="append", event=f"shared-{number}")
        assert sorted(answer["won"] for answer in shared.values()) == [-3 * number - 3, 3 * number + 3]
    assert min(first.values()) >= 1, f"the race was not one: {first}"
    assert world.db.read(lambda tx: wrong_totals(tx, GATEWAY_SCHEMA)) == ()
    assert rooms.room_state(world.db, room_id="room")["latest_seq"] == 3 * (ROUNDS // 2)


def test_one_of_two_processes_gets_the_last_room(world: World, contenders: tuple[Child, ...]) -> None:
    """Of two processes that create a room at once where one more is allowed, exactly one has it"""
    for number in range(1, 255):
        world.create_room(f"other-{number}")
    won = dict.fromkeys(NAMES, 0)
    for number in range(ROUNDS // 5):
        winner, _, refused = race(contenders, world, what="create", prefix=f"last-{number}")
        won[winner] += 1
        assert refused == "HostedRoomError"
        rooms.disband_room(world.db, room_id=f"last-{number}-{winner}", expected_gateway_id="gw", expected_epoch=1)
    assert min(won.values()) >= 1, f"the race was not one: {won}"
    assert world.db.read(lambda tx: wrong_totals(tx, GATEWAY_SCHEMA)) == ()
