"""`fsm lease`: which process drives a room, and until when."""

from fsm.cli.facts import Facts, say_facts, say_stored, shown_instant
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, Room, require_existing
from fsm.cli.records import StoredRecord, read_record, require_room
from fsm.lifecycles import DRIVER_LEASE
from fsm.lifecycles.driver_lease import EXPIRED, HELD

__all__ = ["lease"]


def lease(location: Location, room: Room, *, as_json: AsJson = False) -> None:
    """Show who holds the lease of a room, by the declared states. Nothing is written; times are UTC."""
    require_existing(location)
    with opened(location, read_only=True) as db:
        require_room(db, room)
        found = read_record(db, DRIVER_LEASE, {"room_id": room})
    if as_json:
        say_stored({"room_id": room, "state": found.state, **(found.row or {}), "seconds_left": _seconds_left(found)})
    else:
        say_facts((("room", room), ("state", _state(found)), *_holder(found)))


def _state(found: StoredRecord) -> str:
    meanings = {state.name: state.meaning for state in DRIVER_LEASE.states}
    return f"{found.state}: {meanings.get(found.state, 'the stored row is in no declared state')}"


def _holder(found: StoredRecord) -> Facts:
    row = found.row
    if row is None:
        return ()
    left = _seconds_left(found)
    ends = "" if left is None else f" (in {left:.1f} s)" if left > 0 else f" ({-left:.1f} s ago)"
    return (
        ("process", row["process_generation"]),
        ("gateway", f"{row['gateway_id']} at epoch {row['authority_epoch']}"),
        ("generation", row["lease_generation"]),
        ("expires", f"{shown_instant(row['expires_at'])}{ends}"),
        ("acquired", shown_instant(row["acquired_at"])),
        ("changed", shown_instant(row["updated_at"])),
        ("given up", shown_instant(row["released_at"])),
    )


def _seconds_left(found: StoredRecord) -> float | None:
    """Return how long the lease is still in force, below 0 once it is not; None where that is no question."""
    expiry = found.row["expires_at"] if found.row else None
    asked = found.state in {HELD.name, EXPIRED.name}
    return expiry - found.now if asked and isinstance(expiry, float | int) else None
