"""Moving a queue: to the session in which the conversation goes on, or to the transcript that took another's place."""

import json
from collections.abc import Iterable
from typing import Any

from fsm.lifecycle import DECLINE, Arg, Authority, Conditions
from fsm.lifecycles.admission_states import OF_SESSION, QUEUED
from fsm.lifecycles.limits import MAX_RUNTIME_JSON_BYTES
from fsm.lifecycles.runtime_tables import SESSIONS
from fsm.lifecycles.session_authorities import EPOCH, NOT_FOUND
from fsm.machine.standing import require
from fsm.runtime.keys import content_digest
from fsm.runtime.lineage import revise
from fsm.runtime.machines import ADMISSION_MACHINE
from fsm.runtime.parse import Location, call, opened_at, parse_epoch, parse_text, refusing
from storage import Row, Transaction, Value, canonical_json
from storage.canonical import decode_json

__all__ = ["rehome_queued_inputs", "retarget_local_automation"]

_QUEUE = Authority("queue", SESSIONS, {"id": Arg("session_id")}, DECLINE)
_NEW_HOME = Authority("new_home", SESSIONS, {"id": Arg("new_session_id")}, NOT_FOUND)
_QUEUED: Conditions = (OF_SESSION, *QUEUED.terms)


@call
def rehome_queued_inputs(
    db: Location, *, epoch: object, old_session_id: object, new_session_id: object, principal_prefix: object
) -> list[str]:
    """Move what is queued on the old session, of principals that begin so, to the new one; return their ids in order.

    Order, identity and content stay: each keeps its place and its retry. Nothing moves while a turn of the old session
    is unknown, nor from a session to itself. Where the answer was lost, call again: an empty list means that nothing is
    left to move, or that an unknown turn holds it, which `list_session_admissions` tells.

    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found where there is no new session; admission_conflict
    where it has such an identity already, and then nothing moves.
    """
    old, new = parse_text(old_session_id, "old_session_id"), parse_text(new_session_id, "new_session_id")
    prefix = parse_text(principal_prefix, "principal_prefix")
    shared: dict[str, Value] = {"new_session_id": new, "epoch": parse_epoch(epoch)}
    handle, now = opened_at(db)

    def rehome(tx: Transaction) -> list[str]:
        require(tx, EPOCH, _QUEUE, _NEW_HOME, session_id=old, **shared)
        rows = [] if old == new else _queued(tx, old)
        chosen = [row for row in rows if str(row["principal_id"]).startswith(prefix)]
        lineage = json.dumps([new], ensure_ascii=False)
        digests = (content_digest(new, str(row["payload_json"]), str(row["intent"])) for row in chosen)
        moves: list[Row] = [
            {"admission_id": row["admission_id"], "lineage_json": lineage, "payload_digest": digest}
            for row, digest in zip(chosen, digests, strict=True)
        ]
        return _moved(tx, "rehome", now, [{**move, **shared} for move in moves], (old, new))

    return handle.write(rehome)


@call
def retarget_local_automation(
    db: Location,
    *,
    epoch: object,
    session_id: object,
    principal_id: object,
    old_targets: Iterable[str],
    new_target: object,
) -> list[str]:
    """Point a principal's queued automations that name one of the old transcripts at the new one; return their ids.

    Such an input's payload has an object `local_automation_v1` with a `target`. Order and identity stay; nothing moves
    while a turn of the session is unknown, and what names the new target already stays as it is. Where the answer was
    lost, call again, as for `rehome_queued_inputs`. `old_targets` is read once.

    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found where there is no session `new_target`.
    """
    session, principal = parse_text(session_id, "session_id"), parse_text(principal_id, "principal_id")
    new, old = parse_text(new_target, "new_target"), _targets(old_targets)
    current: dict[str, Value] = {"epoch": parse_epoch(epoch)}
    handle, now = opened_at(db)

    def retarget(tx: Transaction) -> list[str]:
        require(tx, EPOCH, _QUEUE, _NEW_HOME, session_id=session, new_session_id=new, **current)
        rows = (row for row in _queued(tx, session) if row["principal_id"] == principal)
        payloads = ((row, _retargeted(row, old - {new}, new)) for row in rows)
        moves: list[Row] = [
            {
                "admission_id": row["admission_id"],
                "payload_json": payload,
                "payload_digest": content_digest(session, payload, str(row["intent"])),
            }
            for row, payload in payloads
            if payload is not None
        ]
        return _moved(tx, "retarget", now, [{**move, **current} for move in moves], (session,))

    return handle.write(retarget)


def _queued(tx: Transaction, session_id: str) -> list[Row]:
    return ADMISSION_MACHINE.select(tx, _QUEUED, values={"session_id": session_id}, order=("seq",))


def _moved(tx: Transaction, trigger: str, now: float, moves: list[Row], revised: tuple[str, ...]) -> list[str]:
    """Fire each move; a turn that is unknown declines the first of them, and then none is made."""
    for move in moves:
        if ADMISSION_MACHINE.fire(tx, trigger, now=now, **move).declined:
            return []
    if moves:
        revise(tx, *revised)
    return [str(move["admission_id"]) for move in moves]


def _targets(old_targets: object) -> set[str]:
    if isinstance(old_targets, str | bytes) or not isinstance(old_targets, Iterable):
        raise refusing("old_targets")("old_targets: expected several texts; pass a list of session ids")
    return {parse_text(each, "old_targets") for each in old_targets}


def _retargeted(row: Row, old_targets: set[str], new_target: str) -> str | None:
    """Return the payload as it reads with the new target, or None where it names none of the old ones."""
    payload = _decoded(row)
    descriptor = payload.get("local_automation_v1")
    if not isinstance(descriptor, dict):
        return None
    target = descriptor.get("target")
    if not isinstance(target, str) or target not in old_targets:
        return None
    changed = {**payload, "local_automation_v1": {**descriptor, "target": new_target}}
    return canonical_json(
        changed, label="payload", error=refusing("payload"), maximum_bytes=MAX_RUNTIME_JSON_BYTES, ascii_only=False
    )


def _decoded(row: Row) -> dict[str, Any]:
    """Return the payload; a damaged one names no target, and must not keep the others from moving."""
    try:
        payload = decode_json(row["payload_json"], label="the stored payload", error=ValueError)
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}
