"""What the driver's calls answer with."""

from functools import lru_cache
from typing import NotRequired, TypedDict, cast

from fsm.driver.parse import TaskPayload, digest_of, stored_payload
from fsm.driver.values import DriverLease, TaskIdentity, identity_of
from fsm.errors import DriverValidationError, TaskConflictError
from fsm.lifecycles.driver_task import DriverTaskState
from fsm.machine import Outcome, Record
from storage import Row, Value
from storage.canonical import decode_json

__all__ = [
    "LeaseRelease",
    "RoomRecovery",
    "TaskView",
    "damage_of",
    "read_payload",
    "task_view",
    "tolerant_view",
    "view_of",
]


class TaskView(TypedDict):
    """A task as stored; instants are seconds. `corrupt` says why `payload` or `result` cannot be shown."""

    identity: TaskIdentity
    payload: TaskPayload | None
    payload_digest: str
    status: DriverTaskState
    execution_generation: int
    cancel_generation: int
    run_gateway_id: str | None
    run_process_generation: str | None
    run_lease_generation: int | None
    cancel_id: str | None
    settlement_id: str | None
    settlement_status: str | None
    result: object
    created_at: float
    updated_at: float
    started_at: float | None
    terminal_at: float | None
    indeterminate_at: float | None
    idempotent: bool
    corrupt: NotRequired[str]


class LeaseRelease(TypedDict):
    """A lease that was given up, or had been."""

    lease: DriverLease
    idempotent: bool


class RoomRecovery(TypedDict):
    """What a recovered room holds, in the order of its tasks."""

    queued: list[TaskIdentity]
    indeterminate: list[TaskIdentity]


_AS_STORED = tuple(
    key for key in TaskView.__annotations__ if key not in {"identity", "payload", "result", "idempotent", "corrupt"}
)


class _DamagedError(DriverValidationError):
    """What is stored is not what the library wrote; the message is shown as the reason."""


def _payload_of(row: Row) -> TaskPayload:
    return _judged(row["payload_json"], row["payload_digest"], row["source_event_seq"]).copy()


@lru_cache(maxsize=8)
def _judged(stored: Value, digest: Value, sequence: Value) -> TaskPayload:
    """Decode and judge what is stored; remembered for a while, since a driver reads it at start and at settlement."""
    if not isinstance(stored, str) or digest_of(stored) != digest:
        raise _DamagedError("the stored payload is not the one that was admitted")
    decoded = decode_json(stored, label="the stored payload", error=_DamagedError)
    try:
        payload = stored_payload(decoded)
    except DriverValidationError as error:
        raise _DamagedError("the stored payload lacks the form of a payload") from error
    if payload["source_event_seq"] != sequence:
        raise _DamagedError("the stored payload is of another event than its row")
    return payload


def _result_of(row: Row) -> object:
    stored = row["result_json"]
    return None if stored is None else decode_json(stored, label="the stored result", error=_DamagedError)


def read_payload(record: Record) -> dict[str, TaskPayload]:
    """Refuse to go on with a task whose stored payload is damaged; the step `read_payload` of the declaration."""
    if record.row is None:
        return {}
    try:
        return {"payload": _payload_of(record.row)}
    except _DamagedError as error:
        raise _conflict(error) from error


def _conflict(damage: _DamagedError) -> TaskConflictError:
    return TaskConflictError(f"{damage}; cancel the task and admit it again under a new task_id")


def damage_of(row: Row) -> str | None:
    """Return why the row cannot be shown in full, or None."""
    try:
        _payload_of(row)
        _result_of(row)
    except _DamagedError as error:
        return str(error)
    return None


def task_view(row: Row, *, idempotent: bool = False, payload: TaskPayload | None = None) -> TaskView:
    """Return the view of a row; raises TaskConflictError where it is damaged."""
    try:
        shown, result = payload or _payload_of(row), _result_of(row)
    except _DamagedError as error:
        raise _conflict(error) from error
    return _view(row, shown, result, idempotent=idempotent)


def tolerant_view(row: Row, *, idempotent: bool = False) -> TaskView:
    """Return the view of a row, damaged or not: then `corrupt` says why and payload and result are None."""
    try:
        return task_view(row, idempotent=idempotent)
    except TaskConflictError:
        view = _view(row, None, None, idempotent=idempotent)
        view["corrupt"] = damage_of(row) or "unreadable"
        return view


def _view(row: Row, payload: TaskPayload | None, result: object, *, idempotent: bool) -> TaskView:
    view: dict[str, object] = {"identity": identity_of(row), "payload": payload}
    for key in _AS_STORED:
        view[key] = row[key]
        if key == "settlement_status":
            view["result"] = result
    view["idempotent"] = idempotent
    return cast("TaskView", view)


def view_of(outcome: Outcome) -> TaskView:
    """Return the view of what a call left stored; raises TaskConflictError where a replayed row is damaged."""
    read = cast("dict[str, TaskPayload]", outcome.found.get("read_payload", {}))
    return task_view(outcome.stored, idempotent=outcome.replayed, payload=read.get("payload"))
