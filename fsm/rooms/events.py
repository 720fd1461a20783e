"""A room's own events: written by the operation that makes the change, under the next sequence number."""

from collections.abc import Mapping
from typing import Any, Literal

from fsm.errors import EventConflictError, HostedRoomError
from fsm.lifecycles.limits import (
    CONTROL_EVENT_BYTE_RESERVE,
    CONTROL_EVENT_COUNT_RESERVE,
    MAX_EVENT_JSON_BYTES,
    MAX_EVENTS_PER_ROOM,
    MAX_GATEWAY_EVENT_BYTES,
    MAX_ROOM_EVENT_BYTES,
)
from fsm.lifecycles.tables import EVENTS, ROOMS
from fsm.machine import Record
from fsm.machine.statements import returned
from fsm.rooms.retention import make_space
from storage import Row, Transaction, Value
from storage.canonical import canonical_json

__all__ = ["append_event", "control_event", "find_event", "stored_bytes"]

_MAX_ACTOR_BYTES = 4 * 1024
_COLUMNS = tuple(column.name for column in EVENTS.columns)
_INSERT = (
    f"INSERT INTO {EVENTS.name} ({', '.join(_COLUMNS)})"
    " VALUES (:room_id, :event_seq, :event_id, :event_kind, :event_actor_json, :event_epoch, :event_payload_json, :now)"
    f" ON CONFLICT DO NOTHING RETURNING {returned(EVENTS)}"
)
_FIND = f"SELECT {', '.join(_COLUMNS)} FROM {EVENTS.name} WHERE room_id = :room_id AND event_id = :event_id"
_STORED_BYTES = f"SELECT COALESCE(SUM(event_bytes), 0) AS total FROM {ROOMS.name}"

ControlKind = Literal["authority.claimed", "room.disbanded"]


def control_event(
    kind: ControlKind, event_id: str, *, actor: str, epoch: int, payload: Mapping[str, Any]
) -> dict[str, Value]:
    """Return the arguments of a control event, which may use the reserve of a room that is otherwise full."""
    return {
        "event_id": event_id,
        "event_kind": kind,
        "event_actor_json": _json({"kind": "system", "id": actor}, "actor", _MAX_ACTOR_BYTES),
        "event_epoch": epoch,
        "event_payload_json": _json(payload, "payload", MAX_EVENT_JSON_BYTES),
    }


def _json(value: object, label: str, maximum: int) -> str:
    return canonical_json(value, label=label, error=HostedRoomError, maximum_bytes=maximum, ascii_only=False)


def find_event(tx: Transaction, room_id: str, event_id: str) -> Row | None:
    """Return the room's event with this id, or None."""
    rows = tx.execute(_FIND, {"room_id": room_id, "event_id": event_id})
    return rows[0] if rows else None


def stored_bytes(tx: Transaction) -> int:
    """Return the UTF-8 bytes of all events that this gateway keeps."""
    return int(tx.execute(_STORED_BYTES)[0]["total"] or 0)


def append_event(record: Record) -> dict[str, Any]:
    """Store the event that comes with the change; the step `append_event` of the declaration.

    Answers its UTF-8 bytes and its row. Raises HostedRoomError where the room or the gateway is full,
    EventConflictError where the room has an event with this id already.
    """
    room = record.row or {}
    texts = ("event_id", "event_kind", "event_actor_json", "event_payload_json")
    size = sum(len(str(record.values[name]).encode()) for name in texts)
    _require_space(record, room, size)
    rows = record.tx.execute(_INSERT, {**record.values, "event_seq": room["next_seq"]})
    if not rows:
        raise EventConflictError(
            "the id of the change's own event is taken in this room; read room_state before going on"
        )
    return {"bytes": size, "row": rows[0]}


def _require_space(record: Record, room: Row, size: int) -> None:
    if int(room["next_seq"] or 1) - 1 >= MAX_EVENTS_PER_ROOM + CONTROL_EVENT_COUNT_RESERVE:
        raise HostedRoomError("the room's log is full; go on in a new room")
    if int(room["event_bytes"] or 0) + size > MAX_ROOM_EVENT_BYTES + CONTROL_EVENT_BYTE_RESERVE:
        raise HostedRoomError("the room's storage is full; go on in a new room")
    limit = MAX_GATEWAY_EVENT_BYTES + CONTROL_EVENT_BYTE_RESERVE - size
    if stored_bytes(record.tx) > limit:
        make_space(record, max(0, limit))
    if stored_bytes(record.tx) > limit:
        raise HostedRoomError("the gateway's event storage is full; disband a room that is no longer needed")
