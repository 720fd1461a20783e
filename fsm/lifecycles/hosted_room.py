"""hosted_room: a room's identity and authority, from its creation to the id that is never given out again."""

from typing import Final, Literal

from fsm.errors import (
    AuthorityConflictError,
    AuthoritySupersededError,
    EventConflictError,
    HostedRoomError,
    RoomConflictError,
    RoomHistoryExpiredError,
    RoomNotFoundError,
)
from fsm.lifecycle import (
    DECLINE,
    NOW,
    Arg,
    Authority,
    Check,
    Do,
    Fence,
    Greater,
    Lifecycle,
    Load,
    Look,
    Not,
    Of,
    Plus,
    Refusal,
    Replay,
    Source,
    State,
    Term,
    Trigger,
    Write,
    Writes,
    edges,
    given,
)
from fsm.lifecycles.limits import MAX_ACTIVE_ROOMS
from fsm.lifecycles.tables import EVENT_BYTES, EVENTS, LIVE_ROOMS, LOCK_ORDER, RETIRED, ROOMS, TOTALS

__all__ = ["HOSTED_ROOM", "LEGACY_GATEWAY", "HostedRoomState"]

HostedRoomState = Literal["absent", "live", "disbanded", "retired"]

LEGACY_GATEWAY: Final = "legacy"
"""The authority of rooms that were made before rooms had one; the first real gateway that asks adopts them."""

# --- refusals

NOT_FOUND: Final = Refusal(RoomNotFoundError, "create the room, or use the id of one that is live")
HISTORY_EXPIRED: Final = Refusal(
    RoomHistoryExpiredError, "its history is pruned and its id stays taken; use another room"
)
ID_TAKEN: Final = Refusal(RoomConflictError, "read room_state; create the room under an id that was never used")
TOO_MANY: Final = Refusal(HostedRoomError, "disband a room that is no longer needed, then create this one again")
NOT_OURS: Final = Refusal(
    AuthorityConflictError, "read room_state for the room's gateway and epoch; only that gateway may go on"
)
SUPERSEDED: Final = Refusal(
    AuthoritySupersededError, "this claim was made and a later one replaced it; read room_state"
)
EVENT_TAKEN: Final = Refusal(EventConflictError, "use a new event_id for new content")
KEPT: Final = Refusal(RoomConflictError, "disband the room before pruning it")
NO_TOTAL: Final = Refusal(
    HostedRoomError, "delete what is left of this total and open the database again, which then sums it up anew"
)

# --- states

DISBANDED_AT_IS_SET: Final = Not(Term("disbanded_at", "is null"))
RETIRED_AT_IS_SET: Final = Not(Term("retired_at", "is null"))
ABSENT: Final = State("absent", "no room has ever had this id", Term("retired_at", "is null"), row=False)
LIVE: Final = State("live", "the room is in use under one gateway's authority", Term("disbanded_at", "is null"))
DISBANDED: Final = State("disbanded", "the room is closed; its history is kept for a while", DISBANDED_AT_IS_SET)
RETIRED_ID: Final = State(
    "retired", "the history is gone and the id is never used again", RETIRED_AT_IS_SET, final=True, row=False
)

# --- terms and steps

EXPECTED_AUTHORITY: Final = (
    Term("authority_gateway_id", "=", Arg("expected_gateway_id")),
    Term("authority_epoch", "=", Arg("expected_epoch")),
)
NEVER_RETIRED: Final = Term(Of("joined", "retired_at", nullable=True), "is null")
NO_ROW: Final = Term(Of("record", "room_id", nullable=True), "is null")
SAME_ROOM: Final = given("name", "members_json", "authority_gateway_id")
SAME_EVENT: Final = (
    Term("kind", "=", Arg("event_kind")),
    Term("actor_json", "=", Arg("event_actor_json")),
    Term("authority_epoch", "=", Arg("event_epoch")),
    Term("payload_json", "=", Arg("event_payload_json")),
)
SAME_RENAMING: Final = (
    Term("kind", "=", Arg("event_kind")),
    Term("payload_json", "=", Arg("event_payload_json")),
)
STILL_OURS: Final = (
    Term(Of("record", "authority_gateway_id"), "=", Arg("new_gateway_id")),
    Term(Of("record", "authority_epoch"), "=", Arg("event_epoch")),
)
IS_LIVE: Final = Source(NOT_FOUND, per={RETIRED_ID: HISTORY_EXPIRED})
OF_THIS_ID: Final = given("room_id", "event_id")
LOG_AS_READ: Final = Term("next_seq", "=", Of("record", "next_seq"))
GATEWAY_BYTES: Final = Authority(
    "gateway", TOTALS, {"name": EVENT_BYTES.name}, NO_TOTAL, (Check(Term("total", ">=", 0), NO_TOTAL),)
)
GATEWAY_ROOMS: Final = Authority(
    "gateway", TOTALS, {"name": LIVE_ROOMS.name}, NO_TOTAL, (Check(Term("total", "<", MAX_ACTIVE_ROOMS), TOO_MANY),)
)
APPEND_EVENT: Final = Do(
    "append_event",
    "the room and the gateway have space, else HostedRoomError; the event is stored under the next sequence number",
    fires=(("hosted_room", "prune"),),
)
RETIRE_ID: Final = Do("retire_id", "the id is noted as never to be used again")

# --- writes

APPENDS: Final[Writes] = {
    "next_seq": Plus("next_seq", 1),
    "event_bytes": Plus("event_bytes", Of("append_event", "bytes")),
    "updated_at": Greater("updated_at", NOW),
}
LOGS: Final[Writes] = {**APPENDS, "revision": Plus("revision", 1)}

# --- triggers

CREATE: Final = Trigger(
    "create",
    "a gateway opens a room",
    Load(),
    Replay((*LIVE.terms, NEVER_RETIRED, *SAME_ROOM), conflict=(), refuse=ID_TAKEN),
    Source(ID_TAKEN),
    GATEWAY_ROOMS,
    Write(ID_TAKEN),
    edges=edges(
        ABSENT,
        LIVE,
        writes={
            **{name: Arg(name) for name in ("name", "members_json", "authority_gateway_id")},
            "authority_epoch": 1,
            "next_seq": 1,
            "event_bytes": 0,
            "revision": 1,
            "created_at": NOW,
            "updated_at": NOW,
        },
    ),
)
ADOPT: Final = Trigger(
    "adopt",
    "a real gateway opens a room that has no real authority yet",
    Load(DECLINE),
    Source(DECLINE),
    Fence(Term("authority_gateway_id", "=", LEGACY_GATEWAY), DECLINE),
    Fence(given("name"), ID_TAKEN),
    Do(
        "match_members",
        "the members are those stored, but for routing targets that the room lacked; else RoomConflictError",
        reads_only=True,
    ),
    Fence((*given("authority_epoch"), LOG_AS_READ), NOT_OURS),
    GATEWAY_BYTES,
    APPEND_EVENT,
    Write(NOT_OURS),
    edges=edges(
        LIVE,
        LIVE,
        writes={
            "members_json": Arg("members_json"),
            "authority_gateway_id": Arg("authority_gateway_id"),
            "authority_epoch": Plus("authority_epoch", 1),
            **LOGS,
        },
    ),
)
CLAIM_AUTHORITY: Final = Trigger(
    "claim_authority",
    "another gateway takes the room over",
    Load(),
    IS_LIVE,
    Look(
        "event",
        EVENTS,
        OF_THIS_ID,
        checks=(Check(Not(SAME_EVENT, Not(STILL_OURS)), SUPERSEDED),),
    ),
    Replay(SAME_EVENT, conflict=(), refuse=EVENT_TAKEN, on="event"),
    Fence(EXPECTED_AUTHORITY, NOT_OURS),
    GATEWAY_BYTES,
    APPEND_EVENT,
    Write(NOT_OURS),
    edges=edges(
        LIVE,
        LIVE,
        writes={"authority_gateway_id": Arg("new_gateway_id"), "authority_epoch": Plus("authority_epoch", 1), **LOGS},
    ),
)
RENAME: Final = Trigger(
    "rename",
    "the room gets another name",
    Load(),
    IS_LIVE,
    Look("event", EVENTS, OF_THIS_ID),
    Replay(SAME_RENAMING, conflict=(), refuse=EVENT_TAKEN, on="event"),
    GATEWAY_BYTES,
    APPEND_EVENT,
    Write(NOT_FOUND),
    edges=edges(LIVE, LIVE, writes={"name": Arg("name"), **LOGS}),
)
APPENDING: Final = (
    Load(),
    Look("event", EVENTS, OF_THIS_ID),
    Replay(SAME_EVENT, conflict=(), refuse=EVENT_TAKEN, on="event"),
    IS_LIVE,
    Fence(EXPECTED_AUTHORITY, NOT_OURS),
    Fence(LOG_AS_READ, NOT_OURS),
    GATEWAY_BYTES,
    APPEND_EVENT,
    Write(NOT_OURS),
)
APPEND: Final = Trigger(
    "append", "the room's gateway adds an event to its log", *APPENDING, edges=edges(LIVE, LIVE, writes=APPENDS)
)
REQUEST_STOP: Final = Trigger(
    "request_stop",
    "the room's gateway wants everything stopped that was asked for before",
    *APPENDING,
    edges=edges(LIVE, LIVE, writes=APPENDS),
)
DISBAND: Final = Trigger(
    "disband",
    "the room's gateway closes it for good",
    Load(),
    Replay(DISBANDED_AT_IS_SET),
    Replay((RETIRED_AT_IS_SET, NO_ROW), on="joined"),
    Source(NOT_FOUND),
    Fence(EXPECTED_AUTHORITY, NOT_OURS),
    GATEWAY_BYTES,
    APPEND_EVENT,
    Write(NOT_OURS),
    RETIRE_ID,
    Do("prune_others", "rooms disbanded long ago make space; never this one", fires=(("hosted_room", "prune"),)),
    edges=edges(LIVE, DISBANDED, writes={"disbanded_at": NOW, **LOGS}),
)
PRUNE: Final = Trigger(
    "prune",
    "its retention is over, too many rooms are kept, or space is needed",
    Load(NOT_FOUND),
    Source(KEPT),
    RETIRE_ID,
    Do(
        "purge_dependents",
        "whatever belongs to the room is deleted, what refers to it first",
        fires=(("driver_task", "purge"), ("driver_lease", "purge"), ("peer_reservation", "purge")),
    ),
    Write(KEPT),
    edges=edges(DISBANDED, RETIRED_ID),
)

HOSTED_ROOM: Final = Lifecycle(
    "hosted_room",
    "a room's identity and authority, from its creation to the id that is never given out again",
    ROOMS,
    states=(ABSENT, LIVE, DISBANDED, RETIRED_ID),
    triggers=(CREATE, ADOPT, CLAIM_AUTHORITY, RENAME, APPEND, REQUEST_STOP, DISBAND, PRUNE),
    joined=RETIRED,
    lock_order=LOCK_ORDER,
)
