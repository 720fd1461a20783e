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
from fsm.lifecycles.limits import (
    CONTROL_EVENT_BYTE_RESERVE,
    CONTROL_EVENT_COUNT_RESERVE,
    DISBANDED_ROOM_RETENTION_SECONDS,
    MAX_ACTIVE_ROOMS,
    MAX_ACTOR_ID_CHARS,
    MAX_DISBANDED_ROOM_TOMBSTONES,
    MAX_EVENT_ID_CHARS,
    MAX_EVENT_JSON_BYTES,
    MAX_EVENTS_PER_ROOM,
    MAX_GATEWAY_EVENT_BYTES,
    MAX_MEMBERS,
    MAX_MEMBERS_JSON_BYTES,
    MAX_ROOM_EVENT_BYTES,
    MAX_ROOM_ID_CHARS,
    MAX_ROOM_LIST_LIMIT,
    MAX_ROOM_NAME_CHARS,
)
from fsm.rooms.identity import default_db_path, local_authority_gateway_id
from fsm.rooms.operations import (
    claim_authority,
    create_room,
    disband_room,
    list_rooms,
    prune_disbanded_rooms,
    room_state,
)
from fsm.rooms.views import EventView, RoomClaim, RoomDisbanding, RoomState, RoomView

__all__ = [
    "CONTROL_EVENT_BYTE_RESERVE",
    "CONTROL_EVENT_COUNT_RESERVE",
    "DISBANDED_ROOM_RETENTION_SECONDS",
    "MAX_ACTIVE_ROOMS",
    "MAX_ACTOR_ID_CHARS",
    "MAX_DISBANDED_ROOM_TOMBSTONES",
    "MAX_EVENTS_PER_ROOM",
    "MAX_EVENT_ID_CHARS",
    "MAX_EVENT_JSON_BYTES",
    "MAX_GATEWAY_EVENT_BYTES",
    "MAX_MEMBERS",
    "MAX_MEMBERS_JSON_BYTES",
    "MAX_ROOM_EVENT_BYTES",
    "MAX_ROOM_ID_CHARS",
    "MAX_ROOM_LIST_LIMIT",
    "MAX_ROOM_NAME_CHARS",
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
    "list_rooms",
    "local_authority_gateway_id",
    "prune_disbanded_rooms",
    "room_state",
]
