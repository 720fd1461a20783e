"""Every state of a task against every operation, right and wrong in each way; the table is the contract."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, frozen

from fsm import driver, rooms
from fsm.driver import (
    DriverLease,
    DriverValidationError,
    InvalidTaskTransitionError,
    RoomUnavailableError,
    StaleLeaseError,
    StaleTaskError,
    TaskAttempt,
    TaskConflictError,
)
from fsm.lifecycles import DRIVER_TASK
from tests.world import World, identity, payload

STATES = ("none", "queued", "running", "settled", "failed", "cancelled", "indeterminate", "deferred", "stopping")

REFUSALS: dict[str, type[Exception]] = {
    "V": DriverValidationError,
    "R": RoomUnavailableError,
    "L": StaleLeaseError,
    "C": TaskConflictError,
    "S": StaleTaskError,
    "I": InvalidTaskTransitionError,
}
LEASE_FIRST = {"stale lease": "L", "expired lease": "L", "other authority": "L", "other room": "V", "disbanded": "R"}

# `>state`: done; `=`: an exact retry; `-`: nothing to do; a letter: refused. One code alone stands for every state.
# The columns:         none queued running settled failed cancelled indeterminate deferred stopping
MATRIX: dict[str, dict[str, str]] = {
    "admit": {
        "own": ">queued        =        =        =        =        =        =        =        =",
        "other payload": ">queued   C     C        C        C        C        C        C        C",
        "other turn": ">queued      C     C        C        C        C        C        C        C",
        "disbanded": "R",
    },
    "start": {
        "own": "C       >running  I        I        I        I        I        I        I",
        "wrong cancel": "C  S      S        S        S        S        S        S        S",
        **LEASE_FIRST,
    },
    "settle": {
        "own": "C          S      >settled =        C        S        S        S        S",
        "stale lease": "C  L      L        =        C        L        L        L        L",
        "expired lease": "C L     L        =        C        L        L        L        L",
        "other authority": "C L   L        =        C        L        L        L        L",
        "other room": "V",
        "disbanded": "C    R      R        =        C        R        R        R        R",
        "wrong execution": "C S   S        =        C        S        S        S        S",
        "wrong cancel": "C  S      S        =        C        S        S        S        S",
    },
    "settle_stopping": {
        "own": "C          S      S        =        C        S        S        S        >settled",
        "stale lease": "C  L      L        =        C        L        L        L        L",
        "expired lease": "C L     L        =        C        L        L        L        L",
        "other authority": "C L   L        =        C        L        L        L        L",
        "other room": "V",
        "disbanded": "C    R      R        =        C        R        R        R        R",
        "wrong execution": "C S   S        =        C        S        S        S        S",
        "wrong cancel": "C  S      S        =        C        S        S        S        S",
    },
    "requeue_not_admitted": {
        "own": "C          S      >queued  S        S        S        S        S        S",
        "wrong execution": "C S   S        S        S        S        S        S        S",
        "wrong cancel": "C  S      S        S        S        S        S        S        S",
        **LEASE_FIRST,
    },
    "recover": {
        "own": "-",
        "successor": "-    -      >indeterminate - -      -        -        -        -",
        **{way: code for way, code in LEASE_FIRST.items() if way != "other room"},
    },
    "resolve": {
        "own": "C          S      S        =        C        S        >settled S        S",
        "wrong execution": "C S   S        =        C        S        S        S        S",
        "wrong cancel": "C  S      S        =        C        S        S        S        S",
        **LEASE_FIRST,
    },
    "resolve_cancel": {
        "own": "C          S      S        S        S        =        >cancelled S      S",
        "wrong execution": "C S   S        S        S        =        S        S        S",
        "wrong cancel": "C  S      S        S        S        =        S        S        S",
        **LEASE_FIRST,
    },
    "requeue": {
        "own": "C          S      S        S        S        S        >queued  S        S",
        "wrong execution": "C S   S        S        S        S        S        S        S",
        "wrong cancel": "C  S      S        S        S        S        S        S        S",
        **LEASE_FIRST,
    },
    "defer": {
        "own": "C          S      S        S        S        S        >deferred =       S",
        "wrong execution": "C S   S        S        S        S        S        S        S",
        "wrong cancel": "C  S      S        S        S        S        S        S        S",
        **LEASE_FIRST,
    },
    "requeue_deferred": {
        "own": "C          S      S        S        S        S        S        >queued  S",
        "wrong execution": "C S   S        S        S        S        S        S        S",
        "wrong cancel": "C  S      S        S        S        S        S        S        S",
        **LEASE_FIRST,
    },
    "cancel": {
        "own": "C          >cancelled I    I        I        =        I        >cancelled I",
        "wrong cancel": "C  S      I        I        I        =        I        S        I",
        "other cancel id": "C >cancelled I I        I        I        I        >cancelled I",
        "disbanded": "C    >cancelled I    I        I        =        I        >cancelled I",
    },
    "begin_cancel": {
        "own": "C          I      >stopping I       I        I        >stopping I       =",
        "wrong cancel": "C  I      S        I        I        I        S        I        =",
        "other cancel id": "C I   >stopping I       I        I        >stopping I       S",
        "disbanded": "C    I      >stopping I       I        I        >stopping I       =",
    },
    "complete_cancel": {
        "own": "C          S      S        S        S        =        S        S        >cancelled",
        "wrong cancel": "C  S      S        S        S        =        S        S        S",
        "other cancel id": "C S   S        S        S        S        S        S        S",
        "disbanded": "C    S      S        S        S        =        S        S        >cancelled",
    },
    "prune": {
        "own": "-          -      -        >gone    >gone    >gone    -        -        -",
        "unpublished": "-",
    },
    "purge": {"own": "- >gone >gone >gone >gone >gone >gone >gone >gone"},
}


@frozen
class Call:
    """What one cell calls with."""

    world: World
    lease: DriverLease
    execution: int
    cancel: int
    cancel_id: str = "c1"
    thread: str = "thread"
    prompt: str = "say hello"

    @property
    def attempt(self) -> TaskAttempt:
        return TaskAttempt(identity(), self.lease, self.execution, self.cancel)

    @property
    def generations(self) -> dict[str, Any]:
        return {"expected_execution_generation": self.execution, "expected_cancel_generation": self.cancel}

    @property
    def cancelling(self) -> dict[str, Any]:
        return {"cancel_id": self.cancel_id, "expected_cancel_generation": self.cancel}


SETTLEMENT: dict[str, Any] = {"settlement_id": "s1", "status": "settled", "result": {"n": 1}}


def _prune(call: Call) -> object:
    return driver.prune_published_terminal_tasks(call.world.db, room_id="room", retain=0)


def _purge(call: Call) -> object:
    rooms.disband_room(call.world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1)
    call.world.clock.advance(91 * 24 * 60 * 60)
    return rooms.prune_disbanded_rooms(call.world.db)


OPERATIONS: dict[str, Callable[[Call], Any]] = {
    "admit": lambda c: driver.admit_task(
        c.world.db, evolve(identity(), thread_id=c.thread), payload=payload(prompt=c.prompt)
    ),
    "start": lambda c: driver.start_task(c.world.db, identity(), c.lease, expected_cancel_generation=c.cancel),
    "settle": lambda c: driver.settle_task(c.world.db, c.attempt, **SETTLEMENT),
    "settle_stopping": lambda c: driver.settle_stopping_task(
        c.world.db,
        identity(),
        c.lease,
        **{**c.generations, "expected_cancel_generation": max(1, c.cancel)},
        **SETTLEMENT,
    ),
    "requeue_not_admitted": lambda c: driver.requeue_not_admitted_task(c.world.db, c.attempt),
    "recover": lambda c: driver.recover_room(c.world.db, c.lease),
    "resolve": lambda c: driver.resolve_indeterminate_task(
        c.world.db, identity(), c.lease, **c.generations, **SETTLEMENT
    ),
    "resolve_cancel": lambda c: driver.resolve_indeterminate_cancellation(
        c.world.db, identity(), c.lease, **c.generations, cancel_id=c.cancel_id
    ),
    "requeue": lambda c: driver.requeue_indeterminate_task(c.world.db, identity(), c.lease, **c.generations),
    "defer": lambda c: driver.defer_indeterminate_task(
        c.world.db, identity(), c.lease, **c.generations, reason="later"
    ),
    "requeue_deferred": lambda c: driver.requeue_deferred_task(c.world.db, identity(), c.lease, **c.generations),
    "cancel": lambda c: driver.cancel_task(c.world.db, identity(), **c.cancelling),
    "begin_cancel": lambda c: driver.begin_task_cancel(c.world.db, identity(), **c.cancelling),
    "complete_cancel": lambda c: driver.complete_task_cancel(c.world.db, identity(), **c.cancelling),
    "prune": _prune,
    "purge": _purge,
}


def _publish(world: World) -> None:
    world.execute("CREATE TABLE hosted_room_policy_publications (room_id TEXT, task_id TEXT, kind TEXT)")
    for kind in ("settled", "failed", "cancelled"):
        world.execute("INSERT INTO hosted_room_policy_publications VALUES ('room', 't1', :kind)", kind=f"turn.{kind}")


def _take_over(call: Call) -> Call:
    call.world.clock.advance(61)
    call.world.acquire("thief")
    return call


def _expire(call: Call) -> Call:
    call.world.clock.advance(61)
    return call


def _claim(call: Call) -> Call:
    rooms.claim_authority(
        call.world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1, new_gateway_id="gw2", event_id="e1"
    )
    return call


def _elsewhere(call: Call) -> Call:
    call.world.create_room("elsewhere")
    return evolve(call, lease=call.world.acquire("p1", room="elsewhere"))


def _disband(call: Call) -> Call:
    rooms.disband_room(call.world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1)
    return call


def _published(call: Call) -> Call:
    _publish(call.world)
    return call


WAYS: dict[str, Callable[[Call], Call]] = {
    "own": lambda call: call,
    "stale lease": _take_over,
    "expired lease": _expire,
    "successor": lambda call: evolve(call, lease=call.world.take_over()),
    "other authority": _claim,
    "other room": _elsewhere,
    "disbanded": _disband,
    "wrong execution": lambda call: evolve(call, execution=call.execution + 1),
    "wrong cancel": lambda call: evolve(call, cancel=call.cancel + 1),
    "other cancel id": lambda call: evolve(call, cancel_id="c2"),
    "other payload": lambda call: evolve(call, prompt="say goodbye"),
    "other turn": lambda call: evolve(call, thread="another"),
    "unpublished": lambda call: call,
}

CELLS = [
    (operation, way, state, code)
    for operation, lines in MATRIX.items()
    for way, line in lines.items()
    for state, code in zip(STATES, line.split() * (1 if " " in line else len(STATES)), strict=True)
]


@pytest.mark.parametrize(("operation", "way", "state", "code"), CELLS)
def test_cell(world: World, operation: str, way: str, state: str, code: str) -> None:
    """An operation from a state does what the table says, and a refusal leaves every row as it was."""
    if state != "none":
        world.bring(state)
    stored = world.row() or {}
    execution, cancel = int(stored.get("execution_generation") or 0), int(stored.get("cancel_generation") or 0)
    call = WAYS[way](Call(world, world.lease, max(1, execution), cancel))
    if operation == "prune" and way == "own":
        _publish(world)
    before = world.everything()
    if code in REFUSALS:
        with pytest.raises(REFUSALS[code]) as refusal:
            OPERATIONS[operation](call)
        assert type(refusal.value) is REFUSALS[code]
        assert world.everything() == before
        return
    answer = OPERATIONS[operation](call)
    after = world.row()
    if code == "=":
        assert answer["idempotent"] is True
        assert world.everything() == before
    elif code == "-":
        assert after == (stored or None)
    elif code == ">gone":
        assert after is None
    else:
        assert after is not None
        assert after["status"] == code[1:]
        assert operation in {"start", "recover"} or answer["idempotent"] is False


def test_the_matrix_covers_every_state_and_trigger() -> None:
    """No declared state or trigger of driver_task is missing from the table."""
    names = {"lose": "recover"}
    assert set(STATES) - {"none"} == {state.name for state in DRIVER_TASK.states}
    assert set(MATRIX) == {names.get(trigger.name, trigger.name) for trigger in DRIVER_TASK.triggers}


def test_the_matrix_takes_every_edge() -> None:
    """Every declared edge that an operation can take from a state is taken by some cell of the table."""
    names = {"recover": "lose"}
    taken = {
        (names.get(operation, operation), "new" if state == "none" else state, code[1:])
        for operation, _, state, code in CELLS
        if code.startswith(">")
    }
    declared = {(t.name, e.source.name, e.dest.name) for t in DRIVER_TASK.triggers for e in t.edges}
    # The table settles with one outcome; the other outcome of each choice is taken in the tests of settlements.
    assert declared - taken == {
        (t, s, "failed")
        for t, s in (("settle", "running"), ("settle_stopping", "stopping"), ("resolve", "indeterminate"))
    }
    assert taken <= declared
