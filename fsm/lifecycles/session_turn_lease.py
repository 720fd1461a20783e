"""session_turn_lease: who has the turn in a conversation, and until when."""

from typing import Final, Literal

from fsm.lifecycle import (
    DECLINE,
    GONE,
    NOW,
    Arg,
    Authority,
    Edge,
    Fence,
    Greater,
    Lifecycle,
    Load,
    Source,
    State,
    Term,
    Trigger,
    Write,
    Writes,
    edges,
    given,
)
from fsm.lifecycles.runtime_tables import RUNTIME_LOCK_ORDER, SESSIONS, TURN_LEASES
from fsm.lifecycles.session_authorities import NOT_FOUND

__all__ = ["SESSION_TURN_LEASE", "SessionTurnLeaseState"]

SessionTurnLeaseState = Literal["free", "held", "expired"]

# --- states

FREE: Final = State("free", "nobody has the conversation's turn", row=False)
HELD: Final = State("held", "one holder has the turn until expires_at", Term("expires_at", ">", NOW))
EXPIRED: Final = State(
    "expired", "its holder did not renew in time; whoever asks next takes the turn", Term("expires_at", "<=", NOW)
)

STATES: Final = (FREE, HELD, EXPIRED)
"""In the order of a lease's life."""

# --- terms, steps and writes

SAME_HOLDER: Final = given("holder")
CONVERSATION: Final = Authority("conversation", SESSIONS, {"id": Arg("conversation_id")}, NOT_FOUND)
"""The session with which the lineage began: its root, locked ahead of the lease though nothing of it is compared."""
TAKES: Final[Writes] = {"holder": Arg("holder"), "acquired_at": NOW, "expires_at": Arg("expires_at")}
EXTENDS: Final[Writes] = {"expires_at": Greater("expires_at", Arg("expires_at"))}

# --- triggers

ACQUIRE: Final = Trigger(
    "acquire",
    "a holder wants the conversation's turn",
    CONVERSATION,
    Load(),
    Source(DECLINE),
    Write(DECLINE),
    edges=(
        edges((FREE, EXPIRED), HELD, writes=TAKES),
        Edge(HELD, HELD, SAME_HOLDER, EXTENDS),
    ),
)
RENEW: Final = Trigger(
    "renew",
    "the holder is alive and wants more time",
    CONVERSATION,
    Load(DECLINE),
    Fence(SAME_HOLDER, DECLINE),
    Source(DECLINE),
    Write(DECLINE),
    edges=edges(HELD, HELD, writes=EXTENDS),
)
RELEASE: Final = Trigger(
    "release",
    "the holder is done with the turn",
    CONVERSATION,
    Load(DECLINE),
    Fence(SAME_HOLDER, DECLINE),
    Source(DECLINE),
    Write(DECLINE),
    edges=edges((HELD, EXPIRED), FREE),
)
EXPIRE: Final = Trigger("expire", "its time has run out", kind="time", edges=edges(HELD, EXPIRED))
PURGE: Final = Trigger(
    "purge",
    "its conversation's first session is deleted",
    kind="sweep",
    over=given("conversation_id"),
    edges=edges((HELD, EXPIRED), GONE),
)

SESSION_TURN_LEASE: Final = Lifecycle(
    "session_turn_lease",
    "who has the turn in a conversation, and until when",
    TURN_LEASES,
    states=STATES,
    triggers=(ACQUIRE, RENEW, RELEASE, EXPIRE, PURGE),
    lock_order=RUNTIME_LOCK_ORDER,
)
