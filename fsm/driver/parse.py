"""What the driver's calls are handed, checked and normalised before a transaction begins."""

import hashlib
import json
import math
import os
from collections.abc import Callable
from typing import Any, Final, NotRequired, TypedDict, cast

from fsm.driver.values import DriverLease, TaskAttempt, TaskIdentity, name
from fsm.errors import DriverValidationError
from fsm.lifecycles import DRIVER_TASK
from fsm.lifecycles.driver_task import FAILED, SETTLED
from fsm.lifecycles.limits import MAX_PROMPT_BYTES, MAX_RESULT_JSON_BYTES
from fsm.schema import GATEWAY_SCHEMA
from storage import Database, resolve
from storage.canonical import canonical_json
from storage.validate import choice, instance, integer, number, reading, record, text

__all__ = [
    "Clock",
    "Location",
    "TaskPayload",
    "digest_of",
    "expected_generations",
    "expiry",
    "normal_payload",
    "opened",
    "opened_at",
    "parse_attempt",
    "parse_cancel_generation",
    "parse_identity",
    "parse_lease",
    "parse_payload",
    "parse_result",
    "parse_settlement",
    "parse_status",
    "parse_ttl",
    "same_room",
    "stored_payload",
]

Clock = Callable[[], float]
Location = Database | str | os.PathLike[str]


class TaskPayload(TypedDict):
    """What a task is to do; a prompt is at most 128 KiB of UTF-8."""

    target_profile: str
    prompt: str
    source_event_seq: int
    target_member_id: NotRequired[str]


def opened(db: Location) -> Database:
    """Return the handle, with the gateway's tables in place; raises DriverValidationError, StorageError."""
    handle = resolve(db, error=DriverValidationError)
    handle.require(GATEWAY_SCHEMA)
    return handle


def opened_at(db: Location, clock: Clock | None) -> tuple[Database, float]:
    """Return the handle, and one reading of the clock in force; a clock that is given is read before anything opens."""
    now = None if clock is None else reading(clock, label="clock", error=DriverValidationError)
    handle = opened(db)
    return handle, reading(
        handle.clock, label="the handle's clock", error=DriverValidationError
    ) if now is None else now


def parse_ttl(ttl_seconds: object) -> float:
    """Return a duration above zero, in seconds."""
    return number(ttl_seconds, label="ttl_seconds", error=DriverValidationError, positive=True)


def expiry(now: float, ttl: float) -> float:
    """Return the instant at which a lease taken now for so many seconds ends."""
    expires_at = now + ttl
    if not math.isfinite(expires_at) or expires_at <= now:
        raise DriverValidationError(
            "ttl_seconds must move the clock to a later finite instant; pass seconds such as 30"
        )
    return expires_at


def parse_identity(identity: object) -> TaskIdentity:
    """Return the TaskIdentity, or raise DriverValidationError."""
    return instance(identity, TaskIdentity, label="identity", error=DriverValidationError)


def parse_lease(lease: object) -> DriverLease:
    """Return the DriverLease, or raise DriverValidationError."""
    return instance(lease, DriverLease, label="lease", error=DriverValidationError)


def parse_attempt(attempt: object) -> TaskAttempt:
    """Return the TaskAttempt, whose lease must be of the task's room, or raise DriverValidationError."""
    parsed = instance(attempt, TaskAttempt, label="attempt", error=DriverValidationError)
    same_room(parsed.lease, parsed.identity)
    return parsed


def same_room(lease: DriverLease, identity: TaskIdentity) -> None:
    """Refuse a lease of another room than the task's."""
    if lease.room_id != identity.room_id:
        raise DriverValidationError(
            "lease and identity must be of one room; found two: pass the lease of the task's room"
        )


def parse_cancel_generation(value: object) -> int:
    """Return the generation; True and False count as 1 and 0 here, as existing callers rely on."""
    given = int(value) if isinstance(value, bool) else value
    return integer(given, label="expected_cancel_generation", error=DriverValidationError, minimum=0)


def expected_generations(execution_generation: object, cancel_generation: object) -> dict[str, int]:
    """Return both generations that the caller believes in, as arguments."""
    label = "expected_execution_generation"
    execution = integer(execution_generation, label=label, error=DriverValidationError, minimum=1)
    return {"execution_generation": execution, "cancel_generation": parse_cancel_generation(cancel_generation)}


def parse_settlement(settlement_id: object, status: object, result: object) -> dict[str, str]:
    """Return the arguments of a settlement: its id, settled or failed, and the canonical result."""
    outcomes = (SETTLED.name, FAILED.name)
    return {
        "settlement_id": name(settlement_id, "settlement_id"),
        "status": choice(status, label="status", error=DriverValidationError, options=outcomes),
        "result_json": parse_result(result),
    }


def parse_result(result: object) -> str:
    """Return the result as canonical ASCII JSON of at most 256 KiB."""
    return canonical_json(
        result, label="result", error=DriverValidationError, maximum_bytes=MAX_RESULT_JSON_BYTES, ascii_only=True
    )


def parse_status(status: object) -> str | None:
    """Return the name of a declared state of tasks, or None for all."""
    names = tuple(state.name for state in DRIVER_TASK.states)
    return None if status is None else choice(status, label="status", error=DriverValidationError, options=names)


def parse_payload(payload: object) -> tuple[TaskPayload, str, str]:
    """Return the normalised payload, its canonical JSON and the digest of that."""
    normal = normal_payload(payload)
    encoded = _ENCODER.encode(normal)
    return normal, encoded, digest_of(encoded)


def normal_payload(payload: object) -> TaskPayload:
    """Return the payload with its identifiers stripped; raises DriverValidationError for any other form."""
    given: dict[str, Any] = record(
        payload, label="payload", error=DriverValidationError, required=_REQUIRED, optional=_OPTIONAL
    )
    prompt, sequence = given["prompt"], given["source_event_seq"]
    normal: TaskPayload = {
        "target_profile": name(given["target_profile"], "target_profile"),
        "prompt": text(prompt, label="prompt", error=DriverValidationError, maximum_bytes=MAX_PROMPT_BYTES),
        "source_event_seq": integer(sequence, label="source_event_seq", error=DriverValidationError, minimum=1),
    }
    if "target_member_id" in given:
        normal["target_member_id"] = name(given["target_member_id"], "target_member_id")
    return normal


def stored_payload(decoded: object) -> TaskPayload:
    """Return a payload that was stored, judged by its form alone: what a call may hand over has changed over time."""
    stored: dict[str, Any] = record(
        decoded, label="payload", error=DriverValidationError, required=_REQUIRED, optional=_OPTIONAL
    )
    for field, value in stored.items():
        kind = int if field == "source_event_seq" else str
        instance(value, kind, label=field, error=DriverValidationError)
    return cast("TaskPayload", stored)


def digest_of(encoded: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


_REQUIRED: Final = ("target_profile", "prompt", "source_event_seq")
_OPTIONAL: Final = ("target_member_id",)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"))
"""Canonical JSON for a payload whose every field has been checked already."""
