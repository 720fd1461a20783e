"""Messages: what one may hold, and how its row stores it."""

from collections.abc import Mapping
from typing import Any, Final

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.limits import MAX_RUNTIME_JSON_BYTES
from fsm.lifecycles.runtime_tables import MESSAGES
from fsm.machine.statements import returned
from fsm.runtime.parse import parse_choice, refusing
from storage import Row, Transaction, canonical_json, number, record, text
from storage.canonical import MAXIMUM_DEPTH

__all__ = ["MESSAGE_FIELDS", "ROLES", "insert_message", "parse_message"]

ROLES: Final = ("user", "assistant", "system", "tool")
"""Who may speak in a transcript."""

MESSAGE_FIELDS: Final = frozenset(
    {
        *("tool_name", "tool_calls", "tool_call_id", "token_count", "finish_reason", "effect_disposition"),
        *("reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items"),
        *("platform_message_id", "message_id", "observed", "api_content", "display_kind", "display_metadata"),
        *("timestamp", "_row_id", "_compressed_summary", "_canonical_content"),
    }
)
"""What a message may hold beside its role and content; `_row_id` names a row of the same transcript."""

_DEPTH: Final = MAXIMUM_DEPTH - 2
"""Of an answer that shows a message within a list or a result, so that each stored one can be shown."""

_INSERT = f"""
    INSERT INTO {quoted(MESSAGES.name)} (session_id, role, content, extra_json, timestamp)
    VALUES (:session_id, :role, :content, :extra_json, :timestamp) RETURNING {returned(MESSAGES)}
"""
_IN_COLUMNS = frozenset({"role", "content", "timestamp", "_row_id"})


def parse_message(message: object, *, further: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the message, with `extra_json` for what has no column; `further` names fields that the caller takes too.

    Raises RuntimeStoreError(invalid_params) for an unknown field, a role or content that cannot be stored.
    """
    allowed = MESSAGE_FIELDS | further
    fields = record(
        message, label="message", error=refusing("message"), required=("role",), optional=(*allowed, "content")
    )
    parse_choice(fields["role"], "role", ROLES)
    content, timestamp = fields.get("content"), fields.get("timestamp")
    if isinstance(content, str):
        text(content, label="content", error=refusing("content"), blank=True)
    if timestamp is not None:
        fields["timestamp"] = number(timestamp, label="timestamp", error=refusing("timestamp"))
    return {**fields, "extra_json": _extra(fields)}


def _extra(fields: Mapping[str, Any]) -> str:
    extra = {name: value for name, value in fields.items() if name not in _IN_COLUMNS and value is not None}
    if not isinstance(fields.get("content"), str | None):
        # Parts of a message are JSON; the column holds text, so that it can be searched.
        extra["content"] = fields["content"]
    return canonical_json(
        extra,
        label="message",
        error=refusing("message"),
        maximum_bytes=MAX_RUNTIME_JSON_BYTES,
        ascii_only=False,
        maximum_depth=_DEPTH,
    )


def insert_message(tx: Transaction, session_id: str, message: Mapping[str, Any], now: float) -> Row:
    """Store a parsed message at the end of the session's transcript and return its row; `now` is seconds."""
    content, timestamp = message.get("content"), message.get("timestamp")
    values = {
        "session_id": session_id,
        "role": message["role"],
        "content": content if isinstance(content, str) else None,
        "extra_json": message["extra_json"],
        "timestamp": now if timestamp is None else timestamp,
    }
    return tx.execute(_INSERT, values)[0]
