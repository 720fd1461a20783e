"""The gateway's declarations: their names, their size, and that each state's name stands in one place."""

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from fsm.lifecycle import Lifecycle
from fsm.lifecycles import (
    DRIVER_LEASE,
    DRIVER_TASK,
    HOSTED_ROOM,
    LIFECYCLES,
    PEER_RESERVATION,
    SESSION_ADMISSION,
    SESSION_TURN_LEASE,
    WORKER_EXECUTION,
    admission_states,
    driver_lease,
    driver_task,
    hosted_room,
    peer_reservation,
    session_turn_lease,
    worker_execution,
)
from fsm.lifecycles.admission_states import SessionAdmissionState
from fsm.lifecycles.driver_lease import DriverLeaseState
from fsm.lifecycles.driver_task import DriverTaskState
from fsm.lifecycles.hosted_room import HostedRoomState
from fsm.lifecycles.peer_reservation import PeerReservationState
from fsm.lifecycles.session_turn_lease import SessionTurnLeaseState
from fsm.lifecycles.tables import TASKS
from fsm.lifecycles.worker_execution import WorkerExecutionState
from fsm.schema import table_of

ALIASES = {
    "driver_lease": DriverLeaseState,
    "driver_task": DriverTaskState,
    "hosted_room": HostedRoomState,
    "peer_reservation": PeerReservationState,
    "session_admission": SessionAdmissionState,
    "session_turn_lease": SessionTurnLeaseState,
    "worker_execution": WorkerExecutionState,
}
FILES = {
    "driver_lease": driver_lease,
    "driver_task": driver_task,
    "hosted_room": hosted_room,
    "peer_reservation": peer_reservation,
    "session_admission": admission_states,
    "session_turn_lease": session_turn_lease,
    "worker_execution": worker_execution,
}


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_the_alias_names_the_declared_states(lifecycle: Lifecycle) -> None:
    """The Literal alias that type checkers read has exactly the declared states."""
    names = get_args(ALIASES[lifecycle.name])
    assert sorted(names) == sorted(state.name for state in lifecycle.states)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_a_state_is_named_once(lifecycle: Lifecycle) -> None:
    """Beside the alias, a state's name stands once in its declaration, and in others only as their own."""
    for state in lifecycle.states:
        for name, module in FILES.items():
            own = state.name in {each.name for each in declared(name).states}
            stored = state.name in {text for texts in declared(name).stored_values().values() for text in texts}
            expected = 2 if own else 1 if stored else 0
            assert constants_of(module).count(state.name) == expected, (state.name, name)


def declared(name: str) -> Lifecycle:
    """Return the lifecycle of this name."""
    return next(each for each in LIFECYCLES if each.name == name)


def constants_of(module: ModuleType) -> list[object]:
    """Return every constant that stands in a module's file."""
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]


@pytest.mark.parametrize(
    ("lifecycle", "states", "edges", "final"),
    [
        (DRIVER_LEASE, 4, 11, ()),
        (DRIVER_TASK, 8, 30, ("settled", "failed", "cancelled")),
        (HOSTED_ROOM, 4, 8, ("retired",)),
        (PEER_RESERVATION, 4, 13, ()),
        (
            SESSION_ADMISSION,
            10,
            38,
            ("completed", "interrupted", "rejected", "failed", "cancelled", "steered"),
        ),
        (WORKER_EXECUTION, 4, 18, ("terminal",)),
        (SESSION_TURN_LEASE, 3, 9, ()),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_size_is_pinned(lifecycle: Lifecycle, states: int, edges: int, final: tuple[str, ...]) -> None:
    """An accidental state or edge changes a number that a reviewer sees."""
    assert len(lifecycle.states) == states
    assert sum(len(trigger.edges) for trigger in lifecycle.triggers) == edges
    assert tuple(state.name for state in lifecycle.final) == final


def test_the_check_is_derived() -> None:
    """The CHECK of a status column lists the declared states, and a derived lifecycle has none."""
    stored = {column.name: column.one_of for column in table_of(DRIVER_TASK).columns}
    assert stored["status"] == tuple(state.name for state in DRIVER_TASK.states)
    assert not any(column.one_of for column in TASKS.columns)
    assert not any(column.one_of for column in table_of(DRIVER_LEASE).columns)
