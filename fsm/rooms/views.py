"""What the room calls answer with."""

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict, cast

from fsm.errors import HostedRoomError
from storage import Row
from storage.canonical import decode_json

__all__ = [
    "AuthorityView",
    "EventPage",
    "EventView",
    "ListedEvent",
    "RoomClaim",
    "RoomDisbanding",
    "RoomRenaming",
    "RoomState",
    "RoomView",
    "event_view",
    "listed_event_view",
    "listed_room_view",
    "room_view",
    "shown",
]


class RoomView(TypedDict):
    """A room as stored; instants are seconds. In a list, `corrupt` says why `members` cannot be shown."""

    room_id: str
    name: str
    members: list[dict[str, Any]] | None
    authority_gateway_id: str
    authority_epoch: int
    revision: int
    created_at: float
    updated_at: float
    idempotent: bool
    latest_seq: int
    disbanded_at: NotRequired[float]
    adopted: NotRequired[bool]
    corrupt: NotRequired[str]
    claim_event: NotRequired["EventView"]


class EventView(TypedDict):
    """An event of a room's log as stored."""

    room_id: str
    seq: int
    event_id: str
    kind: str
    actor: dict[str, str]
    authority_epoch: int | None
    payload: dict[str, Any]
    created_at: float
    idempotent: bool


class ListedEvent(TypedDict):
    """An event on a page of the log; where it is damaged `corrupt` says why actor and payload cannot be shown."""

    room_id: str
    seq: int
    event_id: str
    kind: str
    actor: dict[str, str] | None
    authority_epoch: int | None
    payload: dict[str, Any] | None
    created_at: float
    idempotent: bool
    corrupt: NotRequired[str]


class AuthorityView(TypedDict):
    """The gateway that owns a room, and at which epoch."""

    gateway_id: str
    epoch: int


class EventPage(TypedDict):
    """A part of a room's log, in order, as one snapshot shows it: the next page is the one after `cursor`."""

    events: list[ListedEvent]
    cursor: int
    latest_seq: int
    has_more: bool
    authority: AuthorityView


class RoomRenaming(RoomView):
    """A room after a renaming; `event` is the renaming's own event."""

    event: EventView


class RoomClaim(RoomView):
    """A room after an authority claim; `claim_event` is the claim's own event."""


class RoomState(RoomView):
    """A room, and the event by which its present authority took it over, where there is one."""

    authority_claim: NotRequired[EventView]


class RoomDisbanding(TypedDict):
    """A closed room; `history_expired` where only its id is left."""

    room_id: str
    disbanded_at: float
    idempotent: bool
    event: NotRequired[EventView]
    history_expired: NotRequired[bool]


def _decoded(row: Mapping[str, Any], column: str) -> Any:
    return decode_json(row[column], label=f"the stored {column}", error=HostedRoomError)


def shown(row: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """Return the columns as stored; raises HostedRoomError where one holds bytes, which no view can show."""
    stored = {column: row[column] for column in columns}
    for column, value in stored.items():
        if isinstance(value, bytes):
            raise HostedRoomError(f"the stored {column} holds bytes; mend its row")
    return stored


def _without_bytes(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column: None if isinstance(value, bytes) else value for column, value in row.items()}


def room_view(row: Row, *, idempotent: bool = False) -> RoomView:
    """Return the view of a room's row; raises HostedRoomError where its members do not decode."""
    same = ("room_id", "name", "authority_gateway_id", "authority_epoch", "revision", "created_at", "updated_at")
    view = shown(row, same)
    if not isinstance(row["next_seq"], int):
        raise HostedRoomError("the stored next_seq is no integer; mend the room's row")
    view |= {
        "members": _decoded(row, "members_json"),
        "idempotent": idempotent,
        "latest_seq": row["next_seq"] - 1,
    }
    if row["disbanded_at"] is not None:
        view["disbanded_at"] = row["disbanded_at"]
    return cast("RoomView", view)


def listed_room_view(row: Row) -> RoomView:
    """Return the view of a room's row, damaged or not: one bad row must not hide the others."""
    try:
        return room_view(row)
    except HostedRoomError as damage:
        known = row["next_seq"] if isinstance(row["next_seq"], int) else 1
        view = room_view({**_without_bytes(row), "members_json": "null", "next_seq": known})
        view["corrupt"] = str(damage)
        return view


def event_view(row: Mapping[str, Any], *, idempotent: bool = False) -> EventView:
    """Return the view of an event's row; raises HostedRoomError where it does not decode."""
    same = ("room_id", "seq", "event_id", "kind", "authority_epoch", "created_at")
    view = shown(row, same)
    view |= {"actor": _decoded(row, "actor_json"), "payload": _decoded(row, "payload_json"), "idempotent": idempotent}
    return cast("EventView", view)


def listed_event_view(row: Mapping[str, Any]) -> ListedEvent:
    """Return the view of an event's row, damaged or not: a reader must get past a bad one."""
    try:
        return cast("ListedEvent", event_view(row))
    except HostedRoomError as damage:
        view = cast("ListedEvent", event_view({**_without_bytes(row), "actor_json": "null", "payload_json": "null"}))
        view["corrupt"] = str(damage)
        return view
