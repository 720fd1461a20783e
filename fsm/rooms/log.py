"""The room's event log: written by the room's own gateway, read by anybody in pages. Rules: `hosted_room.append`."""

import hashlib
from typing import Final

from fsm.calling import operation
from fsm.errors import HostedRoomError
from fsm.lifecycles.limits import MAX_EVENT_ID_CHARS, MAX_LOG_LIMIT
from fsm.machine import Outcome
from fsm.rooms.entries import entry, parse_actor, parse_kind, parse_payload
from fsm.rooms.events import find_event
from fsm.rooms.finding import find_room
from fsm.rooms.machines import ROOM_MACHINE
from fsm.rooms.pages import read_page
from fsm.rooms.parse import (
    Location,
    opened,
    opened_at,
    parse_epoch,
    parse_event_id,
    parse_flag,
    parse_gateway,
    parse_room_id,
)
from fsm.rooms.views import EventPage, EventView, event_view
from storage import Transaction, Value
from storage.validate import identifier, integer

__all__ = ["append_event", "logged", "read_events", "request_room_stop", "user_event_id"]

_STOP_DIGITS: Final = 32


@operation(HostedRoomError)
def user_event_id(client_event_id: object) -> str:
    """Return the event id for a client's own retry key: `user:` and the SHA-256 of the key, in hexadecimal.

    So a client cannot name an event of anybody else's. Raises HostedRoomError where the key is no identifier of at most
    128 characters.
    """
    return f"user:{_digest(_identifier(client_event_id, 'client_event_id'))}"


def _identifier(value: object, label: str) -> str:
    return identifier(value, label=label, error=HostedRoomError, maximum=MAX_EVENT_ID_CHARS)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


@operation(HostedRoomError)
def append_event(
    db: Location,
    *,
    room_id: object,
    event_id: object,
    kind: object,
    actor: object,
    payload: object,
    authority_gateway_id: object,
    authority_epoch: object,
    now: object = None,
) -> EventView:
    """Add an event to the room's log under the next sequence number, for the gateway that owns the room.

    An exact retry returns what is stored, with `idempotent: True`, also after the authority has moved on or the room
    was disbanded. `actor` holds kind, id and, optionally, display_name, profile and connection_id; a gateway's own
    actor bears its id; `payload` is an object of at most 256 KiB of UTF-8. Raises HostedRoomError, also where the room
    or the gateway is full; EventConflictError where the event id is taken by other content; RoomNotFoundError;
    RoomHistoryExpiredError; AuthorityConflictError where the authority is another.
    """
    room, named, of_kind = parse_room_id(room_id), parse_event_id(event_id), parse_kind(kind)
    author = parse_actor(actor, of_kind)
    gateway = parse_gateway(authority_gateway_id, "authority_gateway_id")
    if author["kind"] == "gateway" and author["id"] != gateway:
        raise HostedRoomError("actor.id: a gateway speaks for itself alone; pass the authority_gateway_id")
    epoch = parse_epoch(authority_epoch, "authority_epoch")
    event = entry(named, of_kind, actor=author, payload=parse_payload(payload), epoch=epoch)
    return _append(db, "append", {"room_id": room, **_by(gateway, epoch), **event}, now)


@operation(HostedRoomError)
def request_room_stop(
    db: Location, *, room_id: object, cancel_id: object, expected_gateway_id: object, expected_epoch: object
) -> EventView:
    """Log that everything which was asked for before is to stop; it may use the reserve of a full room.

    An exact retry returns what is stored, with `idempotent: True`, also after the authority has moved on or the room
    was disbanded. Raises HostedRoomError; EventConflictError where the cancel id was used at another epoch or for
    another gateway; RoomNotFoundError; RoomHistoryExpiredError; AuthorityConflictError where the authority is another.
    """
    room, cancel = parse_room_id(room_id), _identifier(cancel_id, "cancel_id")
    gateway = parse_gateway(expected_gateway_id, "expected_gateway_id")
    epoch = parse_epoch(expected_epoch, "expected_epoch")
    event = entry(
        f"room-stop:{_digest(cancel)[:_STOP_DIGITS]}",
        "room.stop_requested",
        actor={"kind": "gateway", "id": gateway},
        payload={"cancel_id": cancel},
        epoch=epoch,
    )
    return _append(db, "request_stop", {"room_id": room, **_by(gateway, epoch), **event}, None)


def _by(gateway: str, epoch: int) -> dict[str, Value]:
    return {"expected_gateway_id": gateway, "expected_epoch": epoch}


def _append(db: Location, trigger: str, arguments: dict[str, Value], now: object) -> EventView:
    handle, at = opened_at(db, now)

    def body(tx: Transaction) -> EventView:
        outcome = ROOM_MACHINE.fire(tx, trigger, now=at, **arguments)
        return logged(tx, str(arguments["room_id"]), str(arguments["event_id"]), outcome)

    return handle.write(body)


def logged(tx: Transaction, room_id: str, event_id: str, outcome: Outcome) -> EventView:
    """Return the view of the event that a call has stored, or that an exact retry of it has found."""
    row = find_event(tx, room_id, event_id) if outcome.replayed else outcome.found["append_event"]["row"]
    return event_view(row or {}, idempotent=outcome.replayed)


@operation(HostedRoomError)
def read_events(
    db: Location, *, room_id: object, since_seq: object = 0, limit: object = 100, include_disbanded: object = False
) -> EventPage:
    """Return a page of the room's log: the events after `since_seq` in order, at most `limit` (1 to 500) of them.

    As JSON the page has at most 2 MiB of UTF-8: it ends before the first event that would not fit, and `has_more` says
    that the log goes on after its `cursor`. Raises HostedRoomError, also where `since_seq` is ahead of the log or the
    next event alone is larger than a page; RoomNotFoundError; RoomHistoryExpiredError where only the id is left.
    """
    room, closed_too = parse_room_id(room_id), parse_flag(include_disbanded, "include_disbanded")
    since = integer(since_seq, label="since_seq", error=HostedRoomError, minimum=0)
    most = integer(limit, label="limit", error=HostedRoomError, minimum=1, maximum=MAX_LOG_LIMIT)
    return opened(db).read(lambda tx: read_page(tx, find_room(tx, room, closed_too=closed_too), since, most))
