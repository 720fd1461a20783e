"""Hosted rooms: their identity, authority, event log and end; and their members on other gateways.

Every call takes `db` first, as in `fsm.driver`; `now` is an instant in seconds, and the handle's clock where none is
given. The rules stand in `fsm.lifecycles.hosted_room` and, for the
profiles of this gateway that rooms of others use, in `fsm.lifecycles.peer_reservation`.
"""

from typing import Final

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
    MAX_ACTOR_LABEL_CHARS,
    MAX_DISBANDED_ROOM_TOMBSTONES,
    MAX_EVENT_ID_CHARS,
    MAX_EVENT_JSON_BYTES,
    MAX_EVENT_KIND_CHARS,
    MAX_EVENTS_PER_ROOM,
    MAX_GATEWAY_EVENT_BYTES,
    MAX_LINK_DOCUMENT_BYTES,
    MAX_LINK_TEXT_CHARS,
    MAX_LOG_LIMIT,
    MAX_LOG_PAGE_BYTES,
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
from fsm.rooms.log import append_event, read_events, request_room_stop, user_event_id
from fsm.rooms.operations import (
    claim_authority,
    create_room,
    disband_room,
    list_rooms,
    prune_disbanded_rooms,
    rename_room,
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
from fsm.rooms.views import (
    AuthorityView,
    EventPage,
    EventView,
    ListedEvent,
    RoomClaim,
    RoomDisbanding,
    RoomRenaming,
    RoomState,
    RoomView,
)

PROTOCOL_VERSION: Final = 2
"""The version of the protocol in which gateways speak of rooms and their logs."""

__all__ = [
    "CONTROL_EVENT_BYTE_RESERVE",
    "CONTROL_EVENT_COUNT_RESERVE",
    "DISBANDED_ROOM_RETENTION_SECONDS",
    "MAX_ACTIVE_ROOMS",
    "MAX_ACTOR_ID_CHARS",
    "MAX_ACTOR_LABEL_CHARS",
    "MAX_DISBANDED_ROOM_TOMBSTONES",
    "MAX_EVENTS_PER_ROOM",
    "MAX_EVENT_ID_CHARS",
    "MAX_EVENT_JSON_BYTES",
    "MAX_EVENT_KIND_CHARS",
    "MAX_GATEWAY_EVENT_BYTES",
    "MAX_LINK_DOCUMENT_BYTES",
    "MAX_LINK_TEXT_CHARS",
    "MAX_LOG_LIMIT",
    "MAX_LOG_PAGE_BYTES",
    "MAX_MEMBERS",
    "MAX_MEMBERS_JSON_BYTES",
    "MAX_ROOM_EVENT_BYTES",
    "MAX_ROOM_ID_CHARS",
    "MAX_ROOM_LIST_LIMIT",
    "MAX_ROOM_NAME_CHARS",
    "PROTOCOL_VERSION",
    "AuthorityConflictError",
    "AuthoritySupersededError",
    "AuthorityView",
    "EventConflictError",
    "EventPage",
    "EventView",
    "HostedRoomError",
    "HostedRoomState",
    "ListedEvent",
    "PeerReservationState",
    "RemoteRunReceipt",
    "RoomClaim",
    "RoomConflictError",
    "RoomDisbanding",
    "RoomHistoryExpiredError",
    "RoomLink",
    "RoomNotFoundError",
    "RoomProbeUnavailableError",
    "RoomRenaming",
    "RoomState",
    "RoomView",
    "append_event",
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
    "read_events",
    "remote_run_receipt",
    "rename_room",
    "request_room_stop",
    "reserve_peer_room",
    "revoke_room_grant_scope",
    "room_grant_is_revoked",
    "room_state",
    "update_room_link_status",
    "upsert_remote_run_receipt",
    "upsert_room_link_record",
    "user_event_id",
]
