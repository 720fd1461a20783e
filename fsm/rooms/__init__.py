"""Hosted rooms: their identity, authority and end; and their members on other gateways.

Every call takes `db` first, as in `fsm.driver`; `now` is an instant in seconds, and the handle's clock where none is
given. The rules stand in `fsm.lifecycles.hosted_room` and, for the
profiles of this gateway that rooms of others use, in `fsm.lifecycles.peer_reservation`.
"""

from fsm.errors import (
    AuthorityConflictError,
    AuthoritySupersededError,
    EventConflictError,
    HostedRoomError,
    RoomConflictError,
    RoomHistoryExpiredError,
    RoomNotFoundError,
    RoomProbeUnavailableError,
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
    MAX_LINK_DOCUMENT_BYTES,
    MAX_LINK_TEXT_CHARS,
    MAX_MEMBERS,
    MAX_MEMBERS_JSON_BYTES,
    MAX_ROOM_EVENT_BYTES,
    MAX_ROOM_ID_CHARS,
    MAX_ROOM_LIST_LIMIT,
    MAX_ROOM_NAME_CHARS,
)
from fsm.lifecycles.peer_reservation import PeerReservationState
from fsm.rooms.grants import revoke_room_grant_scope, room_grant_is_revoked
from fsm.rooms.identity import default_db_path, local_authority_gateway_id
from fsm.rooms.links import (
    RoomLink,
    delete_room_link_records,
    list_room_link_records,
    update_room_link_status,
    upsert_room_link_record,
)
from fsm.rooms.operations import (
    claim_authority,
    create_room,
    disband_room,
    list_rooms,
    prune_disbanded_rooms,
    room_state,
)
from fsm.rooms.probes import probe_hosted_room, probe_peer_room_reservation
from fsm.rooms.receipts import (
    RemoteRunReceipt,
    list_remote_run_receipts,
    remote_run_receipt,
    upsert_remote_run_receipt,
)
from fsm.rooms.reservations import peer_room_grant_is_current, peer_room_is_reserved, reserve_peer_room
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
    "MAX_LINK_DOCUMENT_BYTES",
    "MAX_LINK_TEXT_CHARS",
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
    "PeerReservationState",
    "RemoteRunReceipt",
    "RoomClaim",
    "RoomConflictError",
    "RoomDisbanding",
    "RoomHistoryExpiredError",
    "RoomLink",
    "RoomNotFoundError",
    "RoomProbeUnavailableError",
    "RoomState",
    "RoomView",
    "claim_authority",
    "create_room",
    "default_db_path",
    "delete_room_link_records",
    "disband_room",
    "list_remote_run_receipts",
    "list_room_link_records",
    "list_rooms",
    "local_authority_gateway_id",
    "peer_room_grant_is_current",
    "peer_room_is_reserved",
    "probe_hosted_room",
    "probe_peer_room_reservation",
    "prune_disbanded_rooms",
    "remote_run_receipt",
    "reserve_peer_room",
    "revoke_room_grant_scope",
    "room_grant_is_revoked",
    "room_state",
    "update_room_link_status",
    "upsert_remote_run_receipt",
    "upsert_room_link_record",
]
