"""A room's row, and what it is to a reader: live, closed or gone for good."""

from typing import Final

from fsm.errors import RoomHistoryExpiredError, RoomNotFoundError
from fsm.lifecycle import given
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.hosted_room import HISTORY_EXPIRED, LIVE, NOT_FOUND, RETIRED_ID
from fsm.lifecycles.tables import RETIRED
from fsm.rooms.machines import ROOM_MACHINE
from storage import Row, Transaction

__all__ = ["find_room", "room_row"]

_RETIRED: Final = f"SELECT room_id, retired_at FROM {quoted(RETIRED.name)} WHERE room_id = :room_id"


def room_row(tx: Transaction, room_id: str) -> Row | None:
    """Return the room's row, or None."""
    rows = ROOM_MACHINE.select(tx, given("room_id"), values={"room_id": room_id})
    return rows[0] if rows else None


def find_room(tx: Transaction, room_id: str, *, closed_too: bool) -> Row:
    """Return the row of a live room, or with `closed_too` of a disbanded one as well.

    Raises RoomNotFoundError; RoomHistoryExpiredError where only the id is left.
    """
    row = room_row(tx, room_id)
    retired = tx.execute(_RETIRED, {"room_id": room_id})
    state = ROOM_MACHINE.state_of(row, now=0.0, joined=retired[0] if retired else None)
    if row is not None and (closed_too or state == LIVE.name):
        return row
    if state == RETIRED_ID.name:
        raise RoomHistoryExpiredError(f"expected a live room, found a retired id; {HISTORY_EXPIRED.remedy}")
    raise RoomNotFoundError(f"expected a live room, found none; {NOT_FOUND.remedy}")
