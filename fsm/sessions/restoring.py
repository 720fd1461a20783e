"""Sessions with their transcripts, taken over from elsewhere."""

from collections.abc import Mapping
from typing import Any, Final

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import SESSIONS, UNSET_SOURCES
from fsm.lifecycles.session_authorities import NOT_FOUND
from fsm.runtime.messages import insert_message
from fsm.runtime.surfaces import created_surface
from fsm.sessions.changes import Change, Effect, require_unused, standing

__all__ = ["import_sessions"]

_UNSAID: Final = UNSET_SOURCES[-1]
"""The source of a session of which nobody said where it came from."""
_INSERT = f"""
    INSERT INTO {quoted(SESSIONS.name)} (id, parent_session_id, source, created_source, title, created_at)
    VALUES (:id, :parent_session_id, :source, :created_source, :title, :now)
    ON CONFLICT DO NOTHING RETURNING id
"""


def import_sessions(change: Change) -> Effect:
    """Store the sessions that there are not yet, each whole; one that there is stays as it is.

    A parent is stored already, or comes earlier among them.
    """
    imported: list[str] = []
    skipped: list[str] = []
    for session in change.payload["sessions"]:
        chosen = imported if _stored(change, session) else skipped
        chosen.append(session["id"])
    return Effect({"imported_ids": imported, "skipped_ids": skipped}, tuple(imported))


def _stored(change: Change, session: Mapping[str, Any]) -> bool:
    require_unused(change.tx, session["id"])
    if standing(change.tx, session["id"])["id"] is not None:
        return False
    parent, source = session["parent_session_id"], session["source"] or _UNSAID
    if parent is not None and standing(change.tx, parent)["id"] is None:
        raise NOT_FOUND.error("expected the parent of an imported session, found none; import it ahead of its child")
    values = {name: session[name] for name in ("id", "parent_session_id", "title")}
    values |= {"source": source, "created_source": created_surface(source), "now": change.now}
    if not change.tx.execute(_INSERT, values):
        return False
    for message in session["messages"]:
        insert_message(change.tx, session["id"], message, change.now)
    return True
