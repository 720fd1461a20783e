"""Every state of an execution against every operation, by its owner and by others; the table is the contract."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, field, frozen

from fsm.lifecycles import WORKER_EXECUTION
from tests.workers.support import SECRET, Works

STATES = ("none", "registered", "running", "unknown", "unknown_here", "terminal")
"""`unknown_here`: unknown within the present epoch, as only a gateway that writes its own rows leaves it."""
REFUSALS = {
    "E": "stale_epoch",
    "G": "stale_generation",
    "N": "not_found",
    "D": "permission_denied",
    "C": "admission_conflict",
    "P": "invalid_params",
}

# `>state`: done; `=`: answered as stored; a letter: refused. One code alone stands for all.
# Columns:               none        registered running   unknown  unknown_here terminal
MATRIX: dict[str, dict[str, str]] = {
    "register": {
        "own": ">registered          =          =         C        =         =",
        "idle asked": ">registered   =          =         C        =         =",
        "successor": ">registered    C          C         C        C         C",
        "wrong secret": ">registered C          C         C        C         C",
        "other kind": ">registered   C          C         C        C         C",
        "other session": ">registered C         C         C        C         C",
        "wrong generation": "G",
        "session moved on": "G",
        "no session": "N",
        "older epoch": "E",
    },
    "adopt": {
        "own": "N                    >running   >running  >running >running  G",
        "successor": "N              >running   >running  >running >running  G",
        "wrong secret": "N           D          D         D        D         G",
        "other session": "N          D          D         D        D         D",
        "wrong generation": "N       G          G         G        G         G",
        "session moved on": "N       G          G         G        G         G",
        "no session": "N             D          D         D        D         D",
        "older epoch": "E",
    },
    "apply": {
        "own": "N                    >running   >running  E        G         G",
        "successor": "N              E          E         E        E         E",
        "other session": "N          D          D         D        D         D",
        "wrong generation": "N       G          G         G        G         G",
        "session moved on": "N       G          G         G        G         G",
        "number left out": "N        P          P         E        G         G",
        "number zero": "P",
        "older epoch": "E",
        "again": "N                  >running   =         E        =         =",
        "again, moved on": "N        G          =         E        =         =",
        "again, successor": "N       E          E         E        E         E",
        "again, successor, moved on": "N G      E         E        E         E",
        "again, wrong generation": "N G         G         G        G         G",
        "again, other session": "N   D          D         D        D         D",
        "again, older epoch": "E",
        "other digest": "N           >running   C         E        C         C",
        "other digest, moved on": "N G          G         G        G         G",
    },
    "finish": {
        "own": "N                    >terminal  >terminal E        G         G",
        "successor": "N              E          E         E        E         E",
        "other session": "N          D          D         D        D         D",
        "wrong generation": "N       G          G         G        G         G",
        "session moved on": "N       G          G         G        G         G",
        "number left out": "N        P          P         E        G         G",
        "number zero": "P",
        "older epoch": "E",
        "again": "N                  >terminal  C         E        C         =",
        "again, moved on": "N        G          G         G        G         =",
        "again, successor": "N       E          E         E        E         E",
        "again, older epoch": "E",
    },
}

SAID = {"messages": [{"role": "user", "content": "hello"}]}
SAID_OTHERWISE = {"messages": [{"role": "user", "content": "good day"}]}


@frozen
class Call:
    """What one cell calls with."""

    works: Works
    sequence: int
    given: dict[str, Any] = field(factory=dict)
    payload: dict[str, Any] = field(default=SAID)

    def with_given(self, **given: Any) -> "Call":
        """Return the call with other arguments."""
        return evolve(self, given={**self.given, **given})


OPERATIONS: dict[str, Callable[[Call], Any]] = {
    "register": lambda c: c.works.register(**c.given),
    "adopt": lambda c: c.works.adopt(**c.given),
    "apply": lambda c: c.works.do("transcript.append", c.payload, c.sequence, **c.given),
    "finish": lambda c: c.works.do("execution.finish", {}, c.sequence, **c.given),
}


def _moved_on(call: Call) -> Call:
    call.works.owner.execute("UPDATE sessions SET runtime_generation = 7 WHERE id = 's'")
    return call


def _older(call: Call) -> Call:
    call.works.succeed()
    return call


def _again(call: Call) -> Call:
    """Repeat the first number, and where the execution has ended the one under which it was finished."""
    return evolve(call, sequence=1)


WAYS: dict[str, Callable[[Call], Call]] = {
    "own": lambda call: call,
    "again": _again,
    "idle asked": lambda call: call.with_given(require_idle=True),
    "successor": lambda call: evolve(call, works=call.works.succeed()),
    "older epoch": _older,
    "moved on": _moved_on,
    "session moved on": _moved_on,
    "wrong secret": lambda call: call.with_given(adoption_secret=f"{SECRET}!"),
    "other kind": lambda call: call.with_given(kind="child"),
    "other session": lambda call: call.with_given(session_id="other"),
    "no session": lambda call: call.with_given(session_id="nowhere"),
    "wrong generation": lambda call: call.with_given(generation=1),
    "number left out": lambda call: evolve(call, sequence=call.sequence + 1),
    "number zero": lambda call: evolve(call, sequence=0),
    "other digest": lambda call: evolve(call, payload=SAID_OTHERWISE, sequence=1),
}

CELLS = [
    (operation, way, state, code)
    for operation, lines in MATRIX.items()
    for way, line in lines.items()
    for state, code in zip(STATES, line.split() * (1 if " " in line else len(STATES)), strict=True)
]


def bring(works: Works, state: str) -> Works:
    """Bring worker `w` into a state of the table."""
    if state != "unknown_here":
        return works.bring(state)
    here = works.bring("unknown")
    here.alter(owner_epoch=here.owner.epoch)
    return here


@pytest.mark.parametrize(("operation", "way", "state", "code"), CELLS)
def test_cell(works: Works, operation: str, way: str, state: str, code: str) -> None:
    """An operation from a state does what the table says, and a refusal leaves every row as it was."""
    works.owner.open("other")
    brought = bring(works, state)
    call = Call(brought, brought.next())
    for part in way.split(", "):
        call = WAYS[part](call)
    if operation == "finish" and "again" in way and state == "terminal":
        call = evolve(call, sequence=2)
    if code in REFUSALS:
        with brought.refuses(REFUSALS[code]):
            OPERATIONS[operation](call)
        return
    before = brought.owner.everything()
    answer = OPERATIONS[operation](call)
    if code == "=":
        assert brought.owner.everything() == before
    else:
        assert brought.state() == code[1:]
    assert answer == stored(brought, operation, call.sequence)


def stored(works: Works, operation: str, sequence: int) -> Any:
    """Return what a call must have answered, by what is stored."""
    if operation in {"register", "adopt"}:
        return {name: value for name, value in (works.row() or {}).items() if name != "adoption_digest"}
    return json.loads(str(works.receipts()[sequence - 1]["result_json"]))


def test_the_matrix_covers_every_state_and_trigger() -> None:
    """No declared state is missing from the table, nor a trigger that an operation of workers fires."""
    assert set(STATES) - {"none", "unknown_here"} == {state.name for state in WORKER_EXECUTION.states}
    effects = {"lose", "retire", "discard", "delete"}
    assert set(MATRIX) == {trigger.name for trigger in WORKER_EXECUTION.triggers} - effects


def test_the_matrix_takes_every_edge() -> None:
    """Every declared edge of these triggers is taken by some cell of the table, and no other one."""
    places = {"none": "new", "unknown_here": "unknown"}
    taken = {(operation, places.get(state, state), code[1:]) for operation, _, state, code in CELLS if code[0] == ">"}
    declared = {
        (trigger.name, edge.source.name, edge.dest.name)
        for trigger in WORKER_EXECUTION.triggers
        for edge in trigger.edges
        if trigger.name in MATRIX
    }
    assert taken == declared
