"""Mutations of a session: one request, one transaction, one receipt. What each does: `fsm.sessions.operations`."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from fsm.lifecycle import Refusal
from fsm.lifecycles.session_authorities import EPOCH, NOT_FOUND, STALE_GENERATION, because
from fsm.machine.standing import require
from fsm.runtime.idleness import require_idle
from fsm.runtime.lineage import lineage_of, next_generation, revise
from fsm.runtime.parse import (
    Location,
    call,
    opened_at,
    parse_epoch,
    parse_flag,
    parse_hook,
    parse_object,
    parse_text,
    refusing,
)
from fsm.sessions import receipts
from fsm.sessions.admitting import Hook
from fsm.sessions.changes import Change, Effect, hold, standing
from fsm.sessions.operations import IMPORT, OPERATIONS, Operation
from fsm.sessions.payloads import PAYLOADS, parse_counter, parse_operation, parse_prepared
from fsm.sessions.results import MutationView, Snapshot
from storage import Database, Transaction, Value

__all__ = ["mutate_runtime_session"]

LiveGuard = Callable[[list[str]], object]

REVISED: Final[Refusal] = because(
    "revision_conflict",
    "somebody has changed the session since; read it again and decide anew",
    field="expected_revision",
)
STALE: Final[Refusal] = because("stale_generation", STALE_GENERATION.remedy, field="expected_generation")
_PREPARED: Final[Refusal] = because("stale_generation", "prepare the call again", field="prepared")


@frozen
class _Request:
    """A parsed call."""

    session_id: str
    operation: str
    payload: Mapping[str, Any]
    revision: int
    generation: int | None
    key: str
    digest: str
    live_guard: LiveGuard | None
    authorize_write: Hook | None
    prepare_only: bool
    prepared: Snapshot | None

    @property
    def does(self) -> Operation:
        """What the operation is."""
        return OPERATIONS[self.operation]


@call
def mutate_runtime_session(
    db: Location,
    *,
    epoch: object,
    principal_id: object,
    session_id: object,
    request_id: object,
    expected_revision: object,
    operation: object,
    payload: object,
    expected_generation: object = None,
    live_guard: LiveGuard | None = None,
    authorize_write: Hook | None = None,
    prepare_only: object = False,
    prepared: object = None,
) -> MutationView:
    """Change a session as it stands at this revision and generation; an exact retry returns what is stored.

    `operation` with its `payload`: rename {title}; archive {archived}; model {model, provider?}; reset {};
    rewind {target_message_id}; branch {title?, through_message_id?}; compress {summary, keep_last?}; delete {};
    import {sessions}. `expected_generation` is needed by all but rename, archive and import. Reset, rewind, branch,
    compress and delete ask for an idle lineage, and work on the session with which it ends; reset first discards
    unknown executions that no admission had reserved.

    `live_guard(session_ids)` is asked ahead of `authorize_write(tx)`, with the sessions that go; either refuses by
    raising, may run again, and must not commit. An exact retry runs neither, whatever became of the session.
    `prepare_only` answers {"snapshot": {target, generation, revision}}, the state of the lineage's last session, and
    stores nothing; handed over as `prepared`, it is one more thing that must still hold.

    Raises RuntimeStoreError: invalid_params; stale_epoch; admission_conflict where the identity (principal_id,
    session_id, request_id) is taken by another request, or an id by another session; not_found; revision_conflict;
    stale_generation; session_busy; unknown_execution; storage_unavailable where the receipt of the call is damaged.
    """
    asked = {
        "operation": parse_operation(operation),
        "payload": json.loads(parse_object(payload, "payload")),
        "expected_revision": expected_revision,
        "expected_generation": expected_generation,
    }
    receipt = receipts.mutation_receipt_key(principal_id, session_id, request_id, **asked)
    hooks: dict[str, Callable[..., object]] = {
        **parse_hook(live_guard, "live_guard"),
        **parse_hook(authorize_write, "authorize_write"),
    }
    look = parse_flag(prepare_only, "prepare_only")
    session = parse_text(session_id, "session_id")
    request = _request(session, asked, receipt, hooks, prepare_only=look, prepared=parse_prepared(prepared))
    parsed_epoch = parse_epoch(epoch)
    handle, now = opened_at(db)
    return handle.write(lambda tx: _mutate(tx, handle, request, parsed_epoch, now))


def _request(
    session_id: str,
    asked: Mapping[str, Any],
    receipt: tuple[str, str],
    hooks: Mapping[str, Callable[..., object]],
    *,
    prepare_only: bool,
    prepared: Snapshot | None,
) -> _Request:
    operation = asked["operation"]
    return _Request(
        session_id,
        operation,
        _payload(operation, asked["payload"], session_id),
        parse_counter(asked["expected_revision"], "expected_revision"),
        _generation(operation, asked["expected_generation"]),
        *receipt,
        hooks.get("live_guard"),
        hooks.get("authorize_write"),
        prepare_only,
        prepared,
    )


def _payload(operation: str, payload: Mapping[str, Any], session_id: str) -> Mapping[str, Any]:
    fields = PAYLOADS[operation](payload)
    if operation == IMPORT and fields["sessions"][0]["id"] != session_id:
        raise refusing("sessions")("sessions: expected the named session as the first, found another; put it there")
    return fields


def _generation(operation: str, value: object) -> int | None:
    if value is None and not OPERATIONS[operation].fenced:
        return None
    return parse_counter(value, "expected_generation")


def _mutate(tx: Transaction, handle: Database, request: _Request, epoch: int, now: float) -> MutationView:
    require(tx, EPOCH, epoch=epoch)
    mark = tx.mark() if request.prepare_only else None
    stored = receipts.reserve(tx, request.key, request.digest)
    if stored is not None:
        return stored
    sessions = hold(tx, _scope(request), request.session_id)
    row = _current(tx, request)
    _ask_hooks(tx, request)
    change = Change(tx, request.session_id, row, sessions, request.payload, now, handle.new_id)
    if mark is None:
        return _commit(change, request)
    snapshot = _prepare(change, request)
    tx.undo(mark)
    return {"snapshot": snapshot}


def _scope(request: _Request) -> Callable[[Transaction, str], list[str]]:
    """Return which sessions are held: those of the operation, and with a snapshot the one that it is of."""
    return lineage_of if request.does.alone and (request.prepare_only or request.prepared) else request.does.scope


def _current(tx: Transaction, request: _Request) -> Mapping[str, Value]:
    """Return the session's row as the caller believes it to be."""
    row = standing(tx, request.session_id)
    if row["id"] is None and request.operation != IMPORT:
        raise NOT_FOUND.error(f"expected a session, found none; {NOT_FOUND.remedy}")
    revision = row["runtime_revision"] or 0
    if revision != request.revision:
        raise REVISED.error(f"expected revision {request.revision}, found {revision}; {REVISED.remedy}")
    if request.generation is not None and row["runtime_generation"] != request.generation:
        raise STALE.error(
            f"expected generation {request.generation}, found {row['runtime_generation']}; {STALE.remedy}"
        )
    return row


def _ask_hooks(tx: Transaction, request: _Request) -> None:
    if request.live_guard is not None:
        request.live_guard(request.does.taken(tx, request.session_id))
    if request.authorize_write is not None:
        request.authorize_write(tx)


def _snapshot(change: Change) -> Snapshot:
    # Not the last session held: a deletion holds the lineages of delegates too.
    target = lineage_of(change.tx, change.session_id)[-1]
    row = standing(change.tx, target)
    return {
        "target": target,
        "generation": int(row["runtime_generation"] or 0),
        "revision": int(row["runtime_revision"] or 0),
    }


def _prepare(change: Change, request: _Request) -> Snapshot:
    if request.does.idle_to_prepare:
        require_idle(change.tx, change.sessions)
    return _snapshot(change)


def _commit(change: Change, request: _Request) -> MutationView:
    if request.prepared is not None:
        _require_prepared(request.prepared, _snapshot(change))
    does = request.does
    if does.first is not None:
        does.first(change)
    if does.idle:
        require_idle(change.tx, change.sessions)
    effect = does.effect(change)
    if does.moves:
        next_generation(change.tx, change.session_id)
    revise(change.tx, *effect.revised)
    return receipts.store(change.tx, request.key, request.digest, _result(change, request, effect))


def _require_prepared(prepared: Snapshot, found: Snapshot) -> None:
    if (prepared["target"], prepared["generation"]) != (found["target"], found["generation"]):
        raise _PREPARED.error(f"expected the target as it was prepared, found another; {_PREPARED.remedy}")
    if prepared["revision"] != found["revision"]:
        raise REVISED.error(f"expected the revision that was prepared, found {found['revision']}; {REVISED.remedy}")


def _result(change: Change, request: _Request, effect: Effect) -> Mapping[str, Any]:
    row = standing(change.tx, change.session_id)
    gone = row["id"] is None
    return {
        "session_id": change.session_id,
        "revision": request.revision + 1 if gone else row["runtime_revision"],
        "execution_generation": request.generation if gone else row["runtime_generation"],
        "operation": request.operation,
        **effect.result,
    }
