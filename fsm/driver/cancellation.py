"""Cancelling: at once what has not begun, in two phases what may be at work. Rules: `fsm.lifecycles.driver_task`."""

from fsm.calling import operation
from fsm.driver.machines import TASK_MACHINE, fire
from fsm.driver.parse import Clock, Location, parse_cancel_generation, parse_identity
from fsm.driver.values import TaskIdentity, name
from fsm.driver.views import TaskView, tolerant_view
from fsm.errors import DriverValidationError

__all__ = ["begin_task_cancel", "cancel_task", "complete_task_cancel"]


@operation(DriverValidationError)
def cancel_task(
    db: Location,
    identity: TaskIdentity,
    *,
    cancel_id: object,
    expected_cancel_generation: object,
    clock: Clock | None = None,
) -> TaskView:
    """Cancel a queued or deferred task at once; a damaged one too, whose view then says `corrupt`.

    A retry with the same cancel_id returns what is stored, with `idempotent: True`. Raises DriverValidationError;
    TaskConflictError where the task is missing; InvalidTaskTransitionError where it has ended or may be at work;
    StaleTaskError where its cancel generation moved.
    """
    return _cancel(db, "cancel", identity, cancel_id, expected_cancel_generation, clock)


@operation(DriverValidationError)
def begin_task_cancel(
    db: Location,
    identity: TaskIdentity,
    *,
    cancel_id: object,
    expected_cancel_generation: object,
    clock: Clock | None = None,
) -> TaskView:
    """Ask that a running or indeterminate task stop; it is not stopped until its driver acknowledges.

    A retry with the same cancel_id returns what is stored, with `idempotent: True`. Raises DriverValidationError;
    TaskConflictError where the task is missing; InvalidTaskTransitionError where it has ended or is not at work;
    StaleTaskError where another stop is under way or its cancel generation moved.
    """
    return _cancel(db, "begin_cancel", identity, cancel_id, expected_cancel_generation, clock)


@operation(DriverValidationError)
def complete_task_cancel(
    db: Location,
    identity: TaskIdentity,
    *,
    cancel_id: object,
    expected_cancel_generation: object,
    clock: Clock | None = None,
) -> TaskView:
    """Acknowledge exactly this stop: the task is cancelled. `expected_cancel_generation` is the stop's own.

    A retry with the same cancel_id returns what is stored, with `idempotent: True`. Raises DriverValidationError;
    TaskConflictError where the task is missing; StaleTaskError where the task is not stopping for exactly this.
    """
    return _cancel(db, "complete_cancel", identity, cancel_id, expected_cancel_generation, clock)


def _cancel(
    db: Location, trigger: str, identity: object, cancel_id: object, cancel_generation: object, clock: Clock | None
) -> TaskView:
    arguments = parse_identity(identity).arguments()
    cancel, generation = name(cancel_id, "cancel_id"), parse_cancel_generation(cancel_generation)
    outcome = fire(db, TASK_MACHINE, trigger, clock, cancel_id=cancel, cancel_generation=generation, **arguments)
    return tolerant_view(outcome.stored, idempotent=outcome.replayed)
