"""Peer reservations: profiles of this gateway that rooms of others use. Rules: `fsm.lifecycles.peer_reservation`."""

from collections.abc import Mapping

from fsm.calling import operation
from fsm.errors import HostedRoomError
from fsm.lifecycle import conjunction, given
from fsm.lifecycles.peer_reservation import AUTHORITY, LIVE, OF_THE_PROFILE
from fsm.lifecycles.tables import PEER_RESERVATIONS
from fsm.rooms.machines import PEER_RESERVATION_MACHINE
from fsm.rooms.parse import Location, opened_at, parse_profile, parse_room_id
from fsm.rooms.records import parse_reservation
from storage import Transaction, Value, number

__all__ = ["peer_room_grant_is_current", "peer_room_is_reserved", "reserve_peer_room"]

_RESERVED = conjunction(OF_THE_PROFILE, LIVE.terms)
_CURRENT = conjunction(given(*PEER_RESERVATIONS.primary_key), AUTHORITY, LIVE.terms)


@operation(HostedRoomError)
def reserve_peer_room(db: Location, *, claims: Mapping[str, object], expires_at: object, now: object = None) -> None:
    """Reserve a profile of this gateway for a room of another, before the first run there; until `expires_at`, seconds.

    A reservation is never shortened; a newer epoch of the room revokes what older ones hold. A lost call is made
    again. Raises HostedRoomError; AuthorityConflictError where a newer epoch, or another gateway at this one, holds the
    profile.
    """
    reservation = parse_reservation(claims)
    until = number(expires_at, label="expires_at", error=HostedRoomError)
    handle, at = opened_at(db, now)
    if until <= at:
        raise HostedRoomError("expires_at: expected an instant in the future; ask for a grant that still counts")

    def body(tx: Transaction) -> None:
        # Rivals hold different rows, and none that is always there: without the lock each of two at once would see
        # a profile that is free. One lock for all, since every reserver also drops expired rows, of whichever room.
        tx.lock_name(PEER_RESERVATIONS.name)
        PEER_RESERVATION_MACHINE.fire(tx, "reserve", now=at, expires_at=until, **reservation)

    handle.write(body)


@operation(HostedRoomError)
def peer_room_is_reserved(db: Location, *, room_id: object, target_profile: object, now: object = None) -> bool:
    """Tell whether a room of another gateway holds a profile of this one, so that nobody else may prompt it there.

    Raises HostedRoomError.
    """
    profile: dict[str, Value] = {"room_id": parse_room_id(room_id), "target_profile": parse_profile(target_profile)}
    handle, at = opened_at(db, now)
    return bool(handle.read(lambda tx: PEER_RESERVATION_MACHINE.select(tx, _RESERVED, values={**profile, "now": at})))


@operation(HostedRoomError)
def peer_room_grant_is_current(db: Location, *, claims: Mapping[str, object], now: object = None) -> bool:
    """Tell whether a grant is that of the live reservation: the same member, profile, gateway and epoch.

    Raises HostedRoomError.
    """
    grant = parse_reservation(claims)
    handle, at = opened_at(db, now)
    return bool(handle.read(lambda tx: PEER_RESERVATION_MACHINE.select(tx, _CURRENT, values={**grant, "now": at})))
