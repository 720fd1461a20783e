"""Rooms: created, taken over, closed and read. Rules: `fsm.lifecycles.hosted_room`."""

from typing import cast

from fsm.calling import operation
from fsm.errors import HostedRoomError
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles.hosted_room import LEGACY_GATEWAY, LIVE
from fsm.lifecycles.limits import MAX_ROOM_LIST_LIMIT
from fsm.lifecycles.tables import EVENTS, ROOMS
from fsm.machine import Outcome
from fsm.rooms.entries import entry
from fsm.rooms.events import counted, find_event
from fsm.rooms.finding import find_room, room_row
from fsm.rooms.log import logged
from fsm.rooms.machines import ROOM_MACHINE
from fsm.rooms.parse import (
    Location,
    opened,
    opened_at,
    parse_authority,
    parse_epoch,
    parse_event_id,
    parse_flag,
    parse_gateway,
    parse_members,
    parse_room_id,
    parse_room_name,
)
from fsm.rooms.retention import due_rooms
from fsm.rooms.views import (
    RoomClaim,
    RoomDisbanding,
    RoomRenaming,
    RoomState,
    RoomView,
    event_view,
    listed_room_view,
    room_view,
)
from storage import Row, Transaction, Value
from storage.validate import INTEGER_MAXIMUM, integer

__all__ = [
    "claim_authority",
    "create_room",
    "disband_room",
    "list_rooms",
    "prune_disbanded_rooms",
    "rename_room",
    "room_state",
]

_ADOPTED = "system:authority-adopted"
_DISBANDED = "system:room-disbanded"


@operation(HostedRoomError)
def create_room(
    db: Location,
    *,
    room_id: object,
    name: object,
    members: object,
    authority_gateway_id: object,
    now: object = None,
) -> RoomView:
    """Open a room under a gateway's authority; an exact retry returns what is stored, with `idempotent: True`.

    A room that has no authority yet is adopted: the view then says `adopted` and holds the `claim_event`. `name` has at
    most 200 characters, `members` at most 128 objects and 128 KiB of UTF-8. Raises HostedRoomError, also where the
    gateway has too many live rooms; RoomConflictError where the id is taken by other content or was ever disbanded.
    """
    arguments: dict[str, Value] = {
        "room_id": parse_room_id(room_id),
        "name": parse_room_name(name),
        "members_json": parse_members(members),
        "authority_gateway_id": parse_authority(authority_gateway_id),
    }
    handle, at = opened_at(db, now)
    return handle.write(lambda tx: _adopt(tx, at, arguments) or _create(tx, at, arguments))


def _adopt(tx: Transaction, now: float, arguments: dict[str, Value]) -> RoomView | None:
    ROOM_MACHINE.lock_root(tx, room_id=arguments["room_id"])
    stored = room_row(tx, str(arguments["room_id"]))
    # The declaration says so too; but what has an authority may be at the last epoch, which no event can follow.
    if stored is None or stored["authority_gateway_id"] != LEGACY_GATEWAY:
        return None
    epoch = counted(stored, "authority_epoch", minimum=1, maximum=INTEGER_MAXIMUM - 1)
    event = _claim_event(_ADOPTED, LEGACY_GATEWAY, str(arguments["authority_gateway_id"]), epoch + 1)
    outcome = ROOM_MACHINE.fire(tx, "adopt", now=now, authority_epoch=epoch, **arguments, **event)
    if outcome.declined:
        return None
    view = room_view(outcome.stored, idempotent=True)
    view["adopted"] = True
    view["claim_event"] = event_view(outcome.found["append_event"]["row"])
    return view


def _create(tx: Transaction, now: float, arguments: dict[str, Value]) -> RoomView:
    outcome = ROOM_MACHINE.fire(tx, "create", now=now, **arguments)
    return room_view(outcome.stored, idempotent=outcome.replayed)


def _claim_event(event_id: str, previous: str, gateway: str, epoch: int) -> dict[str, Value]:
    payload = {"previous_gateway_id": previous, "authority_gateway_id": gateway, "authority_epoch": epoch}
    return entry(event_id, "authority.claimed", actor=_system("authority-control"), payload=payload, epoch=epoch)


def _system(name: str) -> dict[str, str]:
    return {"kind": "system", "id": name}


@operation(HostedRoomError)
def claim_authority(
    db: Location,
    *,
    room_id: object,
    expected_gateway_id: object,
    expected_epoch: object,
    new_gateway_id: object,
    event_id: object,
    now: object = None,
) -> RoomClaim:
    """Move a room to another gateway, where its authority is still the expected one; its epoch grows by one.

    It does not judge whether the takeover is safe. An exact retry returns what is stored, with `idempotent: True`.
    Raises HostedRoomError; RoomNotFoundError; RoomHistoryExpiredError; AuthorityConflictError where the authority is
    another; AuthoritySupersededError where this claim was made and a later one replaced it; EventConflictError where
    the event id is taken.
    """
    room, previous = parse_room_id(room_id), parse_gateway(expected_gateway_id, "expected_gateway_id")
    gateway, epoch = (
        parse_gateway(new_gateway_id, "new_gateway_id"),
        parse_epoch(expected_epoch, "expected_epoch", claimed=True),
    )
    event = _claim_event(parse_event_id(event_id), previous, gateway, epoch + 1)
    arguments: dict[str, Value] = {
        "room_id": room,
        "expected_gateway_id": previous,
        "expected_epoch": epoch,
        "new_gateway_id": gateway,
        **event,
    }
    handle, at = opened_at(db, now)

    def body(tx: Transaction) -> RoomClaim:
        return _claimed(tx, str(event["event_id"]), ROOM_MACHINE.fire(tx, "claim_authority", now=at, **arguments))

    return handle.write(body)


def _claimed(tx: Transaction, event_id: str, outcome: Outcome) -> RoomClaim:
    view = room_view(outcome.stored, idempotent=outcome.replayed)
    view["claim_event"] = logged(tx, view["room_id"], event_id, outcome)
    return view


@operation(HostedRoomError)
def rename_room(db: Location, *, room_id: object, event_id: object, name: object, now: object = None) -> RoomRenaming:
    """Give a live room another name of at most 200 characters, and log that under the event id.

    An exact retry returns the room as stored now and the event of then, both with `idempotent: True`. Raises
    HostedRoomError, also where the room or the gateway is full; RoomNotFoundError; RoomHistoryExpiredError;
    EventConflictError where the event id is taken.
    """
    room, shown = parse_room_id(room_id), parse_room_name(name)
    event = entry(parse_event_id(event_id), "room.renamed", actor=_system("room-control"), payload={"name": shown})
    handle, at = opened_at(db, now)

    def body(tx: Transaction) -> RoomRenaming:
        outcome = ROOM_MACHINE.fire(tx, "rename", now=at, room_id=room, name=shown, **event)
        return _renaming(tx, str(event["event_id"]), outcome)

    return handle.write(body)


def _renaming(tx: Transaction, event_id: str, outcome: Outcome) -> RoomRenaming:
    view = cast("RoomRenaming", room_view(outcome.stored, idempotent=outcome.replayed))
    view["event"] = logged(tx, view["room_id"], event_id, outcome)
    return view


@operation(HostedRoomError)
def disband_room(
    db: Location, *, room_id: object, expected_gateway_id: object, expected_epoch: object, now: object = None
) -> RoomDisbanding:
    """Close a room for good; its id is never used again, and old closed rooms may be pruned for it.

    Calling again returns what is stored, with `idempotent: True`, and with `history_expired` where only the id is left.
    Raises HostedRoomError; RoomNotFoundError; AuthorityConflictError where the authority is another.
    """
    room, gateway = parse_room_id(room_id), parse_gateway(expected_gateway_id, "expected_gateway_id")
    epoch = parse_epoch(expected_epoch, "expected_epoch")
    event = entry(_DISBANDED, "room.disbanded", actor=_system("room-control"), payload={"room_id": room}, epoch=epoch)
    handle, at = opened_at(db, now)

    def body(tx: Transaction) -> RoomDisbanding:
        outcome = ROOM_MACHINE.fire(
            tx, "disband", now=at, room_id=room, expected_gateway_id=gateway, expected_epoch=epoch, **event
        )
        return _disbanding(tx, room, outcome)

    return handle.write(body)


def _disbanding(tx: Transaction, room_id: str, outcome: Outcome) -> RoomDisbanding:
    view: RoomDisbanding = {"room_id": room_id, "disbanded_at": 0.0, "idempotent": outcome.replayed}
    if outcome.row is None:
        view["disbanded_at"] = outcome.found["joined"]["retired_at"]
        view["history_expired"] = True
        return view
    view["disbanded_at"] = cast("float", outcome.row["disbanded_at"])
    event = find_event(tx, room_id, _DISBANDED)
    if event is not None:
        view["event"] = event_view(event, idempotent=outcome.replayed)
    return view


@operation(HostedRoomError)
def prune_disbanded_rooms(db: Location, *, now: object = None) -> int:
    """Prune the closed rooms whose retention is over or that are beyond the kept count; return how many.

    Their ids stay taken. A lost call is made again. Raises HostedRoomError.
    """
    handle, at = opened_at(db, now)

    def body(tx: Transaction) -> int:
        due = due_rooms(tx, at)
        for room_id in due:
            ROOM_MACHINE.fire(tx, "prune", now=at, room_id=room_id)
        return len(due)

    return handle.write(body)


@operation(HostedRoomError)
def list_rooms(
    db: Location, *, include_disbanded: object = False, limit: object = MAX_ROOM_LIST_LIMIT, offset: object = 0
) -> list[RoomView]:
    """Return a page of rooms, most recently changed first: at most `limit` (1 to 500) of them, after `offset`.

    Raises HostedRoomError.
    """
    closed_too = parse_flag(include_disbanded, "include_disbanded")
    page: dict[str, Value] = {
        "limit": integer(limit, label="limit", error=HostedRoomError, minimum=1, maximum=MAX_ROOM_LIST_LIMIT),
        "offset": integer(offset, label="offset", error=HostedRoomError, minimum=0),
    }
    rows = opened(db).read(lambda tx: tx.execute(_ALL_ROOMS if closed_too else _LIVE_ROOMS, page))
    return [listed_room_view(row) for row in rows]


@operation(HostedRoomError)
def room_state(db: Location, *, room_id: object, include_disbanded: object = False) -> RoomState:
    """Return a room as stored, and the event by which its present authority took it over, where there is one.

    Raises HostedRoomError; RoomNotFoundError; RoomHistoryExpiredError where only its id is left.
    """
    room, closed_too = parse_room_id(room_id), parse_flag(include_disbanded, "include_disbanded")
    row, claim = opened(db).read(lambda tx: (find_room(tx, room, closed_too=closed_too), _present_claim(tx, room)))
    view = cast("RoomState", room_view(row))
    if claim is not None:
        view["authority_claim"] = event_view(claim)
    return view


def _present_claim(tx: Transaction, room_id: str) -> Row | None:
    rows = tx.execute(_CLAIM, {"room_id": room_id, "kind": "authority.claimed"})
    return rows[0] if rows else None


_PAGE = "ORDER BY updated_at DESC, room_id LIMIT :limit OFFSET :offset"
_ALL_ROOMS = f"SELECT * FROM {quoted(ROOMS.name)} {_PAGE}"
_LIVE_ROOMS = f"SELECT * FROM {quoted(ROOMS.name)} WHERE {sql(LIVE.terms)} {_PAGE}"
_CLAIM = f"""
    SELECT event.* FROM {quoted(EVENTS.name)} AS event
    JOIN hosted_rooms AS room ON room.room_id = event.room_id AND room.authority_epoch = event.authority_epoch
    WHERE event.room_id = :room_id AND event.kind = :kind ORDER BY event.seq DESC LIMIT 1
"""
