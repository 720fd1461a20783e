"""What an execution may read of its session: a copy in a receipt, which shrinks when the execution ends."""

from typing import Any, Final

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import MESSAGES, SESSIONS
from fsm.machine import Record
from fsm.runtime.views import message_view, session_view
from storage import Row, Table, Value

__all__ = ["read_context", "read_row_role", "read_tail_role"]


def _columns(table: Table) -> str:
    return ", ".join(quoted(column.name) for column in table.columns)


_SESSION: Final = f"SELECT {_columns(SESSIONS)} FROM {quoted(SESSIONS.name)} WHERE id = :session_id"
_MESSAGES: Final = (
    f"SELECT {_columns(MESSAGES)} FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id ORDER BY id"
)
_TAIL: Final = f"SELECT role FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id ORDER BY id DESC LIMIT 1"
_ROW: Final = f"SELECT role FROM {quoted(MESSAGES.name)} WHERE session_id = :session_id AND id = :row_id"


def read_context(call: Record, _: object) -> dict[str, Any]:
    """Answer the session and its transcript, without what it continues."""
    messages = [message_view(row) for row in _read(call, _MESSAGES)]
    return {"session": session_view(_read(call, _SESSION)[0]), "messages": messages}


def read_tail_role(call: Record, _: object) -> dict[str, Any]:
    """Answer the role of the last message; None where there is none."""
    return _role(_read(call, _TAIL))


def read_row_role(call: Record, row_id: int) -> dict[str, Any]:
    """Answer the role of the message with this id; None where the transcript has no such row."""
    return _role(_read(call, _ROW, row_id=row_id))


def _read(call: Record, statement: str, **values: Value) -> list[Row]:
    return call.tx.execute(statement, {"session_id": call.values["session_id"], **values})


def _role(rows: list[Row]) -> dict[str, Any]:
    return {"value": rows[0]["role"] if rows else None}
