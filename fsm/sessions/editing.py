"""Mutations of what a session says of itself: its title, its model, and whether it is in the archive."""

from typing import Any

from fsm import observers
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import SESSIONS
from fsm.sessions.changes import Change, Effect

__all__ = ["archive", "rename", "set_model"]

_RENAME = f"UPDATE {quoted(SESSIONS.name)} SET title = :title WHERE id = :id"
_ARCHIVE = f"UPDATE {quoted(SESSIONS.name)} SET archived = :archived WHERE id = :id"
_MODEL = f"UPDATE {quoted(SESSIONS.name)} SET model = :model WHERE id = :id"


def rename(change: Change) -> Effect:
    """Give the session another title."""
    return _edited(change, _RENAME, title=change.payload["title"])


def archive(change: Change) -> Effect:
    """Put the session into the archive, of which observers hear, or take it out again."""
    archived = change.payload["archived"]
    if archived and not change.row["archived"]:
        gone = observers.SessionGoneEvent((change.session_id,), "archive", change.session_id, change.now)
        observers.queue(change.tx, gone)
    return _edited(change, _ARCHIVE, archived=int(archived))


def set_model(change: Change) -> Effect:
    """Let the session's next turns run on another model; its provider is told back, and stored in the receipt alone."""
    return _edited(change, _MODEL, model=change.payload["model"])


def _edited(change: Change, statement: str, **columns: Any) -> Effect:
    change.tx.execute(statement, {"id": change.session_id, **columns})
    return Effect(change.payload, (change.session_id,))
