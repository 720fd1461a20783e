"""Hosted rooms: their identity, authority and end.

Every call takes `db` first, as in `fsm.driver`; `now` is an instant in seconds, and the handle's clock where none is
given. The rules stand in `fsm.lifecycles.hosted_room`.
"""

from fsm.errors import (
    AuthorityConflictError,
    AuthoritySupersededError,
    EventConflictError,
    HostedRoomError,
    RoomConflictError,
    RoomHistoryExpiredError,
    RoomNotFoundError,
)
from fsm.lifecycles.hosted_room import HostedRoomState
from fsm.rooms.identity import default_db_path, local_authority_gateway_id
from fsm.rooms.operations import claim_authority, create_room, disband_room, prune_disbanded_rooms, room_state
from fsm.rooms.views import EventView, RoomClaim, RoomDisbanding, RoomState, RoomView

__all__ = [
    "AuthorityConflictError",
    "AuthoritySupersededError",
    "EventConflictError",
    "EventView",
    "HostedRoomError",
    "HostedRoomState",
    "RoomClaim",
    "RoomConflictError",
    "RoomDisbanding",
    "RoomHistoryExpiredError",
    "RoomNotFoundError",
    "RoomState",
    "RoomView",
    "claim_authority",
    "create_room",
    "default_db_path",
    "disband_room",
    "local_authority_gateway_id",
    "prune_disbanded_rooms",
    "room_state",
]
