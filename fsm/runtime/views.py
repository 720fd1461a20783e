"""What session and worker calls answer with: the rows' own columns, decoded."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast

from fsm.errors import RuntimeStoreError
from fsm.lifecycles.runtime_tables import ADMISSIONS, EXECUTIONS, SESSIONS
from storage import Value
from storage.canonical import decode_json

__all__ = [
    "AdmissionView",
    "MessageView",
    "SessionView",
    "WorkerView",
    "admission_view",
    "listed_admission_view",
    "listed_message_view",
    "message_view",
    "session_view",
    "worker_view",
]


class AdmissionView(TypedDict):
    """An admission as stored. In a list, `corrupt` says why `payload` cannot be shown.

    `transcript_mark` comes with a claim: the highest message id there was, so that what the turn wrote stands above it.
    """

    seq: int
    admission_id: str
    request_id: str
    principal_id: str
    target_session_id: str
    intent: str
    status: str
    outcome: str | None
    owner_epoch: int | None
    generation: int | None
    payload: dict[str, Any] | None
    transcript_mark: NotRequired[int]
    corrupt: NotRequired[str]


class SessionView(TypedDict):
    """A session as stored; instants are seconds, costs are dollars."""

    id: str
    parent_session_id: str | None
    source: str
    created_source: str | None
    chat_id: str | None
    title: str | None
    model: str | None
    archived: bool
    created_at: float
    ended_at: float | None
    end_reason: str | None
    runtime_generation: int
    runtime_revision: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    api_call_count: int
    estimated_cost_usd: float | None
    actual_cost_usd: float | None


class MessageView(TypedDict, total=False):
    """A message as stored, its further fields beside these; `timestamp` is seconds. `corrupt` says why they are not."""

    id: int
    session_id: str
    role: str
    content: Any
    timestamp: float
    corrupt: str


class WorkerView(TypedDict):
    """A worker's execution as stored, without the digest of its secret."""

    execution_id: str
    session_id: str
    kind: str
    owner_epoch: int
    generation: int
    status: str
    last_sequence: int


_OF_ADMISSION = tuple(
    column.name
    for column in ADMISSIONS.columns
    if column.name not in {"lineage_json", "payload_json", "payload_digest", "retired_at"}
)
_OF_SESSION = tuple(column.name for column in SESSIONS.columns)
_OF_WORKER = tuple(column.name for column in EXECUTIONS.columns if column.name != "adoption_digest")


def _damaged(message: str) -> RuntimeStoreError:
    return RuntimeStoreError("storage_unavailable", field="payload", detail=message)


def admission_view(row: Mapping[str, Value]) -> AdmissionView:
    """Return the view of an admission's row; raises RuntimeStoreError(storage_unavailable) where it does not decode."""
    view: dict[str, Any] = {column: row[column] for column in _OF_ADMISSION}
    view["payload"] = _object(row["payload_json"], "the stored payload")
    return cast("AdmissionView", view)


def listed_admission_view(row: Mapping[str, Value]) -> AdmissionView:
    """Return the view of an admission's row, damaged or not: then `corrupt` says why and the payload is None."""
    try:
        return admission_view(row)
    except RuntimeStoreError as damage:
        view: dict[str, Any] = {column: row[column] for column in _OF_ADMISSION}
        view |= {"payload": None, "corrupt": damage.detail}
        return cast("AdmissionView", view)


def session_view(row: Mapping[str, Value]) -> SessionView:
    """Return the view of a session's row."""
    view: dict[str, Any] = {column: row[column] for column in _OF_SESSION}
    view["archived"] = bool(row["archived"])
    return cast("SessionView", view)


def message_view(row: Mapping[str, Value]) -> MessageView:
    """Return the view of a message's row; its further fields stand beside the columns. Raises as `admission_view`."""
    # A gateway's own row may hold nothing there.
    further = {} if row["extra_json"] is None else _object(row["extra_json"], "the stored message")
    return cast("MessageView", _of_message(row) | further)


def listed_message_view(row: Mapping[str, Value]) -> MessageView:
    """Return the view of a message's row, damaged or not: then `corrupt` says why its further fields are missing."""
    try:
        return message_view(row)
    except RuntimeStoreError as damage:
        return cast("MessageView", {**_of_message(row), "corrupt": damage.detail})


def _of_message(row: Mapping[str, Value]) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "session_id", "role", "content", "timestamp")}


def worker_view(row: Mapping[str, Value]) -> WorkerView:
    """Return the view of an execution's row."""
    return cast("WorkerView", {column: row[column] for column in _OF_WORKER})


def _object(stored: Value, label: str) -> dict[str, Any]:
    decoded = decode_json(stored, label=label, error=_damaged)
    if not isinstance(decoded, dict):
        raise _damaged(f"{label}: expected an object, found another JSON value; mend the row")
    return decoded
