"""peer_reservation: which gateway's room may use a profile of this gateway, and until when."""

from typing import Final, Literal

from fsm.errors import AuthorityConflictError
from fsm.lifecycle import (
    DECLINE,
    GONE,
    NOW,
    Arg,
    Check,
    Do,
    Edge,
    Fence,
    Greater,
    Lifecycle,
    Load,
    Look,
    Not,
    Refusal,
    State,
    Term,
    Trigger,
    Write,
    Writes,
    edges,
    given,
)
from fsm.lifecycles.tables import PEER_RESERVATIONS

__all__ = ["PEER_RESERVATION", "PeerReservationState"]

PeerReservationState = Literal["absent", "live", "revoked", "expired"]

# --- refusals

OUTRANKED: Final = Refusal(
    AuthorityConflictError, "another authority of the room holds the profile; ask the room's home for a current grant"
)

# --- states

IN_TIME: Final = Term("expires_at", ">", NOW)
UNREVOKED: Final = Term("revoked_at", "is null")
ABSENT: Final = State("absent", "the member has no claim on the profile", row=False)
LIVE: Final = State("live", "the profile takes prompts from the room alone, until expires_at", (IN_TIME, UNREVOKED))
REVOKED: Final = State(
    "revoked", "its grant was taken back, or a newer epoch of the room replaced it", (IN_TIME, Not(UNREVOKED))
)
EXPIRED: Final = State(
    "expired", "its time has run out; the next to reserve anything drops it", Term("expires_at", "<=", NOW)
)

STATES: Final = (ABSENT, LIVE, REVOKED, EXPIRED)
"""In the order of a reservation's life."""

# --- terms and steps

OF_THE_PROFILE: Final = given("room_id", "target_profile")
AUTHORITY: Final = given("authority_gateway_id", "authority_epoch")
NEWER: Final = Term("authority_epoch", ">", Arg("authority_epoch"))
OLDER: Final = Term("authority_epoch", "<", Arg("authority_epoch"))
RIVAL: Final = (*given("authority_epoch"), Not(given("authority_gateway_id")))
THERE_IS_NONE: Final = Check(Term("authority_epoch", "is null"), OUTRANKED)
DROP_EXPIRED: Final = Do(
    "drop_expired",
    "every reservation whose time has run out is dropped, whoever made it",
    fires=(("peer_reservation", "drop"),),
)
REVOKE_OLDER: Final = Do(
    "revoke_older",
    "what other members hold of the profile for older epochs of the room is revoked",
    fires=(("peer_reservation", "supersede"),),
)

# --- writes

TOUCHED: Final[Writes] = {"updated_at": NOW}
REVOKES: Final[Writes] = {"revoked_at": NOW, **TOUCHED}
TAKES: Final[Writes] = {
    **{name: Arg(name) for name in ("authority_gateway_id", "authority_epoch")},
    "expires_at": Arg("expires_at"),
    **TOUCHED,
}

# --- triggers

RESERVE: Final = Trigger(
    "reserve",
    "a room of another gateway is granted a profile of this one",
    DROP_EXPIRED,
    Look("newer", PEER_RESERVATIONS, (*OF_THE_PROFILE, *LIVE.terms, NEWER), checks=(THERE_IS_NONE,)),
    Look("rival", PEER_RESERVATIONS, (*OF_THE_PROFILE, *LIVE.terms, *RIVAL), checks=(THERE_IS_NONE,)),
    Load(),
    Fence((Not(NEWER), Not(RIVAL)), OUTRANKED),
    REVOKE_OLDER,
    Write(OUTRANKED),
    edges=(
        Edge(ABSENT, LIVE, writes={**TAKES, "created_at": NOW}),
        edges((REVOKED, LIVE), LIVE, writes={**TAKES, "expires_at": Greater("expires_at", Arg("expires_at"))}),
    ),
)
REVOKE: Final = Trigger(
    "revoke",
    "the grant behind it is taken back",
    Load(DECLINE),
    Fence(AUTHORITY, DECLINE),
    Write(DECLINE),
    edges=(
        edges((LIVE, REVOKED), REVOKED, writes=REVOKES),
        Edge(EXPIRED, EXPIRED, writes=REVOKES),
    ),
)
SUPERSEDE: Final = Trigger(
    "supersede",
    "a newer epoch of the room reserves the profile for another member",
    kind="sweep",
    over=(*OF_THE_PROFILE, Not(given("member_id")), OLDER),
    edges=edges(LIVE, REVOKED, writes=REVOKES),
)
DROP: Final = Trigger(
    "drop", "somebody reserves anything after its time has run out", kind="sweep", edges=edges(EXPIRED, GONE)
)
PURGE: Final = Trigger(
    "purge",
    "its disbanded room is pruned",
    kind="sweep",
    over=given("room_id"),
    edges=edges((state for state in STATES if state.row), GONE),
)
EXPIRE: Final = Trigger("expire", "its time has run out", kind="time", edges=edges((LIVE, REVOKED), EXPIRED))

PEER_RESERVATION: Final = Lifecycle(
    "peer_reservation",
    "which gateway's room may use a profile of this gateway, and until when",
    PEER_RESERVATIONS,
    states=STATES,
    triggers=(RESERVE, REVOKE, SUPERSEDE, DROP, PURGE, EXPIRE),
)
