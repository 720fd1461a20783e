"""Deleting a session with all that it takes along; what stays are tombstones, which hold no word of its user."""

import json

from fsm import observers
from fsm.lifecycle import Arg, Term
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.admission_states import OF_SESSION
from fsm.lifecycles.runtime_tables import MESSAGES, MODEL_USAGE, SESSIONS
from fsm.runtime.keys import RETIRED_SESSION_PREFIX
from fsm.runtime.lineage import lineage_of
from fsm.runtime.machines import ADMISSION_MACHINE, TURN_LEASE_MACHINE, WORKER_MACHINE
from fsm.runtime.meta import keep
from fsm.sessions.changes import Change, Effect, family_of
from fsm.sessions.receipts import strip_texts
from storage import Row, Transaction

__all__ = ["delete", "lineages_of_family"]

_ORPHAN = f"UPDATE {quoted(SESSIONS.name)} SET parent_session_id = NULL WHERE parent_session_id = :id"
_DELETE = f"DELETE FROM {quoted(SESSIONS.name)} WHERE id = :id"
_OF_THE_SESSION = tuple(f"DELETE FROM {quoted(table.name)} WHERE session_id = :id" for table in (MESSAGES, MODEL_USAGE))
_WORKERS_OF_SESSION = (Term("session_id", "=", Arg("session_id")),)


def lineages_of_family(tx: Transaction, session_id: str) -> list[str]:
    """Return whatever has to be idle ahead of a deletion: the whole lineage of each session that it takes along."""
    return list(dict.fromkeys(each for member in family_of(tx, session_id) for each in lineage_of(tx, member)))


def delete(change: Change) -> Effect:
    """Delete the session, what continues it, and their delegates; children of another kind stand on their own."""
    family = family_of(change.tx, change.session_id)
    for session_id in family:
        _bury(change, session_id)
    # Only now: an existing gateway's foreign keys refuse a session that another still names.
    for session_id in family:
        change.tx.execute(_ORPHAN, {"id": session_id})
    for session_id in family:
        change.tx.execute(_DELETE, {"id": session_id})
    strip_texts(change.tx, family)
    gone = observers.SessionGoneEvent(tuple(family), "delete", change.session_id, change.now)
    observers.queue(change.tx, gone)
    return Effect({"deleted_ids": family})


def _bury(change: Change, session_id: str) -> None:
    values: Row = {"session_id": session_id}
    for row in ADMISSION_MACHINE.select(change.tx, OF_SESSION, values=values, order=("seq",)):
        ADMISSION_MACHINE.fire(change.tx, "delete", now=change.now, admission_id=row["admission_id"])
    for row in WORKER_MACHINE.select(change.tx, _WORKERS_OF_SESSION, values=values, order=("execution_id",)):
        WORKER_MACHINE.fire(change.tx, "delete", now=change.now, execution_id=row["execution_id"])
    TURN_LEASE_MACHINE.sweep(change.tx, "purge", now=change.now, conversation_id=session_id)
    for statement in _OF_THE_SESSION:
        change.tx.execute(statement, {"id": session_id})
    tombstone = json.dumps({"retired_at": change.now})
    keep(change.tx, f"{RETIRED_SESSION_PREFIX}{session_id}", tombstone)
