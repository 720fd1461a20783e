"""Driver tasks on their ordinary way: admitted, started, settled. Rules: `fsm.lifecycles.driver_task`."""

from fsm.calling import operation
from fsm.driver.machines import TASK_MACHINE, fire
from fsm.driver.parse import (
    Clock,
    Location,
    expected_generations,
    parse_attempt,
    parse_cancel_generation,
    parse_identity,
    parse_lease,
    parse_payload,
    parse_settlement,
    same_room,
)
from fsm.driver.values import DriverLease, TaskAttempt, TaskIdentity
from fsm.driver.views import TaskView, task_view, view_of
from fsm.errors import DriverValidationError

__all__ = ["admit_task", "requeue_not_admitted_task", "settle_stopping_task", "settle_task", "start_task"]


@operation(DriverValidationError)
def admit_task(db: Location, identity: TaskIdentity, *, payload: object, clock: Clock | None = None) -> TaskView:
    """Store a room turn as a queued task; an exact retry returns what is stored, with `idempotent: True`.

    `payload` holds target_profile, prompt (at most 128 KiB of UTF-8), source_event_seq and, optionally,
    target_member_id. Raises DriverValidationError; RoomUnavailableError; TaskConflictError where the task_id or the
    turn is taken by other content.
    """
    arguments = parse_identity(identity).arguments()
    normal, payload_json, payload_digest = parse_payload(payload)
    outcome = fire(
        db,
        TASK_MACHINE,
        "admit",
        clock,
        payload_json=payload_json,
        payload_digest=payload_digest,
        source_event_seq=normal["source_event_seq"],
        **arguments,
    )
    return task_view(outcome.stored, idempotent=outcome.replayed, payload=None if outcome.replayed else normal)


@operation(DriverValidationError)
def start_task(
    db: Location,
    identity: TaskIdentity,
    lease: DriverLease,
    *,
    expected_cancel_generation: object,
    clock: Clock | None = None,
) -> TaskAttempt:
    """Start the head of the room's queue under the lease, and return the attempt that alone may settle it.

    Never replays: two callers would both believe that they won. Where the answer was lost, `get_task` tells: running
    under exactly this lease, the attempt is (identity, lease, execution_generation, cancel_generation).

    Raises DriverValidationError; RoomUnavailableError; StaleLeaseError; TaskConflictError where the task is missing or
    damaged; StaleTaskError where its cancel generation moved; InvalidTaskTransitionError where it is not queued, not
    next, or earlier work is unresolved.
    """
    parsed, held = parse_identity(identity), parse_lease(lease)
    same_room(held, parsed)
    cancel_generation = parse_cancel_generation(expected_cancel_generation)
    arguments = {**parsed.arguments(), **held.arguments(), "cancel_generation": cancel_generation}
    row = fire(db, TASK_MACHINE, "start", clock, **arguments).stored
    return TaskAttempt(parsed, held, int(row["execution_generation"] or 0), cancel_generation)


@operation(DriverValidationError)
def settle_task(
    db: Location,
    attempt: TaskAttempt,
    *,
    settlement_id: object,
    status: object,
    result: object,
    clock: Clock | None = None,
) -> TaskView:
    """Store how the attempt ended: `settled` or `failed`, with a JSON result of at most 256 KiB of UTF-8.

    An exact retry returns what is stored, with `idempotent: True`, even when the lease has moved on. Raises
    DriverValidationError; TaskConflictError where the task is missing, damaged or settled otherwise;
    RoomUnavailableError; StaleLeaseError; StaleTaskError where the attempt is no longer the running one.
    """
    parsed = parse_attempt(attempt)
    settlement = parse_settlement(settlement_id, status, result)
    return view_of(fire(db, TASK_MACHINE, "settle", clock, **parsed.arguments(), **settlement))


@operation(DriverValidationError)
def settle_stopping_task(
    db: Location,
    identity: TaskIdentity,
    lease: DriverLease,
    *,
    expected_execution_generation: object,
    expected_cancel_generation: object,
    settlement_id: object,
    status: object,
    result: object,
    clock: Clock | None = None,
) -> TaskView:
    """Store a completion that won the race with a stop nobody has acknowledged; replays and limits as `settle_task`.

    Raises DriverValidationError, also for generations below 1; TaskConflictError; RoomUnavailableError;
    StaleLeaseError; StaleTaskError where the stop was acknowledged first or a generation moved.
    """
    parsed, held = parse_identity(identity), parse_lease(lease)
    same_room(held, parsed)
    generations = expected_generations(expected_execution_generation, expected_cancel_generation)
    if generations["cancel_generation"] < 1:
        raise DriverValidationError(
            "expected_cancel_generation must be at least 1: a stopping task has been asked to stop"
        )
    settlement = parse_settlement(settlement_id, status, result)
    arguments = {**parsed.arguments(), **held.arguments(), **generations, **settlement}
    return view_of(fire(db, TASK_MACHINE, "settle_stopping", clock, **arguments))


@operation(DriverValidationError)
def requeue_not_admitted_task(db: Location, attempt: TaskAttempt, *, clock: Clock | None = None) -> TaskView:
    """Put a running task back into the queue, where the caller can prove that its run never began.

    An exact retry returns what is stored, with `idempotent: True`. Raises DriverValidationError; RoomUnavailableError;
    StaleLeaseError; TaskConflictError where the task is missing or damaged; StaleTaskError where the attempt is no
    longer the running one.
    """
    return view_of(fire(db, TASK_MACHINE, "requeue_not_admitted", clock, **parse_attempt(attempt).arguments()))
