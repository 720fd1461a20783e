"""Whether sessions are idle: nothing waits for them, nothing works on them, and nothing about them is unknown."""

from collections.abc import Iterable
from typing import Final

from fsm.lifecycle import Refusal, among
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles.admission_states import QUEUED, STARTED, UNKNOWN
from fsm.lifecycles.runtime_tables import ADMISSIONS
from fsm.lifecycles.session_authorities import UNKNOWN_EXECUTION, because
from fsm.lifecycles.worker_execution import UNKNOWN as UNKNOWN_WORKER
from fsm.runtime.admission_steps import worker_statuses
from storage import Transaction

__all__ = ["BUSY", "pending_statuses", "require_idle"]

BUSY: Final[Refusal] = because(
    "session_busy", "settle or cancel what the session still has to do, and let its workers finish", field="status"
)

_PENDING = f"""
    SELECT status FROM {quoted(ADMISSIONS.name)}
    WHERE target_session_id = :session_id AND {sql((among(QUEUED, STARTED, UNKNOWN),))}
"""


def pending_statuses(tx: Transaction, session_ids: Iterable[str]) -> list[str]:
    """Return the status of each admission of these sessions that is queued, started or unknown."""
    rows = (row for session_id in session_ids for row in tx.execute(_PENDING, {"session_id": session_id}))
    return [str(row["status"]) for row in rows]


def require_idle(tx: Transaction, session_ids: list[str]) -> None:
    """Refuse sessions of which anything is unknown, queued, started or at work.

    Raises RuntimeStoreError: unknown_execution, which a person has to resolve first; session_busy.
    """
    pending, workers = pending_statuses(tx, session_ids), worker_statuses(tx, session_ids)
    if UNKNOWN.name in pending or UNKNOWN_WORKER.name in workers:
        raise UNKNOWN_EXECUTION.error(
            f"expected to know how far everything in the sessions came, found some unknown; {UNKNOWN_EXECUTION.remedy}"
        )
    if pending or workers:
        raise BUSY.error(
            f"expected idle sessions, found {len(pending)} inputs pending, {len(workers)} at work; {BUSY.remedy}"
        )
