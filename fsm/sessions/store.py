"""The session store: sessions and their transcripts, which no lifecycle moves."""

from collections.abc import Mapping
from typing import Any, Final

from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import MESSAGES, SESSIONS
from fsm.lifecycles.session_authorities import NOT_FOUND, SESSION
from fsm.machine.standing import require
from fsm.machine.statements import returned
from fsm.runtime.keys import RETIRED_SESSION_PREFIX
from fsm.runtime.messages import insert_message, parse_message
from fsm.runtime.meta import kept
from fsm.runtime.parse import Location, call, opened, opened_at, parse_optional_text, parse_text
from fsm.runtime.surfaces import created_surface
from fsm.runtime.views import MessageView, SessionView, listed_message_view, message_view, session_view
from storage import Row, Transaction, Value

__all__ = ["append_message", "create_session", "end_session", "get_session", "list_messages"]

_COLUMNS: Final = ", ".join(quoted(column.name) for column in SESSIONS.columns)
_FIND = f"SELECT {_COLUMNS} FROM {quoted(SESSIONS.name)} WHERE id = :id"
_INSERT = f"""
    INSERT INTO {quoted(SESSIONS.name)} (id, parent_session_id, source, created_source, title, created_at)
    VALUES (:id, :parent_session_id, :source, :created_source, :title, :now)
    ON CONFLICT DO NOTHING RETURNING {returned(SESSIONS)}
"""
_END = f"""
    UPDATE {quoted(SESSIONS.name)} SET ended_at = :now, end_reason = :reason
    WHERE id = :id AND ended_at IS NULL RETURNING {returned(SESSIONS)}
"""
_MESSAGES = f"""
    SELECT {", ".join(quoted(column.name) for column in MESSAGES.columns)} FROM {quoted(MESSAGES.name)}
    WHERE session_id = :session_id ORDER BY id
"""


@call
def create_session(
    db: Location, session_id: object, *, source: object, parent_session_id: object = None, title: object = None
) -> SessionView:
    """Open a session, live and at generation and revision 0; an exact retry returns what is stored.

    `source` says what opened it; a child continues its compressed parent unless that is `branch` or `delegate`. It is
    stored as `created_source` too, `gui` as `desktop`, and not at all where it says nothing. Texts have 1 to 1024
    characters. Raises RuntimeStoreError: invalid_params; not_found where there is no such parent; admission_conflict
    where the id is taken by other content, or was a deleted session's.
    """
    name = parse_text(session_id, "session_id")
    values: dict[str, Value] = {
        "id": name,
        "parent_session_id": parse_optional_text(parent_session_id, "parent_session_id"),
        "source": parse_text(source, "source"),
        "title": parse_optional_text(title, "title"),
    }
    values["created_source"] = created_surface(values["source"])
    handle, now = opened_at(db)
    return session_view(handle.write(lambda tx: _create(tx, values | {"now": now})))


def _create(tx: Transaction, values: dict[str, Value]) -> Row:
    if kept(tx, f"{RETIRED_SESSION_PREFIX}{values['id']}") is not None:
        raise _taken("its id was a deleted session's; use a new one")
    if values["parent_session_id"] is not None:
        require(tx, SESSION, session_id=values["parent_session_id"])
    made = tx.execute(_INSERT, values)
    if made:
        return made[0]
    stored = tx.execute(_FIND, {"id": values["id"]})[0]
    if any(stored[name] != values[name] for name in ("parent_session_id", "source", "title")):
        raise _taken("its id is taken by other content; read get_session, or use a new id")
    return stored


def _taken(said: str) -> RuntimeStoreError:
    return RuntimeStoreError("admission_conflict", field="session_id", detail=f"the session cannot be created: {said}")


@call
def end_session(db: Location, session_id: object, *, reason: object) -> SessionView:
    """End a session for a reason; one that ended for this very reason is returned as it is stored.

    `compression` says that a child continues it. Raises RuntimeStoreError: invalid_params; not_found;
    admission_conflict where it ended for another reason, which stays.
    """
    name, why = parse_text(session_id, "session_id"), parse_text(reason, "reason")
    handle, now = opened_at(db)
    return session_view(handle.write(lambda tx: _end(tx, name, why, now)))


def _end(tx: Transaction, name: str, reason: str, now: float) -> Row:
    require(tx, SESSION, session_id=name)
    ended = tx.execute(_END, {"id": name, "reason": reason, "now": now})
    if ended:
        return ended[0]
    stored = tx.execute(_FIND, {"id": name})[0]
    if stored["end_reason"] != reason:
        raise RuntimeStoreError(
            "admission_conflict",
            field="reason",
            detail="expected a live session, found one that ended for another reason, which stays; read get_session",
        )
    return stored


@call
def get_session(db: Location, session_id: object) -> SessionView | None:
    """Return a session as stored, or None; raises RuntimeStoreError(invalid_params)."""
    name = parse_text(session_id, "session_id")
    rows = opened(db).read(lambda tx: tx.execute(_FIND, {"id": name}))
    return session_view(rows[0]) if rows else None


@call
def append_message(db: Location, session_id: object, *, role: object, content: object, **fields: object) -> MessageView:
    """Add a message to the end of a session's transcript; what became of a lost call, `list_messages` tells.

    `role` is user, assistant, system or tool, `content` text, None or another JSON value; `fields` are those of
    `fsm.sessions.MESSAGE_FIELDS`. `timestamp` is seconds, and the handle's clock where it is not among them. The
    session's revision stays. Raises RuntimeStoreError: invalid_params; not_found.
    """
    name = parse_text(session_id, "session_id")
    message = parse_message({"role": role, "content": content, **fields})
    handle, now = opened_at(db)
    return handle.write(lambda tx: _append(tx, name, message, now))


def _append(tx: Transaction, name: str, message: Mapping[str, Any], now: float) -> MessageView:
    require(tx, SESSION, session_id=name)
    return message_view(insert_message(tx, name, message, now))


@call
def list_messages(db: Location, session_id: object) -> list[MessageView]:
    """Return a session's transcript in its order, without what it continues.

    Raises RuntimeStoreError: invalid_params; not_found.
    """
    name = parse_text(session_id, "session_id")

    def read(tx: Transaction) -> list[Row]:
        if not tx.execute(_FIND, {"id": name}):
            raise NOT_FOUND.error(f"expected a session, found none; {NOT_FOUND.remedy}")
        return tx.execute(_MESSAGES, {"session_id": name})

    return [listed_message_view(row) for row in opened(db).read(read)]
