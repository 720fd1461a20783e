"""Inputs to a session: admitted, looked up and withdrawn. Rules: `fsm.lifecycles.session_admission`."""

import json
from collections.abc import Callable

from fsm.lifecycle import Conditions, among, given
from fsm.lifecycles.admission_states import OF_SESSION, QUEUED, STARTED, UNKNOWN
from fsm.lifecycles.session_authorities import CONFLICT, NOT_FOUND
from fsm.machine import Outcome
from fsm.runtime.keys import content_digest, identity_key
from fsm.runtime.machines import ADMISSION_MACHINE
from fsm.runtime.parse import (
    Location,
    call,
    opened,
    opened_at,
    parse_choice,
    parse_epoch,
    parse_flag,
    parse_hook,
    parse_new_id,
    parse_object,
    parse_text,
)
from fsm.runtime.tombstones import buried_admission, buried_identity
from fsm.runtime.views import AdmissionView, admission_view, listed_admission_view
from storage import Row, Transaction, Value

__all__ = [
    "admit_session_input",
    "answer",
    "cancel_session_input",
    "find_session_admission",
    "get_session_admission",
    "list_session_admissions",
    "not_found",
]

INTENTS = ("queue", "steer", "redirect")
Hook = Callable[[Transaction], object]

_OF_IDENTITY: Conditions = (*given("principal_id", "request_id"), OF_SESSION)
_PENDING: Conditions = (OF_SESSION, among(QUEUED, STARTED, UNKNOWN))


@call
def admit_session_input(
    db: Location,
    *,
    epoch: object,
    principal_id: object,
    session_id: object,
    request_id: object,
    payload: object,
    intent: object = "queue",
    authorize_write: Hook | None = None,
    replay_guard: Hook | None = None,
) -> AdmissionView:
    """Queue a principal's input to a session; an exact retry returns what is stored, whatever became of it.

    The identity is (principal_id, session_id, request_id), the content `payload`, a JSON object, with `intent`: queue,
    steer or redirect. `authorize_write(tx)` runs for a new input alone and may make room in the queue; on an exact
    retry `replay_guard(tx)` runs instead. Either may run again, must not commit, and undoes all by raising. Once the
    session is deleted, the retry of an input that had ended returns its end, with an empty payload, and runs neither.

    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found where there is no such session;
    admission_conflict where the identity is taken by other content; queue_full from 32 queued inputs on;
    storage_unavailable where what is left of a deleted session's is damaged.
    """
    arguments: dict[str, Value] = {
        "principal_id": (principal := parse_text(principal_id, "principal_id")),
        "session_id": (session := parse_text(session_id, "session_id")),
        "request_id": (request := parse_text(request_id, "request_id")),
        "intent": (kind := parse_choice(intent, "intent", INTENTS)),
        "payload_json": (encoded := parse_object(payload, "payload")),
        "payload_digest": content_digest(session, encoded, kind),
        "lineage_json": json.dumps([session], ensure_ascii=False),
        "tombstone_key": identity_key(principal, session, request),
    }
    context = {**parse_hook(authorize_write, "authorize_write"), **parse_hook(replay_guard, "replay_guard")}
    arguments["epoch"] = parse_epoch(epoch)
    handle, now = opened_at(db)
    arguments["admission_id"] = parse_new_id(handle)

    def admit(tx: Transaction) -> AdmissionView:
        outcome = ADMISSION_MACHINE.fire(tx, "admit", context, now=now, **arguments)
        if not outcome.replayed:
            return admission_view(outcome.stored)
        stored = _stored(tx, outcome, arguments)
        if "replay_guard" in context and "known" in outcome.found:
            context["replay_guard"](tx)
        return listed_admission_view(stored)

    return handle.write(admit)


def _stored(tx: Transaction, outcome: Outcome, arguments: dict[str, Value]) -> Row:
    """Return the row that answers an exact retry: the live one, or the tombstone of a deleted session's."""
    if "known" in outcome.found:
        return _rows(tx, given("admission_id"), {"admission_id": outcome.found["known"]["admission_id"]})[0]
    buried = buried_admission(tx, buried_identity(outcome.found["tombstone"]["value"]))
    if buried is None or buried["payload_digest"] != arguments["payload_digest"]:
        raise CONFLICT.error(
            f"expected what the deleted session's admission held, found other content; {CONFLICT.remedy}"
        )
    return buried


def _rows(tx: Transaction, where: Conditions, values: dict[str, Value]) -> list[Row]:
    return ADMISSION_MACHINE.select(tx, where, values=values, order=("seq",))


@call
def get_session_admission(db: Location, *, admission_id: object) -> AdmissionView | None:
    """Return an admission, also what is left of a deleted session's, or None.

    Raises RuntimeStoreError: invalid_params; storage_unavailable where its payload, or what is left of it, is damaged.
    """
    name = parse_text(admission_id, "admission_id")

    def read(tx: Transaction) -> Row | None:
        rows = _rows(tx, given("admission_id"), {"admission_id": name})
        return rows[0] if rows else buried_admission(tx, name)

    row = opened(db).read(read)
    return None if row is None else admission_view(row)


@call
def find_session_admission(
    db: Location, *, principal_id: object, session_id: object, request_id: object
) -> AdmissionView | None:
    """Return the admission of exactly this identity, or None; raises as `get_session_admission`."""
    values: dict[str, Value] = {
        "principal_id": parse_text(principal_id, "principal_id"),
        "session_id": parse_text(session_id, "session_id"),
        "request_id": parse_text(request_id, "request_id"),
    }
    rows = opened(db).read(lambda tx: _rows(tx, _OF_IDENTITY, values))
    return admission_view(rows[0]) if rows else None


@call
def list_session_admissions(db: Location, *, session_id: object, pending_only: object = True) -> list[AdmissionView]:
    """Return a session's admissions in the order of their queue: those that have not ended, or all.

    One whose payload is damaged is listed with `corrupt`. Raises RuntimeStoreError(invalid_params).
    """
    name = parse_text(session_id, "session_id")
    where: Conditions = _PENDING if parse_flag(pending_only, "pending_only") else (OF_SESSION,)
    rows = opened(db).read(lambda tx: _rows(tx, where, {"session_id": name}))
    return [listed_admission_view(row) for row in rows]


@call
def cancel_session_input(db: Location, *, epoch: object, admission_id: object) -> AdmissionView:
    """Withdraw a queued input; one that has ended is returned as it is stored, however it ended.

    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found; unknown_execution where nobody knows how far it
    came; stale_generation where it has been started, or is in transfer to the claim that took it along;
    storage_unavailable where what is left of a deleted session's is damaged.
    """
    name = parse_text(admission_id, "admission_id")
    arguments: dict[str, Value] = {"admission_id": name, "epoch": parse_epoch(epoch)}
    handle, now = opened_at(db)

    def cancel(tx: Transaction) -> AdmissionView:
        return answer(tx, ADMISSION_MACHINE.fire(tx, "cancel", now=now, **arguments), name, lambda _: None)

    return handle.write(cancel)


def answer(
    tx: Transaction, outcome: Outcome, admission_id: str, refused: Callable[[Row], Exception | None]
) -> AdmissionView:
    """Return the view of what a call left stored; where the row is gone, that of the tombstone unless it is `refused`.

    Raises RuntimeStoreError: not_found where there is neither; what `refused` answers for the tombstone's row;
    storage_unavailable where that is damaged.
    """
    if not outcome.declined:
        return listed_admission_view(outcome.stored)
    buried = buried_admission(tx, admission_id)
    refusal = not_found() if buried is None else refused(buried)
    if refusal is not None or buried is None:
        raise refusal or not_found()
    return admission_view(buried)


def not_found() -> Exception:
    """Return the refusal of an admission that there never was, or of which nothing can be said any longer."""
    return NOT_FOUND.error(f"expected an admission, found none; {NOT_FOUND.remedy}")
