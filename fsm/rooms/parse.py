"""What the room calls are handed, checked and normalised before a transaction begins."""

import os

from fsm.errors import HostedRoomError
from fsm.lifecycles.hosted_room import LEGACY_GATEWAY
from fsm.lifecycles.limits import (
    MAX_ACTOR_ID_CHARS,
    MAX_EVENT_ID_CHARS,
    MAX_LINK_TEXT_CHARS,
    MAX_MEMBERS,
    MAX_MEMBERS_JSON_BYTES,
    MAX_ROOM_ID_CHARS,
    MAX_ROOM_NAME_CHARS,
)
from fsm.schema import GATEWAY_SCHEMA
from storage import Database, clock_of, resolve
from storage.canonical import canonical_json
from storage.validate import INTEGER_MAXIMUM, flag, identifier, instance, integer, number, reading, text

__all__ = [
    "Location",
    "instant_at",
    "opened",
    "opened_at",
    "parse_authority",
    "parse_epoch",
    "parse_event_id",
    "parse_flag",
    "parse_gateway",
    "parse_install",
    "parse_link_text",
    "parse_member",
    "parse_members",
    "parse_profile",
    "parse_room_id",
    "parse_room_name",
]

Location = Database | str | os.PathLike[str]

OWN_EVENT_IDS = ("system:", "room-stop:")
"""The module's own events begin so; a caller's event under such an id would make a later disband fail."""


def opened(db: Location) -> Database:
    """Return the handle, with the gateway's tables in place; raises HostedRoomError, StorageError."""
    handle = resolve(db, error=HostedRoomError)
    handle.require(GATEWAY_SCHEMA)
    return handle


def opened_at(db: Location, now: object) -> tuple[Database, float]:
    """Return the handle, and the given instant or one reading of the handle's clock; seconds."""
    at = None if now is None else number(now, label="now", error=HostedRoomError)
    handle = opened(db)
    return handle, reading(handle.clock, label="the handle's clock", error=HostedRoomError) if at is None else at


def instant_at(db: Location, now: object) -> float:
    """Return the given instant, or one reading of the clock that `db` has; nothing is opened for it. Seconds."""
    if now is not None:
        return number(now, label="now", error=HostedRoomError)
    clock = clock_of(db, error=HostedRoomError)
    return reading(clock, label="the handle's clock", error=HostedRoomError)


def parse_room_id(value: object) -> str:
    """Return the room id, stripped."""
    return identifier(value, label="room_id", error=HostedRoomError, maximum=MAX_ROOM_ID_CHARS)


def parse_event_id(value: object) -> str:
    """Return the id of a caller's own event, stripped."""
    parsed = identifier(value, label="event_id", error=HostedRoomError, maximum=MAX_EVENT_ID_CHARS)
    if parsed.startswith(OWN_EVENT_IDS):
        raise HostedRoomError(
            f"event_id must not begin with {' or '.join(OWN_EVENT_IDS)}: those ids are the module's own"
        )
    return parsed


def parse_gateway(value: object, label: str) -> str:
    """Return a gateway id, stripped."""
    return identifier(value, label=label, error=HostedRoomError, maximum=MAX_ACTOR_ID_CHARS)


def parse_install(value: object, label: str) -> str:
    """Return the id of an install, at the home of a room or at its peer, stripped."""
    return identifier(value, label=label, error=HostedRoomError, maximum=MAX_ACTOR_ID_CHARS)


def parse_member(value: object) -> str:
    """Return a member's id, stripped."""
    return identifier(value, label="member_id", error=HostedRoomError, maximum=MAX_ACTOR_ID_CHARS)


def parse_profile(value: object) -> str:
    """Return the name of the profile that a room is linked to, stripped."""
    return identifier(value, label="target_profile", error=HostedRoomError, maximum=MAX_ACTOR_ID_CHARS)


def parse_link_text(value: object, label: str) -> str:
    """Return what another gateway or its transport calls something, as it is: 1 to 1024 characters, not blank."""
    return text(value, label=label, error=HostedRoomError, maximum_characters=MAX_LINK_TEXT_CHARS)


def parse_authority(value: object) -> str:
    """Return the gateway id under which a room may be created."""
    parsed = parse_gateway(value, "authority_gateway_id")
    if parsed == LEGACY_GATEWAY:
        raise HostedRoomError(
            f"authority_gateway_id must name a gateway; {LEGACY_GATEWAY!r} marks rooms that have none yet"
        )
    return parsed


def parse_epoch(value: object, label: str, *, claimed: bool = False) -> int:
    """Return an authority epoch; one that is claimed must leave room for the next."""
    most = INTEGER_MAXIMUM - 1 if claimed else INTEGER_MAXIMUM
    return integer(value, label=label, error=HostedRoomError, minimum=1, maximum=most)


def parse_room_name(value: object) -> str:
    """Return the room's name, stripped."""
    shown = text(value, label="name", error=HostedRoomError)
    return text(shown.strip(), label="name", error=HostedRoomError, maximum_characters=MAX_ROOM_NAME_CHARS)


def parse_flag(value: object, label: str) -> bool:
    """Return a bool; nothing else counts as one."""
    return flag(value, label=label, error=HostedRoomError)


def parse_members(value: object) -> str:
    """Return the members, a list of at most 128 objects, as canonical JSON of at most 128 KiB of UTF-8."""
    members: list[object] = instance(value, list, label="members", error=HostedRoomError)
    if len(members) > MAX_MEMBERS or not all(isinstance(member, dict) for member in members):
        raise HostedRoomError(f"members must be a list of at most {MAX_MEMBERS} objects; found {len(members)} entries")
    return canonical_json(
        members, label="members", error=HostedRoomError, maximum_bytes=MAX_MEMBERS_JSON_BYTES, ascii_only=False
    )
