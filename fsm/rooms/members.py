"""Whether a gateway that adopts an old room means the same members."""

from typing import Any

from fsm.errors import HostedRoomError, RoomConflictError
from fsm.machine import Record
from storage.canonical import decode_json

__all__ = ["match_members"]


def match_members(record: Record) -> None:
    """Refuse other members than those stored; the step `match_members` of the declaration.

    A member may bring the routing `target` that old rooms could not store. Raises RoomConflictError.
    """
    stored = (record.row or {})["members_json"]
    proposed = record.values["members_json"]
    if stored == proposed or _same(_members(stored), _members(proposed)):
        return
    raise RoomConflictError("members must be those that the room has, but for new targets; read room_state and retry")


def _members(encoded: object) -> Any:
    try:
        return decode_json(encoded, label="members", error=HostedRoomError)
    except HostedRoomError:
        return None


def _same(stored: Any, proposed: Any) -> bool:
    if not isinstance(stored, list) or len(stored) != len(proposed):
        return False
    return all(
        isinstance(old, dict) and _only_gains_target(old, new) for old, new in zip(stored, proposed, strict=True)
    )


def _only_gains_target(old: dict[str, Any], new: dict[str, Any]) -> bool:
    without = {key: value for key, value in old.items() if key != "target"}
    rest = {key: value for key, value in new.items() if key != "target"}
    return without == rest and (old.get("target") in (None, {}) or old["target"] == new.get("target"))
