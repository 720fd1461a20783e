"""Mutations of a transcript, that of the session with which the lineage ends: reset, rewind, branch, compress."""

from collections.abc import Mapping
from typing import Any, Final

from fsm.lifecycle import Arg, Conditions, Term
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import MESSAGES, SESSIONS
from fsm.lifecycles.session_authorities import NOT_FOUND
from fsm.lifecycles.worker_execution import UNKNOWN
from fsm.runtime.keys import RESERVED_EXECUTION_PREFIX
from fsm.runtime.lineage import APART, COMPRESSION, lineage_of
from fsm.runtime.machines import WORKER_MACHINE
from fsm.runtime.messages import insert_message
from fsm.runtime.parse import parse_text
from fsm.runtime.views import message_view
from fsm.sessions.changes import Change, Effect, conflict, require_unused, standing
from storage import Row, Value

__all__ = ["RESET", "branch", "compress", "discard_unknown", "reset", "rewind"]

RESET: Final = "session_reset"
"""The end_reason of a session that was reset."""
_BRANCH: Final = "branch"
_COLUMNS: Final = ", ".join(quoted(column.name) for column in MESSAGES.columns)
_COPIED: Final = "role, content, extra_json, timestamp"

_END = f"""
    UPDATE {quoted(SESSIONS.name)} SET ended_at = COALESCE(ended_at, :now), end_reason = :reason WHERE id = :id
"""
_OPEN = f"""
    INSERT INTO {quoted(SESSIONS.name)}
        (id, parent_session_id, source, created_source, chat_id, title, model, created_at)
    VALUES (:id, :parent_session_id, :source, :created_source, :chat_id, :title, :model, :now)
    ON CONFLICT DO NOTHING RETURNING id
"""
_MESSAGE = f"SELECT {_COLUMNS} FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id AND id = :message_id"
_LAST = f"SELECT MAX(id) AS last FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id"
_REWIND = f"DELETE FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id AND id >= :message_id RETURNING id"
_COPY_THROUGH = f"""
    INSERT INTO {quoted(MESSAGES.name)} (session_id, {_COPIED})
    SELECT CAST(:child_id AS TEXT), {_COPIED} FROM {quoted(MESSAGES.name)}
    WHERE session_id = :session_id AND id <= :message_id ORDER BY id RETURNING id
"""
_COPY_LAST = f"""
    INSERT INTO {quoted(MESSAGES.name)} (session_id, {_COPIED})
    SELECT CAST(:child_id AS TEXT), {_COPIED} FROM (
        SELECT id, {_COPIED} FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id ORDER BY id DESC LIMIT :kept
    ) AS kept
    ORDER BY id RETURNING id
"""
_UNKNOWN_OF_SESSION: Conditions = (Term("session_id", "=", Arg("session_id")), *UNKNOWN.terms)


def discard_unknown(change: Change) -> None:
    """End the lineage's unknown executions that no admission had reserved: whoever resets does not wait for them."""
    for session_id in change.sessions:
        values: Row = {"session_id": session_id}
        for row in WORKER_MACHINE.select(change.tx, _UNKNOWN_OF_SESSION, values=values, order=("execution_id",)):
            execution_id = str(row["execution_id"])
            if not execution_id.startswith(RESERVED_EXECUTION_PREFIX):
                WORKER_MACHINE.fire(change.tx, "discard", now=change.now, execution_id=execution_id)


def reset(change: Change) -> Effect:
    """End the transcript and open an empty one in its place."""
    parent = standing(change.tx, change.transcript)
    _end(change, RESET)
    child = _open(change, parent, source=_continuing(parent), title=None)
    return Effect({"child_session_id": child}, (change.session_id, change.transcript))


def compress(change: Change) -> Effect:
    """End the transcript and open one that continues it: the summary, then copies of the last messages."""
    parent, summary = standing(change.tx, change.transcript), change.payload["summary"]
    if parent["end_reason"] not in (None, COMPRESSION):
        raise conflict("end_reason", "expected a transcript that goes on, found one that has ended; name another one")
    _end(change, COMPRESSION)
    child = _open(change, parent, source=_continuing(parent), title=parent["title"])
    insert_message(change.tx, child, summary, change.now)
    copies: Row = {"child_id": child, "session_id": change.transcript, "kept": change.payload["keep_last"]}
    kept = change.tx.execute(_COPY_LAST, copies)
    if lineage_of(change.tx, change.session_id)[-1] != child:
        raise conflict(
            "parent_session_id",
            "another child would be taken for what continues the session; make that one a branch first",
        )
    result = {"child_session_id": child, "summary": summary["content"], "kept_count": len(kept)}
    return Effect(result, (change.session_id, change.transcript))


def branch(change: Change) -> Effect:
    """Copy the transcript, as far as the caller says, into a conversation of its own."""
    title, through = change.payload["title"], change.payload["through"]
    if through is None:
        through = change.tx.execute(_LAST, {"session_id": change.transcript})[0]["last"] or 0
    else:
        _found(change, through)
    child = _open(change, standing(change.tx, change.transcript), source=_BRANCH, title=title)
    copies: Row = {"child_id": child, "session_id": change.transcript, "message_id": through}
    copied = change.tx.execute(_COPY_THROUGH, copies)
    result: dict[str, Any] = {"child_session_id": child, "copied_count": len(copied)}
    return Effect(result if title is None else {**result, "title": title}, (change.session_id,))


def rewind(change: Change) -> Effect:
    """Remove a message and all that came after it."""
    target = _found(change, change.payload["target_message_id"])
    where: Row = {"session_id": change.transcript, "message_id": target["id"]}
    removed = change.tx.execute(_REWIND, where)
    last = change.tx.execute(_LAST, where)[0]["last"]
    result = {"rewound_count": len(removed), "target_message": message_view(target), "new_head_id": last}
    return Effect(result, (change.session_id, change.transcript))


def _found(change: Change, message_id: int) -> Row:
    rows = change.tx.execute(_MESSAGE, {"session_id": change.transcript, "message_id": message_id})
    if not rows:
        raise NOT_FOUND.error("expected a message of this transcript, found none; read list_messages of its session")
    return rows[0]


def _end(change: Change, reason: str) -> None:
    change.tx.execute(_END, {"id": change.transcript, "now": change.now, "reason": reason})


def _open(change: Change, parent: Mapping[str, Value], *, source: Value, title: Value) -> str:
    child = parse_text(change.new_id(), "new_id")
    require_unused(change.tx, child)
    values: Row = {name: parent[name] for name in ("created_source", "chat_id", "model")}
    values |= {"id": child, "parent_session_id": parent["id"], "source": source, "title": title, "now": change.now}
    if not change.tx.execute(_OPEN, values):
        raise conflict("new_id", "expected an id that no session has, found a taken one; try again")
    return child


def _continuing(parent: Mapping[str, Value]) -> Value:
    """Return the source of what goes on from a session: the same, unless it would say that the child stands apart."""
    sources = (parent["source"], parent["created_source"])
    return next((each for each in sources if each is not None and each not in APART), COMPRESSION)
