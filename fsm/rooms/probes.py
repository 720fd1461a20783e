"""Probes: whether a room is hosted or a profile reserved here, told at once and without touching the database.

They stand on the path of every prompt: nothing is created or migrated for their sake, and nobody is waited for longer
than 50 ms.
"""

from fsm.calling import operation
from fsm.errors import HostedRoomError, RoomProbeUnavailableError
from fsm.lifecycle import Column, Conditions, given
from fsm.lifecycle.terms import operands, sql
from fsm.lifecycles import hosted_room, peer_reservation
from fsm.lifecycles.limits import PROBE_TIMEOUT_SECONDS
from fsm.lifecycles.tables import PEER_RESERVATIONS, ROOMS
from fsm.rooms.parse import Location, instant_at, parse_profile, parse_room_id
from storage import Parameters, StorageError, Table, probe

__all__ = ["probe_hosted_room", "probe_peer_room_reservation"]

_HOSTED = (*given("room_id"), *hosted_room.LIVE.terms)
_RESERVED = (*peer_reservation.OF_THE_PROFILE, *peer_reservation.LIVE.terms)


@operation(HostedRoomError)
def probe_hosted_room(db: Location, *, room_id: object) -> bool:
    """Tell whether a live room has this id; False too where there is no database or it has no rooms yet.

    Raises HostedRoomError; RoomProbeUnavailableError where that cannot be told within 50 ms.
    """
    return _found(db, ROOMS, _HOSTED, {"room_id": parse_room_id(room_id)})


@operation(HostedRoomError)
def probe_peer_room_reservation(db: Location, *, room_id: object, target_profile: object, now: object = None) -> bool:
    """Tell what `peer_room_is_reserved` tells; False too where there is no database or it has no reservations yet.

    Raises HostedRoomError; RoomProbeUnavailableError where that cannot be told within 50 ms.
    """
    room, profile = parse_room_id(room_id), parse_profile(target_profile)
    values: Parameters = {"room_id": room, "target_profile": profile, "now": instant_at(db, now)}
    return _found(db, PEER_RESERVATIONS, _RESERVED, values)


def _found(db: Location, table: Table, where: Conditions, values: Parameters) -> bool:
    # Named bare, a column that an older table lacks is an error; quoted, an engine may take its name for a text.
    columns = dict.fromkeys(each.name for each in operands(where) if isinstance(each, Column))
    looked_at = f"(SELECT {', '.join(columns)} FROM {table.name}) AS looked_at"
    statement = f"SELECT 1 AS found FROM {looked_at} WHERE {sql(where)} LIMIT 1"
    try:
        return probe(db, table.name, statement, values, timeout_seconds=PROBE_TIMEOUT_SECONDS, error=HostedRoomError)
    except StorageError as error:
        raise RoomProbeUnavailableError(
            "the gateway's database cannot be read at once, so that neither yes nor no is known; ask again"
        ) from error
