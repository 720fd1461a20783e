"""What the steps of `session_admission` do that no term can say; bound to their names in `fsm.runtime.machines`."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from fsm.lifecycle import among
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles import SESSION_ADMISSION, WORKER_EXECUTION
from fsm.lifecycles.admission_states import COMPLETED, INTERRUPTED, QUEUED, STEERED
from fsm.lifecycles.runtime_tables import EXECUTIONS
from fsm.lifecycles.session_authorities import UNKNOWN_EXECUTION
from fsm.lifecycles.worker_execution import LIVE, UNKNOWN
from fsm.machine import Action, Record
from fsm.runtime.keys import RESULT_PREFIX
from fsm.runtime.lineage import advance_generation, held_lineage_of, next_generation, revise
from fsm.runtime.meta import keep
from fsm.runtime.tombstones import bury_admission
from storage import Row, Transaction, Value
from storage.canonical import decode_json

__all__ = ["ADMISSION_STEPS", "deliver_each", "worker_statuses"]

_AT_WORK = f"SELECT status FROM {quoted(EXECUTIONS.name)} WHERE session_id = :session_id AND {sql((among(*LIVE),))}"
_OF_CLAIM = f"""
    SELECT execution_id FROM {quoted(EXECUTIONS.name)}
    WHERE session_id = :session_id AND generation = :generation AND owner_epoch = :owner_epoch
      AND {sql((among(*LIVE),))} ORDER BY execution_id
"""


def worker_statuses(tx: Transaction, session_ids: list[str]) -> list[str]:
    """Return the status of each execution of these sessions that has not ended."""
    rows = (row for session_id in session_ids for row in tx.execute(_AT_WORK, {"session_id": session_id}))
    return [str(row["status"]) for row in rows]


def _hook(name: str) -> Action:
    def run(record: Record) -> None:
        record.context[name](record.tx)

    return run


def _terminal_write(record: Record) -> None:
    record.context["terminal_write"](record.tx, dict(_row(record)))


def _row(record: Record) -> Row:
    assert record.row is not None  # noqa: S101 # the trigger's Source has found a row
    return record.row


def _target(record: Record) -> str:
    return str(_row(record)["target_session_id"])


def _look_at_workers(record: Record) -> dict[str, int]:
    found = worker_statuses(record.tx, held_lineage_of(record.tx, str(record.values["session_id"])))
    if UNKNOWN.name in found:
        raise UNKNOWN_EXECUTION.error(
            f"expected no execution of the session's lineage to be unknown, found one; {UNKNOWN_EXECUTION.remedy}"
        )
    return {"at_work": len(found)}


def _next_generation(record: Record) -> dict[str, int]:
    return {"generation": next_generation(record.tx, _target(record))}


def _retire_workers(record: Record) -> None:
    row = _row(record)
    claim = {"generation": row["generation"], "owner_epoch": row["owner_epoch"]}
    # A reset or a compression has moved the worker to the last transcript, while the queue keeps its first id.
    for session_id in dict.fromkeys((_target(record), *_last_of(row["lineage_json"]))):
        for worker in record.tx.execute(_OF_CLAIM, {"session_id": session_id, **claim}):
            record.fire(WORKER_EXECUTION.name, "retire", execution_id=worker["execution_id"])


@lru_cache(maxsize=256)
def _last_of(lineage_json: Value) -> tuple[str, ...]:
    """Return the last session of a stored lineage; a damaged one names none, and must not keep a turn from ending."""
    try:
        lineage = decode_json(lineage_json, label="the stored lineage", error=ValueError)
    except ValueError:
        return ()
    last = lineage[-1:] if isinstance(lineage, list) else []
    return tuple(each for each in last if isinstance(each, str))


def _store_result(record: Record) -> None:
    _store(record, record.values["result_json"])


def _store_captured(record: Record) -> None:
    if _row(record)["owner_epoch"] == record.values["epoch"]:
        _store(record, record.values["captured_json"])


def _store(record: Record, result_json: object) -> None:
    if result_json is not None:
        keep(record.tx, f"{RESULT_PREFIX}{record.values['admission_id']}", str(result_json))


def deliver_each(fire: Callable[..., object], transfers: Mapping[str, bool], outcome: str, claim: Row) -> None:
    """Fire `deliver` for each transfer with the ending that the claim's outcome and the delivery give it."""
    for admission_id, delivered in transfers.items():
        taken_along = STEERED if outcome == COMPLETED.name else INTERRUPTED
        ending = taken_along.name if delivered else QUEUED.name
        fire(admission_id=admission_id, ending=ending, **claim)


def _end_steering(record: Record) -> None:
    row = _row(record)
    claim: Row = {"owner_epoch": row["owner_epoch"], "generation": row["generation"]}

    def fire(**arguments: Any) -> None:
        record.fire(SESSION_ADMISSION.name, "deliver", **arguments)

    deliver_each(fire, record.context.get("transfers") or {}, str(record.values["outcome"]), claim)
    _interrupt_steering(record)


def _interrupt_steering(record: Record) -> None:
    row = _row(record)
    claim: Row = {"owner_epoch": row["owner_epoch"], "generation": row["generation"]}
    record.sweep(SESSION_ADMISSION.name, "leave_out", session_id=_target(record), **claim)


def _revise_session(record: Record) -> None:
    revise(record.tx, _target(record))


def _bind_replacement(record: Record) -> None:
    keep(record.tx, str(record.values["binding"]), json.dumps(record.values["admission_id"], ensure_ascii=False))


def _advance_generation(record: Record) -> None:
    least = record.values["generation"]
    if isinstance(least, int):
        advance_generation(record.tx, str(record.values["session_id"]), least)


def _leave_tombstone(record: Record) -> None:
    bury_admission(record.tx, _row(record))


ADMISSION_STEPS: dict[str, Action] = {
    "authorize_write": _hook("authorize_write"),
    "guard": _hook("guard"),
    "terminal_write": _terminal_write,
    "look_at_workers": _look_at_workers,
    "next_generation": _next_generation,
    "retire_workers": _retire_workers,
    "store_result": _store_result,
    "store_captured": _store_captured,
    "end_steering": _end_steering,
    "interrupt_steering": _interrupt_steering,
    "revise_session": _revise_session,
    "bind_replacement": _bind_replacement,
    "advance_generation": _advance_generation,
    "leave_tombstone": _leave_tombstone,
}
"""The steps by the names that the declaration gives them."""
