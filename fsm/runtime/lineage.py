"""Sessions that continue each other through compression, and the counters of their rows."""

from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.limits import MAX_LINEAGE_SESSIONS
from fsm.lifecycles.runtime_tables import SESSIONS
from fsm.lifecycles.session_authorities import NOT_FOUND
from storage import Row, Transaction

__all__ = [
    "APART",
    "COMPRESSION",
    "advance_generation",
    "ancestors_of",
    "chain_from",
    "held_lineage_of",
    "lineage_of",
    "next_generation",
    "oldest_of",
    "revise",
]

COMPRESSION = "compression"
"""The end_reason of a session whose conversation goes on in a child."""
APART = ("branch", "delegate")
"""Sources of children that are conversations of their own."""

_COLUMNS = "id, parent_session_id, source, end_reason"
_ONE = f"SELECT {_COLUMNS} FROM {quoted(SESSIONS.name)} WHERE id = :id"
_NEXT = f"""
    SELECT {_COLUMNS} FROM {quoted(SESSIONS.name)}
    WHERE parent_session_id = :id AND COALESCE(source, '') NOT IN ('branch', 'delegate')
    ORDER BY CASE WHEN end_reason = 'compression' THEN 0 WHEN ended_at IS NULL THEN 1 ELSE 2 END, id DESC LIMIT 1
"""
_REVISE = f"UPDATE {quoted(SESSIONS.name)} SET runtime_revision = runtime_revision + 1 WHERE id = :id"
_NEXT_GENERATION = f"""
    UPDATE {quoted(SESSIONS.name)} SET runtime_generation = runtime_generation + 1 WHERE id = :id
    RETURNING runtime_generation
"""
_ADVANCE = (
    f"UPDATE {quoted(SESSIONS.name)} SET runtime_generation = :least WHERE id = :id AND runtime_generation < :least"
)


def lineage_of(tx: Transaction, session_id: str) -> list[str]:
    """Return the session and what it continues and is continued by, oldest first.

    Raises RuntimeStoreError: not_found; admission_conflict where the links run in a circle or beyond 100 sessions.
    """
    row = _found(tx, session_id)
    older, newer = _older(tx, row), _newer(tx, row)
    return _bounded([*reversed(older), session_id, *newer])


def held_lineage_of(tx: Transaction, session_id: str) -> list[str]:
    """Hold the session with which the lineage began, and return the lineage, oldest first; raises as `lineage_of` does.

    Two that decide over one lineage from different sessions of it come in turn so, each seeing what the other stored.
    """
    found = lineage_of(tx, session_id)
    while tx.locks_rows:
        oldest = found[0]
        tx.lock(_ONE, {"id": oldest})
        found = lineage_of(tx, session_id)
        if found[0] == oldest:
            break
    return found


def chain_from(tx: Transaction, session_id: str) -> list[str]:
    """Return the session and what it is continued by, itself first; raises as `lineage_of` does."""
    return _bounded([session_id, *_newer(tx, _found(tx, session_id))])


def ancestors_of(tx: Transaction, session_id: str) -> list[str]:
    """Return what the session continues, newest first; raises as `lineage_of` does."""
    return _bounded([session_id, *_older(tx, _found(tx, session_id))])[1:]


def oldest_of(tx: Transaction, session_id: str) -> str:
    """Return the session with which the lineage began; raises as `lineage_of` does."""
    return [session_id, *ancestors_of(tx, session_id)][-1]


def _found(tx: Transaction, session_id: str) -> Row:
    rows = tx.execute(_ONE, {"id": session_id})
    if not rows:
        raise NOT_FOUND.error(f"expected a session, found none; {NOT_FOUND.remedy}")
    return rows[0]


def _older(tx: Transaction, row: Row) -> list[str]:
    older: list[str] = []
    while row["parent_session_id"] is not None and row["source"] not in APART and len(older) <= MAX_LINEAGE_SESSIONS:
        parents = tx.execute(_ONE, {"id": row["parent_session_id"]})
        if not parents or parents[0]["end_reason"] != COMPRESSION:
            break
        row = parents[0]
        older.append(str(row["id"]))
    return older


def _newer(tx: Transaction, row: Row) -> list[str]:
    newer: list[str] = []
    while row["end_reason"] == COMPRESSION and len(newer) <= MAX_LINEAGE_SESSIONS:
        children = tx.execute(_NEXT, {"id": row["id"]})
        if not children:
            break
        row = children[0]
        newer.append(str(row["id"]))
    return newer


def _bounded(sessions: list[str]) -> list[str]:
    # Whoever walks in a circle passes the limit too.
    if len(sessions) > MAX_LINEAGE_SESSIONS:
        raise RuntimeStoreError(
            "admission_conflict",
            field="parent_session_id",
            detail=f"expected at most {MAX_LINEAGE_SESSIONS} sessions in a line, found more or a circle; mend them",
        )
    return sessions


def revise(tx: Transaction, *session_ids: str) -> None:
    """Raise the revision of each session by one, in the order in which sessions are locked."""
    for session_id in sorted(set(session_ids)):
        tx.execute(_REVISE, {"id": session_id})


def next_generation(tx: Transaction, session_id: str) -> int:
    """Raise the session's generation by one and return it."""
    return int(tx.execute(_NEXT_GENERATION, {"id": session_id})[0]["runtime_generation"] or 0)


def advance_generation(tx: Transaction, session_id: str, least: int) -> None:
    """Let the session's generation be at least this one; it never goes back."""
    tx.execute(_ADVANCE, {"id": session_id, "least": least})
