"""Closed rooms make way: by age, by count and for space; their ids never come back. Rules: `hosted_room.prune`."""

from collections.abc import Iterable
from typing import Final

from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK, HOSTED_ROOM, PEER_RESERVATION
from fsm.lifecycles.hosted_room import DISBANDED
from fsm.lifecycles.limits import (
    DISBANDED_ROOM_RETENTION_SECONDS,
    MAX_DISBANDED_ROOM_TOMBSTONES,
    MAX_GATEWAY_EVENT_BYTES,
)
from fsm.lifecycles.tables import EVENT_BYTES, EVENTS, LEASES, RETIRED, ROOMS, TASKS
from fsm.machine import Record
from storage import Transaction
from storage.totals import read_total

__all__ = ["due_rooms", "make_space", "prune_others", "purge_dependents", "retire_id", "stored_bytes"]

_OF_OTHERS: Final = (
    "hosted_room_policy_transcript_state",
    "hosted_room_policy_transcript",
    "hosted_room_policy_publications",
    "hosted_room_policy_watermarks",
    "hosted_room_policy_events",
    "hosted_room_policy_threads",
    "hosted_room_policy_cursors",
)
"""Tables of the gateway's own modules that belong to a room, referring ones first; any may be missing."""
_OF_THE_ROOM: Final = (
    "hosted_room_remote_runs",
    "hosted_room_links",
    EVENTS.name,
    # A status that was written past the CHECK is no declared state, which no sweep reaches.
    TASKS.name,
    LEASES.name,
)
_CHOOSING: Final = "rooms to prune"
_CLOSED = f"FROM {ROOMS.name} WHERE {sql(DISBANDED.terms)}"
_DUE: Final = f"""
    SELECT room_id FROM (
        SELECT room_id, disbanded_at, ROW_NUMBER() OVER (ORDER BY disbanded_at DESC, room_id) AS position {_CLOSED}
    ) AS closed
    WHERE position > :kept OR disbanded_at <= :cutoff ORDER BY room_id
"""
_OLDEST_FIRST: Final = f"SELECT room_id, event_bytes {_CLOSED} ORDER BY disbanded_at, room_id"
_STORED_BYTES: Final = read_total(EVENT_BYTES)
_RETIRE: Final = (
    f"INSERT INTO {RETIRED.name} (room_id, retired_at) VALUES (:room_id, :retired_at) ON CONFLICT DO NOTHING"
)


def retire_id(record: Record) -> None:
    """Note that the room's id is taken for ever; the step `retire_id` of the declaration."""
    row = record.row or {}
    record.tx.execute(_RETIRE, {"room_id": row["room_id"], "retired_at": row["disbanded_at"]})


def purge_dependents(record: Record) -> None:
    """Delete whatever belongs to the room, what refers to it first; the step `purge_dependents` of the declaration."""
    room = {"room_id": record.values["room_id"]}
    _delete(record.tx, _OF_OTHERS, room)
    record.sweep(DRIVER_TASK.name, "purge", **room)
    record.sweep(DRIVER_LEASE.name, "purge", **room)
    record.sweep(PEER_RESERVATION.name, "purge", **room)
    _delete(record.tx, _OF_THE_ROOM, room)


def _delete(tx: Transaction, tables: Iterable[str], room: dict[str, str | int | float | None]) -> None:
    for table in tables:
        if tx.table_exists(table):
            tx.execute(f"DELETE FROM {quoted(table)} WHERE room_id = :room_id", room)


def due_rooms(tx: Transaction, now: float | None) -> list[str]:
    """Return the closed rooms whose time is over, or that are beyond the kept count; without `now` the count alone."""
    # Whoever appends or disbands holds the total already, and a pruned room moves it: taken after the name, two that
    # prune would wait for each other.
    tx.lock(_STORED_BYTES)
    # Whoever prunes chooses alone: two that chose the same rooms would each find them gone.
    tx.lock_name(_CHOOSING)
    cutoff = None if now is None else now - DISBANDED_ROOM_RETENTION_SECONDS
    rows = tx.execute(_DUE, {"kept": MAX_DISBANDED_ROOM_TOMBSTONES, "cutoff": cutoff})
    return [str(row["room_id"]) for row in rows]


def stored_bytes(tx: Transaction) -> int:
    """Return the UTF-8 bytes of all events that this gateway keeps, from the total that the database maintains."""
    rows = tx.execute(_STORED_BYTES)
    return int(rows[0]["total"] or 0) if rows else 0


def _for_space(tx: Transaction, limit: int, *, spared: str | None) -> list[str]:
    """Return the oldest closed rooms without whose events the gateway keeps at most `limit` bytes."""
    kept = stored_bytes(tx)
    chosen: list[str] = []
    for row in tx.execute(_OLDEST_FIRST) if kept > limit else ():
        if kept <= limit:
            break
        if row["room_id"] != spared:
            chosen.append(str(row["room_id"]))
            # A damaged number frees nothing that is known of.
            kept -= row["event_bytes"] if isinstance(row["event_bytes"], int) else 0
    return chosen


def make_space(record: Record, limit: int) -> None:
    """Prune closed rooms, oldest first, until the gateway keeps at most `limit` bytes of events."""
    _prune(record, {*due_rooms(record.tx, None), *_for_space(record.tx, limit, spared=None)})


def prune_others(record: Record) -> None:
    """Prune what is due after a disbanding, but never the room just closed; the step `prune_others`."""
    own, now = str(record.values["room_id"]), float(record.values["now"] or 0)
    due = {*due_rooms(record.tx, now), *_for_space(record.tx, MAX_GATEWAY_EVENT_BYTES, spared=own)}
    _prune(record, due - {own})


def _prune(record: Record, rooms: Iterable[str]) -> None:
    for room_id in sorted(rooms):
        record.fire(HOSTED_ROOM.name, "prune", room_id=room_id)
