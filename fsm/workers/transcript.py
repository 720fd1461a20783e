"""Appending to a session's transcript."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.limits import MAX_APPENDED_MESSAGES
from fsm.lifecycles.runtime_tables import MESSAGES
from fsm.machine import Record
from fsm.runtime.messages import MESSAGE_FIELDS, insert_message, parse_message
from fsm.runtime.parse import parse_text, refusing
from fsm.workers.turns import require_turn
from storage import Row, instance, integer, record
from storage.validate import INTEGER_MINIMUM

__all__ = ["HANDOFF_MESSAGE_FIELDS", "append_messages", "parse_append"]

HANDOFF_MESSAGE_FIELDS: Final = MESSAGE_FIELDS | {"role", "content", "_compressed_summary_has_user_turn"}
"""Every field of a message that a worker may hand over when it publishes a compressed transcript."""

_FIND = f"""
    SELECT id AS {quoted("_row_id")}, {quoted("timestamp")} + 0.0 AS {quoted("timestamp")}
    FROM {quoted(MESSAGES.name)} WHERE id = :row_id AND session_id = :session_id
"""


@frozen
class Append:
    """Messages, parsed, and the holder whose turn it must be; None where nobody's turn is asked for."""

    messages: tuple[dict[str, Any], ...]
    holder: str | None


def parse_append(payload: Mapping[str, Any]) -> Append:
    """Return what is to be appended; raises RuntimeStoreError(invalid_params)."""
    fields = record(
        payload, label="payload", error=refusing("payload"), required=("messages",), optional=("turn_lease_holder",)
    )
    messages: list[object] = instance(fields["messages"], list, label="messages", error=refusing("messages"))
    if len(messages) > MAX_APPENDED_MESSAGES:
        raise refusing("messages")(
            f"messages: expected at most {MAX_APPENDED_MESSAGES}, found {len(messages)}; append them in parts"
        )
    holder = fields.get("turn_lease_holder")
    return Append(
        tuple(map(_parse_message, messages)), None if holder is None else parse_text(holder, "turn_lease_holder")
    )


def _parse_message(message: object) -> dict[str, Any]:
    parsed = parse_message(message)
    if parsed.get("_row_id") is not None:
        integer(parsed["_row_id"], label="_row_id", error=refusing("_row_id"), minimum=INTEGER_MINIMUM)
    return parsed


def append_messages(call: Record, append: Append) -> dict[str, Any]:
    """Store the messages at the end of the transcript, but for those that are its rows already."""
    session_id = str(call.values["session_id"])
    known = [_known_row(call, session_id, message.get("_row_id")) for message in append.messages]
    if append.holder is not None:
        require_turn(call, append.holder)
    annotations = [
        row or _annotation(insert_message(call.tx, session_id, message, call.now))
        for row, message in zip(known, append.messages, strict=True)
    ]
    return {"count": known.count(None), "annotations": annotations}


def _known_row(call: Record, session_id: str, row_id: int | None) -> Row | None:
    if row_id is None:
        return None
    rows = call.tx.execute(_FIND, {"row_id": row_id, "session_id": session_id})
    if not rows:
        raise RuntimeStoreError(
            "permission_denied",
            field="_row_id",
            detail="expected a row of this session's transcript, found none; leave _row_id out of a new message",
        )
    return rows[0]


def _annotation(row: Row) -> Row:
    return {"_row_id": row["id"], "timestamp": row["timestamp"]}
