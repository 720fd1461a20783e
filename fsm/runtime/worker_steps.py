"""What the steps of `worker_execution` do that no term can say; bound to their names in `fsm.runtime.machines`."""

import json
from typing import Any

from fsm.errors import RuntimeStoreError
from fsm.lifecycle import among
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles import SESSION_ADMISSION
from fsm.lifecycles.admission_states import STARTED, UNKNOWN
from fsm.lifecycles.limits import MAX_RUNTIME_JSON_BYTES
from fsm.lifecycles.runtime_tables import ADMISSIONS, RECEIPTS
from fsm.lifecycles.session_authorities import STALE_GENERATION, UNKNOWN_EXECUTION
from fsm.lifecycles.worker_execution import RETIRED_RECEIPT, TERMINAL
from fsm.machine import Action, Record
from fsm.runtime.admission_steps import worker_statuses
from fsm.runtime.idleness import pending_statuses
from fsm.runtime.keys import TERMINAL_WORKER_PREFIX
from fsm.runtime.lineage import held_lineage_of, revise
from fsm.runtime.meta import keep
from fsm.runtime.parse import refusing
from fsm.runtime.views import worker_view
from storage import Row, Transaction, Value, canonical_json
from storage.canonical import decode_json

__all__ = ["WORKER_STEPS", "compact_receipts"]

_READ_COPY = frozenset({"messages", "session"})

_OF_CLAIM = f"""
    SELECT admission_id, target_session_id, lineage_json FROM {quoted(ADMISSIONS.name)}
    WHERE {sql((among(STARTED, UNKNOWN),))} AND generation = :generation AND owner_epoch = :owner_epoch ORDER BY seq
"""
_STORE = f"""
    INSERT INTO {quoted(RECEIPTS.name)} (execution_id, sequence, payload_digest, result_json)
    VALUES (:execution_id, :sequence, :payload_digest, :result_json)
"""
# The terms only narrow down what is decoded: a text that holds such a key need not have it on top.
_READ_COPIES = f"""
    SELECT sequence, result_json FROM {quoted(RECEIPTS.name)}
    WHERE execution_id = :execution_id AND (result_json LIKE :messages OR result_json LIKE :session)
"""
_MAY_BE_READ_COPIES = {key: f'%"{key}":%' for key in _READ_COPY}
_COMPACT = f"""
    UPDATE {quoted(RECEIPTS.name)} SET result_json = :retired
    WHERE execution_id = :execution_id AND sequence = :sequence
"""
_FORGET = f"DELETE FROM {quoted(RECEIPTS.name)} WHERE execution_id = :execution_id"


def _row(record: Record) -> Row:
    assert record.row is not None  # noqa: S101 # the trigger's Source has found a row
    return record.row


def _require_free_lineage(record: Record) -> None:
    sessions = held_lineage_of(record.tx, str(record.values["session_id"]))
    pending = pending_statuses(record.tx, sessions)
    if (record.context.get("require_idle") and pending) or worker_statuses(record.tx, sessions):
        raise STALE_GENERATION.error(
            f"expected nothing pending or at work in the session's lineage, found some; {STALE_GENERATION.remedy}"
        )
    if UNKNOWN.name in pending:
        raise UNKNOWN_EXECUTION.error(
            f"expected no admission of the session's lineage to be unknown, found one; {UNKNOWN_EXECUTION.remedy}"
        )


def _readopt_admission(record: Record) -> None:
    row = _row(record)
    claim: Row = {"generation": row["generation"], "owner_epoch": row["owner_epoch"]}
    linked = [each for each in record.tx.execute(_OF_CLAIM, claim) if _holds(each, row["session_id"])]
    if len(linked) > 1:
        raise RuntimeStoreError(
            "admission_conflict",
            field="session_id",
            detail=f"expected one admission under this claim, found {len(linked)}; resolve them before adopting",
        )
    for each in linked:
        moved: Row = {**claim, "epoch": record.values["epoch"]}
        record.fire(SESSION_ADMISSION.name, "readopt", admission_id=each["admission_id"], **moved)
        record.sweep(SESSION_ADMISSION.name, "rebind", session_id=each["target_session_id"], **moved)


def _holds(admission: Row, session_id: object) -> bool:
    if admission["target_session_id"] == session_id:
        return True
    try:
        lineage = decode_json(admission["lineage_json"], label="the stored lineage", error=ValueError)
    except ValueError:
        return False
    return isinstance(lineage, list) and session_id in lineage


def _run_operation(record: Record) -> dict[str, Any]:
    """Run what the call has bound, and answer the JSON text that is stored of its answer, and whether it wrote."""
    before = record.tx.changes
    answer: object = record.context["run"](record)
    if not isinstance(answer, dict):
        raise refusing("result")(f"result: expected an object, found a {type(answer).__name__}; mend the handler")
    stored = canonical_json(
        answer, label="result", error=refusing("result"), maximum_bytes=MAX_RUNTIME_JSON_BYTES, ascii_only=False
    )
    return {"result_json": stored, "wrote": record.tx.changes != before}


def _store_receipt(record: Record) -> None:
    values: Row = {name: record.values[name] for name in ("execution_id", "sequence", "payload_digest")}
    record.tx.execute(_STORE, {**values, "result_json": record.found["run_operation"]["result_json"]})


def _revise_session(record: Record) -> None:
    if record.found["run_operation"]["wrote"] or _row(record)["status"] == TERMINAL.name:
        revise(record.tx, str(_row(record)["session_id"]))


def compact_receipts(tx: Transaction, execution_id: str) -> None:
    """Shrink what the execution had only read to a mark that it was read; what cannot be decoded stays as it is."""
    for row in tx.execute(_READ_COPIES, {"execution_id": execution_id, **_MAY_BE_READ_COPIES}):
        if _is_read_copy(row["result_json"]):
            values: Row = {"execution_id": execution_id, "sequence": row["sequence"], "retired": RETIRED_RECEIPT}
            tx.execute(_COMPACT, values)


def _is_read_copy(result_json: Value) -> bool:
    try:
        result = decode_json(result_json, label="the stored receipt", error=ValueError)
    except ValueError:
        return False
    return isinstance(result, dict) and not _READ_COPY.isdisjoint(result)


def _compact_receipts(record: Record) -> None:
    compact_receipts(record.tx, str(_row(record)["execution_id"]))


def _leave_tombstone(record: Record) -> None:
    row = _row(record)
    tombstone = json.dumps(worker_view(row), ensure_ascii=False)
    keep(record.tx, f"{TERMINAL_WORKER_PREFIX}{row['execution_id']}", tombstone)
    record.tx.execute(_FORGET, {"execution_id": row["execution_id"]})


WORKER_STEPS: dict[str, Action] = {
    "require_free_lineage": _require_free_lineage,
    "readopt_admission": _readopt_admission,
    "run_operation": _run_operation,
    "store_receipt": _store_receipt,
    "revise_session": _revise_session,
    "compact_receipts": _compact_receipts,
    "leave_tombstone": _leave_tombstone,
}
"""The steps by the names that the declaration gives them."""
