"""Room links: how a member of a room that lives on another gateway is reached. They hold grants, which are secrets."""

from collections.abc import Mapping
from typing import Any, TypedDict, cast

from fsm.calling import operation
from fsm.errors import HostedRoomError
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.limits import MAX_LINK_DOCUMENT_BYTES
from fsm.lifecycles.tables import LINKS
from fsm.rooms.parse import Location, opened, opened_at, parse_link_text, parse_member, parse_profile, parse_room_id
from fsm.rooms.records import fields_of
from storage import Transaction, Value, integer, number, text

__all__ = [
    "RoomLink",
    "delete_room_link_records",
    "list_room_link_records",
    "update_room_link_status",
    "upsert_room_link_record",
]


class RoomLink(TypedDict):
    """A link as stored; `grant` is a secret: show and log everything else. `updated_at` is in seconds."""

    room_id: str
    member_id: str
    target_url: str
    target_profile: str
    grant: str
    catalog_json: str
    cancellation_scope_id: str
    trace_id: str
    transport_security: str
    status: str
    updated_at: float


_COLUMNS = tuple(column.name for column in LINKS.columns)
_LISTED = ", ".join(map(quoted, _COLUMNS))
_REPLACED = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in _COLUMNS if name not in LINKS.primary_key)
_KEY = ", ".join(LINKS.primary_key)
_LIST = f"SELECT {_LISTED} FROM {LINKS.name} ORDER BY {_KEY}"
_COUNT = f"SELECT COUNT(*) AS stored FROM {LINKS.name}"
_FIND = f"SELECT room_id FROM {LINKS.name} WHERE room_id = :room_id AND member_id = :member_id"
_UPSERT = (
    f"INSERT INTO {LINKS.name} ({_LISTED}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    f" ON CONFLICT ({_KEY}) DO UPDATE SET {_REPLACED}"
)
_UPDATE = (
    f"UPDATE {LINKS.name} SET status = :status, updated_at = :now"
    " WHERE room_id = :room_id AND member_id = :member_id RETURNING room_id"
)
_DELETE = f"DELETE FROM {LINKS.name} WHERE room_id = :room_id RETURNING member_id"


@operation(HostedRoomError)
def list_room_link_records(db: Location) -> list[RoomLink]:
    """Return every link with its grant, ordered by room and member.

    Raises HostedRoomError.
    """
    return [cast("RoomLink", row) for row in opened(db).read(lambda tx: tx.execute(_LIST))]


@operation(HostedRoomError)
def upsert_room_link_record(db: Location, *, record: Mapping[str, object], max_links: object) -> None:
    """Store a member's link, or replace the one that it has; `max_links` bounds how many the gateway keeps in all.

    The record has the fields of RoomLink; others are ignored. A lost call is made again. Raises HostedRoomError, also
    where the link would be one too many.
    """
    link = _parse_link(record)
    most = integer(max_links, label="max_links", error=HostedRoomError, minimum=0)

    def body(tx: Transaction) -> None:
        # Two that count at once would both find room for one more.
        tx.lock_name(LINKS.name)
        if not tx.execute(_FIND, link) and int(tx.execute(_COUNT)[0]["stored"] or 0) >= most:
            raise HostedRoomError(f"expected fewer than {most} room links, found as many; delete those of old rooms")
        tx.execute(_UPSERT, link)

    opened(db).write(body)


def _parse_link(record: object) -> dict[str, Value]:
    link: dict[str, Any] = fields_of(record, _COLUMNS, label="record")
    for name in ("cancellation_scope_id", "trace_id", "transport_security", "status"):
        parse_link_text(link[name], name)
    for name in ("target_url", "grant", "catalog_json"):
        text(link[name], label=name, error=HostedRoomError, maximum_bytes=MAX_LINK_DOCUMENT_BYTES)
    return {
        **link,
        "room_id": parse_room_id(link["room_id"]),
        "member_id": parse_member(link["member_id"]),
        "target_profile": parse_profile(link["target_profile"]),
        "updated_at": number(link["updated_at"], label="updated_at", error=HostedRoomError),
    }


@operation(HostedRoomError)
def update_room_link_status(
    db: Location, *, room_id: object, member_id: object, status: object, now: object = None
) -> bool:
    """Note how the way to a member fares; False where it has no link. A lost call is made again.

    Raises HostedRoomError.
    """
    link: dict[str, Value] = {
        "room_id": parse_room_id(room_id),
        "member_id": parse_member(member_id),
        "status": parse_link_text(status, "status"),
    }
    handle, at = opened_at(db, now)
    return bool(handle.write(lambda tx: tx.execute(_UPDATE, {**link, "now": at})))


@operation(HostedRoomError)
def delete_room_link_records(db: Location, *, room_id: object) -> int:
    """Delete the links of a room's members, whose grants are to be revoked first; return how many there were.

    A lost call is made again. Raises HostedRoomError.
    """
    room: dict[str, Value] = {"room_id": parse_room_id(room_id)}
    return len(opened(db).write(lambda tx: tx.execute(_DELETE, room)))
