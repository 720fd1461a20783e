"""A room's events as rows: stored with the change that they come with, under the next sequence number, and found."""

from collections.abc import Mapping
from typing import Any

from fsm.errors import EventConflictError, HostedRoomError
from fsm.lifecycles.limits import (
    CONTROL_EVENT_BYTE_RESERVE,
    CONTROL_EVENT_COUNT_RESERVE,
    MAX_EVENTS_PER_ROOM,
    MAX_GATEWAY_EVENT_BYTES,
    MAX_ROOM_EVENT_BYTES,
)
from fsm.lifecycles.tables import EVENTS
from fsm.machine import Record
from fsm.machine.statements import returned
from fsm.rooms.entries import CONTROL_KINDS
from fsm.rooms.retention import make_space, stored_bytes
from storage import Row, Transaction, Value
from storage.validate import INTEGER_MAXIMUM, integer

__all__ = ["append_event", "counted", "find_event", "following", "stored_bytes"]

_COLUMNS = ", ".join(column.name for column in EVENTS.columns)
_INSERT = (
    f"INSERT INTO {EVENTS.name} ({_COLUMNS})"
    " VALUES (:room_id, :event_seq, :event_id, :event_kind, :event_actor_json, :event_epoch, :event_payload_json, :now)"
    f" ON CONFLICT DO NOTHING RETURNING {returned(EVENTS)}"
)
_FIND = f"SELECT {_COLUMNS} FROM {EVENTS.name} WHERE room_id = :room_id AND event_id = :event_id"
_FOLLOWING = f"SELECT {_COLUMNS} FROM {EVENTS.name} WHERE room_id = :room_id AND seq > :seq ORDER BY seq LIMIT :limit"
_COUNTED = ("event_id", "event_kind", "event_actor_json", "event_payload_json")


def find_event(tx: Transaction, room_id: str, event_id: str) -> Row | None:
    """Return the room's event with this id, or None."""
    rows = tx.execute(_FIND, {"room_id": room_id, "event_id": event_id})
    return rows[0] if rows else None


def following(tx: Transaction, room_id: str, seq: Value, limit: int) -> list[Row]:
    """Return the room's events after a sequence number, in order, at most `limit` of them."""
    return tx.execute(_FOLLOWING, {"room_id": room_id, "seq": seq, "limit": limit})


def append_event(record: Record) -> dict[str, Any]:
    """Store the event that comes with the change; the step `append_event` of the declaration.

    Answers its UTF-8 bytes and its row. Raises HostedRoomError where the room or the gateway is full, or the room's row
    is damaged; EventConflictError where the room has an event with this id or number already.
    """
    room, values = record.row or {}, record.values
    size = sum(len(str(values[name]).encode()) for name in _COUNTED)
    _require_space(record, room, size)
    epoch = values["event_epoch"] if "event_epoch" in values else counted(room, "authority_epoch", minimum=0)
    rows = record.tx.execute(_INSERT, {**values, "event_seq": room["next_seq"], "event_epoch": epoch})
    if not rows:
        raise EventConflictError(
            "the id of the change's own event is taken in this room; read room_state before going on"
        )
    return {"bytes": size, "row": rows[0]}


def _require_space(record: Record, room: Row, size: int) -> None:
    control = record.values["event_kind"] in CONTROL_KINDS
    count, spare = (CONTROL_EVENT_COUNT_RESERVE, CONTROL_EVENT_BYTE_RESERVE) if control else (0, 0)
    # An engine may go on with a float where the next revision has more than 64 bits.
    counted(room, "revision", minimum=0, maximum=INTEGER_MAXIMUM - 1)
    if counted(room, "next_seq", minimum=1) - 1 >= MAX_EVENTS_PER_ROOM + count:
        raise HostedRoomError("the room's log is full; go on in a new room")
    if counted(room, "event_bytes", minimum=0) + size > MAX_ROOM_EVENT_BYTES + spare:
        raise HostedRoomError("the room's storage is full; go on in a new room")
    limit = MAX_GATEWAY_EVENT_BYTES + spare - size
    kept = counted(record.found["gateway"], "total", minimum=0)
    if kept > limit:
        make_space(record, max(0, limit))
        kept = stored_bytes(record.tx)
    if kept > limit:
        raise HostedRoomError("the gateway's event storage is full; disband a room that is no longer needed")


def counted(row: Mapping[str, Any], column: str, *, minimum: int, maximum: int = INTEGER_MAXIMUM) -> int:
    """Return a number as stored; raises HostedRoomError where it is damaged."""
    label = f"the stored {column}"
    return integer(row[column], label=label, error=HostedRoomError, minimum=minimum, maximum=maximum)
