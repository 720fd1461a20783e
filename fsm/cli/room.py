"""`fsm room`: one room whole, and what an operator may do to it: rename it, take it over, close it."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from fsm.cli.confirming import Yes, confirm, require_answerable
from fsm.cli.damage import damage_refused
from fsm.cli.decisions import twice_if_unknown
from fsm.cli.facts import printable, say_facts, say_stored, shown_instant
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, Room, named, require_existing
from fsm.cli.output import say
from fsm.lifecycles.hosted_room import DISBANDED, LIVE
from fsm.lifecycles.limits import MAX_ROOM_NAME_CHARS
from fsm.rooms import (
    EventView,
    RoomState,
    RoomView,
    claim_authority,
    disband_room,
    local_authority_gateway_id,
    rename_room,
    room_state,
)
from storage import random_id
from storage.validate import text

__all__ = ["claim", "disband", "rename", "show"]


def _name(value: str) -> str:
    shown = text(value.strip(), label="the name", error=typer.BadParameter)
    return text(shown, label="the name", error=typer.BadParameter, maximum_characters=MAX_ROOM_NAME_CHARS)


Name = Annotated[str, typer.Argument(metavar="NAME", callback=_name, help="The new name.")]
NewGateway = Annotated[
    str | None,
    typer.Option("--gateway", metavar="ID", callback=named, help="The gateway that takes over; this install itself."),
]
EventId = Annotated[
    str | None,
    typer.Option("--event-id", metavar="ID", callback=named, help="The change's name; the same again changes nothing."),
]


def show(location: Location, room: Room, *, as_json: AsJson = False) -> None:
    """Show one room whole, closed ones too while they are kept. Nothing is written; times are UTC."""
    found = _shown(location, room)
    if as_json:
        say_stored(found)
    else:
        say_facts((*_standing_of(found), *_content_of(found)))


def rename(location: Location, room: Room, name: Name, *, event_id: EventId = None, as_json: AsJson = False) -> None:
    """Give a live room another name, and log that."""
    _shown(location, room)
    event = event_id or f"rename-{random_id()}"
    with opened(location) as db, damage_refused():
        after = twice_if_unknown(lambda: rename_room(db, room_id=room, event_id=event, name=name))
    _say(after, as_json=as_json)


def claim(
    location: Location,
    room: Room,
    *,
    gateway: NewGateway = None,
    event_id: EventId = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take a live room over from the gateway that is shown to own it; that one is refused from then on.

    Whether the other gateway has stopped is for the operator to know.
    """
    require_answerable(yes=yes)
    shown = _shown(location, room)
    new, event = gateway or local_authority_gateway_id(), event_id or f"claim-{random_id()}"
    previous = _as_it_was_before(shown, new, event)
    if previous is None:
        previous = shown["authority_gateway_id"], shown["authority_epoch"]
        confirm(_standing_of(shown), f"Take it over for gateway {printable(new)}?", yes=yes)
    expected_gateway, expected_epoch = previous
    with opened(location) as db, damage_refused():
        after = twice_if_unknown(
            lambda: claim_authority(
                db,
                room_id=room,
                expected_gateway_id=expected_gateway,
                expected_epoch=expected_epoch,
                new_gateway_id=new,
                event_id=event,
            )
        )
    _say(after, as_json=as_json)


def _as_it_was_before(shown: RoomState, gateway: str, event_id: str) -> tuple[str, int] | None:
    """Return the authority before this very claim where it is already made, so that a repeated command is a retry."""
    made = shown.get("authority_claim")
    if made is None or made["event_id"] != event_id or shown["authority_gateway_id"] != gateway:
        return None
    return str(_previous(made)), made["authority_epoch"] - 1 if isinstance(made["authority_epoch"], int) else 0


def _previous(claim: EventView) -> object:
    """Return the gateway from which a room was taken over, where the claim's event says it."""
    payload: object = claim["payload"]
    return payload.get("previous_gateway_id") if isinstance(payload, dict) else None


def disband(location: Location, room: Room, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Close a room for good, under the authority that is shown; its id is never used again."""
    require_answerable(yes=yes)
    shown = _shown(location, room)
    if "disbanded_at" not in shown:
        confirm(_standing_of(shown), "Close it for good?", yes=yes)
    gateway, epoch = shown["authority_gateway_id"], shown["authority_epoch"]
    with opened(location) as db, damage_refused():
        after = twice_if_unknown(
            lambda: disband_room(db, room_id=room, expected_gateway_id=gateway, expected_epoch=epoch)
        )
    if as_json:
        say_stored(after)
    else:
        say(f"room {room}: {DISBANDED.name} at {shown_instant(after['disbanded_at'])}")


def _shown(location: str, room: str) -> RoomState:
    """Return the room, read without writing: a file that is not ours must stay as it is."""
    require_existing(location)
    with opened(location, read_only=True) as db, damage_refused():
        return room_state(db, room_id=room, include_disbanded=True)


def _say(room: RoomView, *, as_json: bool) -> None:
    if as_json:
        say_stored(room)
    else:
        owner = f"{room['authority_gateway_id']} at epoch {room['authority_epoch']}"
        say(printable(f"room {room['room_id']}: {room['name']}, of gateway {owner}, revision {room['revision']}"))


def _standing_of(room: RoomState) -> Iterator[tuple[str, object]]:
    """Yield where a room stands."""
    state = DISBANDED if "disbanded_at" in room else LIVE
    yield "room", room["room_id"]
    yield "name", room["name"]
    yield "state", f"{state.name}: {state.meaning}"
    yield "gateway", f"{room['authority_gateway_id']} at epoch {room['authority_epoch']}"
    yield "revision", room["revision"]
    yield "log", f"{room['latest_seq']} events"
    yield "created", shown_instant(room["created_at"])
    yield "changed", shown_instant(room["updated_at"])
    yield "closed", shown_instant(room.get("disbanded_at"))


def _content_of(room: RoomState) -> Iterator[tuple[str, object]]:
    """Yield how the room came to its gateway, and its members, one a line."""
    made = room.get("authority_claim")
    if made is not None:
        yield (
            "taken over",
            f"from gateway {_previous(made)} by event {made['seq']}, {shown_instant(made['created_at'])}",
        )
    members = [json.dumps(each, sort_keys=True, ensure_ascii=False) for each in room["members"] or ()]
    yield "members", "\n".join(["", *members]) if len(members) == 1 else "\n".join(members)
