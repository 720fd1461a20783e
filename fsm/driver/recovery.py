"""Work whose driver is gone: found, and resolved one by one. Rules: `fsm.lifecycles.driver_task`."""

from fsm.calling import operation
from fsm.driver.machines import TASK_MACHINE, fire
from fsm.driver.parse import (
    Clock,
    Location,
    expected_generations,
    opened_at,
    parse_identity,
    parse_lease,
    parse_result,
    parse_settlement,
    same_room,
)
from fsm.driver.values import DriverLease, TaskIdentity, identity_of, name
from fsm.driver.views import RoomRecovery, TaskView, view_of
from fsm.errors import DriverValidationError
from fsm.lifecycle import State, among, given
from fsm.lifecycles.driver_task import INDETERMINATE, QUEUED
from fsm.lifecycles.tables import TASK_ORDER
from storage import Transaction, Value

__all__ = [
    "defer_indeterminate_task",
    "recover_room",
    "requeue_deferred_task",
    "requeue_indeterminate_task",
    "resolve_indeterminate_cancellation",
    "resolve_indeterminate_task",
]


@operation(DriverValidationError)
def recover_room(db: Location, lease: DriverLease, *, clock: Clock | None = None) -> RoomRecovery:
    """Mark the room's running tasks of other leases as indeterminate; nothing is put back into the queue.

    Returns the queued and the indeterminate tasks in order. Calling again changes nothing more. Raises
    DriverValidationError; RoomUnavailableError; StaleLeaseError.
    """
    held = parse_lease(lease)
    handle, now = opened_at(db, clock)

    def body(tx: Transaction) -> RoomRecovery:
        TASK_MACHINE.sweep(tx, "lose", now=now, **held.arguments())
        return {"queued": _in_order(tx, held, QUEUED), "indeterminate": _in_order(tx, held, INDETERMINATE)}

    return handle.write(body)


def _in_order(tx: Transaction, lease: DriverLease, state: State) -> list[TaskIdentity]:
    where = (*given("room_id"), among(state))
    return [
        identity_of(row) for row in TASK_MACHINE.select(tx, where, order=TASK_ORDER, values={"room_id": lease.room_id})
    ]


@operation(DriverValidationError)
def resolve_indeterminate_task(
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
    """Store the verified outcome of an uncertain run; limits as `settle_task`.

    An exact retry under a current lease returns what is stored, with `idempotent: True`. Raises DriverValidationError;
    RoomUnavailableError; StaleLeaseError; TaskConflictError where the task is missing, damaged or settled otherwise;
    StaleTaskError where it is not indeterminate or a generation moved.
    """
    arguments = _parse(identity, lease, expected_execution_generation, expected_cancel_generation)
    settlement = parse_settlement(settlement_id, status, result)
    return view_of(fire(db, TASK_MACHINE, "resolve", clock, **arguments, **settlement))


@operation(DriverValidationError)
def resolve_indeterminate_cancellation(
    db: Location,
    identity: TaskIdentity,
    lease: DriverLease,
    *,
    expected_execution_generation: object,
    expected_cancel_generation: object,
    cancel_id: object,
    clock: Clock | None = None,
) -> TaskView:
    """Store that an uncertain run was verifiably stopped; replays and refusals as `resolve_indeterminate_task`."""
    arguments = _parse(identity, lease, expected_execution_generation, expected_cancel_generation)
    cancel = name(cancel_id, "cancel_id")
    return view_of(fire(db, TASK_MACHINE, "resolve_cancel", clock, cancel_id=cancel, **arguments))


@operation(DriverValidationError)
def requeue_indeterminate_task(
    db: Location,
    identity: TaskIdentity,
    lease: DriverLease,
    *,
    expected_execution_generation: object,
    expected_cancel_generation: object,
    clock: Clock | None = None,
) -> TaskView:
    """Run an uncertain task again, accepting that it may happen twice; replays and refusals as its siblings."""
    arguments = _parse(identity, lease, expected_execution_generation, expected_cancel_generation)
    return view_of(fire(db, TASK_MACHINE, "requeue", clock, **arguments))


@operation(DriverValidationError)
def defer_indeterminate_task(
    db: Location,
    identity: TaskIdentity,
    lease: DriverLease,
    *,
    expected_execution_generation: object,
    expected_cancel_generation: object,
    reason: object,
    clock: Clock | None = None,
) -> TaskView:
    """Set an uncertain task aside with a reason, an identifier, so that the room goes on; replays as its siblings."""
    arguments = _parse(identity, lease, expected_execution_generation, expected_cancel_generation)
    result_json = parse_result({"reason": name(reason, "reason"), "retryable": True})
    return view_of(fire(db, TASK_MACHINE, "defer", clock, result_json=result_json, **arguments))


@operation(DriverValidationError)
def requeue_deferred_task(
    db: Location,
    identity: TaskIdentity,
    lease: DriverLease,
    *,
    expected_execution_generation: object,
    expected_cancel_generation: object,
    clock: Clock | None = None,
) -> TaskView:
    """Put a deferred task back into the queue; replays and refusals as its siblings."""
    arguments = _parse(identity, lease, expected_execution_generation, expected_cancel_generation)
    return view_of(fire(db, TASK_MACHINE, "requeue_deferred", clock, **arguments))


def _parse(
    identity: object, lease: object, execution_generation: object, cancel_generation: object
) -> dict[str, Value]:
    parsed, held = parse_identity(identity), parse_lease(lease)
    same_room(held, parsed)
    return {**parsed.arguments(), **held.arguments(), **expected_generations(execution_generation, cancel_generation)}
