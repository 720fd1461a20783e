"""What a person may decide about an uncertain task, each as one call of `fsm.driver`."""

from collections.abc import Callable
from typing import Final, TypedDict, TypeVar

from attrs import frozen

from fsm.cli.output import standing
from fsm.cli.refusal import CommandRefusedError
from fsm.driver import (
    DriverLease,
    TaskView,
    complete_task_cancel,
    defer_indeterminate_task,
    requeue_deferred_task,
    requeue_indeterminate_task,
    resolve_indeterminate_cancellation,
    resolve_indeterminate_task,
    settle_stopping_task,
)
from fsm.lifecycle import State
from fsm.lifecycles.driver_task import DEFERRED, INDETERMINATE, STOPPING
from storage import Database, OutcomeUnknownError

__all__ = ["Case", "Decide", "came_to_an_end", "run_again", "set_aside", "twice_if_unknown", "was_stopped"]

_Answer = TypeVar("_Answer")


class _Generations(TypedDict):
    expected_execution_generation: int
    expected_cancel_generation: int


@frozen
class Case:
    """The task as it was read under the lease, and the id under which the decision is stored."""

    db: Database
    lease: DriverLease
    task: TaskView
    decision_id: str

    def fence(self) -> _Generations:
        """Return the generations that the decision is about."""
        return {
            "expected_execution_generation": self.task["execution_generation"],
            "expected_cancel_generation": self.task["cancel_generation"],
        }

    def is_in(self, state: State) -> bool:
        """Say whether the task was read in this state."""
        return self.task["status"] == state.name

    def refusal(self, *open_states: State) -> CommandRefusedError:
        """Return the error that says where the task stands, and where it would have to."""
        names = " or ".join(state.name for state in open_states)
        return CommandRefusedError(f"{standing(self.task)}; only a task that is {names} can be resolved so")


Decide = Callable[[Case], TaskView]


def came_to_an_end(state: State, answer: str | None) -> Decide:
    """Decide that the run came to an end: settled, or failed."""
    result: Final = {"resolved_by": "operator", "stdout": answer or ""}

    def decide(case: Case) -> TaskView:
        call = resolve_indeterminate_task if case.is_in(INDETERMINATE) else settle_stopping_task
        if not case.is_in(INDETERMINATE) and not case.is_in(STOPPING):
            raise case.refusal(INDETERMINATE, STOPPING)
        return call(
            case.db,
            case.task["identity"],
            case.lease,
            settlement_id=case.decision_id,
            status=state.name,
            result=result,
            **case.fence(),
        )

    return decide


def was_stopped(case: Case) -> TaskView:
    """Decide that the run was stopped; where a stop had been asked for, this acknowledges it."""
    identity = case.task["identity"]
    if case.is_in(STOPPING):
        return complete_task_cancel(
            case.db,
            identity,
            cancel_id=case.task["cancel_id"],
            expected_cancel_generation=case.task["cancel_generation"],
        )
    if not case.is_in(INDETERMINATE):
        raise case.refusal(INDETERMINATE, STOPPING)
    return resolve_indeterminate_cancellation(case.db, identity, case.lease, cancel_id=case.decision_id, **case.fence())


def run_again(case: Case) -> TaskView:
    """Decide that the task is to run again."""
    if case.is_in(INDETERMINATE):
        return requeue_indeterminate_task(case.db, case.task["identity"], case.lease, **case.fence())
    if case.is_in(DEFERRED):
        return requeue_deferred_task(case.db, case.task["identity"], case.lease, **case.fence())
    raise case.refusal(INDETERMINATE, DEFERRED)


def set_aside(reason: str) -> Decide:
    """Decide that the task is set aside; it can be requeued later."""

    def decide(case: Case) -> TaskView:
        if not case.is_in(INDETERMINATE):
            raise case.refusal(INDETERMINATE)
        return defer_indeterminate_task(case.db, case.task["identity"], case.lease, reason=reason, **case.fence())

    return decide


def twice_if_unknown(call: Callable[[], _Answer]) -> _Answer:
    """Make a call again whose answer was lost: every decision, and every change of a room, replays."""
    try:
        return call()
    except OutcomeUnknownError:
        return call()
