"""driver_lease: which process drives a room, and until when."""

from typing import Final, Literal

from fsm.errors import InvalidTaskTransitionError, LeaseHeldError
from fsm.lifecycle import (
    GONE,
    NOW,
    Arg,
    Check,
    Edge,
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
from fsm.lifecycles.authorities import IN_FORCE, LEASE_IDENTITY, ROOM, STALE_LEASE, THE_ROOM
from fsm.lifecycles.driver_task import RUNNING
from fsm.lifecycles.tables import LEASES, LOCK_ORDER, TASKS

__all__ = ["DRIVER_LEASE", "DriverLeaseState"]

DriverLeaseState = Literal["vacant", "held", "expired", "released"]

# --- refusals

HELD_ELSEWHERE: Final = Refusal(LeaseHeldError, "another process drives the room; try again once its lease has expired")
STILL_RUNNING: Final = Refusal(
    InvalidTaskTransitionError, "settle or requeue the running task before releasing the lease"
)

# --- states

RELEASED_AT_IS_SET: Final = Not(Term("released_at", "is null"))
VACANT: Final = State("vacant", "nobody has ever driven the room", row=False)
HELD: Final = State("held", "one process drives the room until expires_at", IN_FORCE)
EXPIRED: Final = State(
    "expired",
    "its holder did not renew in time; the next to acquire it reclaims it",
    (Term("released_at", "is null"), Term("expires_at", "<=", NOW)),
)
RELEASED: Final = State("released", "its holder gave it up", RELEASED_AT_IS_SET)

STATES: Final = (VACANT, HELD, EXPIRED, RELEASED)
"""In the order of a lease's life."""

# --- terms and writes

SAME_AUTHORITY: Final = given("gateway_id", "authority_epoch")
AS_READ: Final = Term("lease_generation", "=", Of("record", "lease_generation"))
SAME_PROCESS: Final = (*SAME_AUTHORITY, *given("process_generation"))
TOUCHED: Final[Writes] = {"updated_at": NOW}
HOLDER: Final[Writes] = {
    **{name: Arg(name) for name in ("gateway_id", "authority_epoch", "process_generation", "expires_at")},
    "acquired_at": NOW,
    **TOUCHED,
}
RECLAIMS: Final[Writes] = {**HOLDER, "lease_generation": Plus("lease_generation", 1)}
EXTENDS: Final[Writes] = {"expires_at": Greater("expires_at", Arg("expires_at")), **TOUCHED}

# --- triggers

ACQUIRE: Final = Trigger(
    "acquire",
    "a process wants to drive the room",
    ROOM,
    Load(),
    Fence(AS_READ, HELD_ELSEWHERE),
    Write(HELD_ELSEWHERE),
    edges=(
        Edge(VACANT, HELD, writes={**HOLDER, "lease_generation": 1}),
        edges((RELEASED, EXPIRED), HELD, writes=RECLAIMS),
        Edge(HELD, HELD, Not(SAME_AUTHORITY), RECLAIMS),
        Edge(HELD, HELD, SAME_PROCESS, EXTENDS),
    ),
)
RENEW: Final = Trigger(
    "renew",
    "the holder is alive and wants more time",
    ROOM,
    Load(STALE_LEASE),
    Fence(LEASE_IDENTITY, STALE_LEASE),
    Source(STALE_LEASE),
    Write(STALE_LEASE),
    edges=edges(HELD, HELD, writes=EXTENDS),
)
RELEASE: Final = Trigger(
    "release",
    "the holder is done with the room",
    ROOM,
    Load(STALE_LEASE),
    Fence(LEASE_IDENTITY, STALE_LEASE),
    Replay(RELEASED_AT_IS_SET),
    Source(STALE_LEASE),
    Look(
        "unfinished",
        TASKS,
        (*given("room_id"), *RUNNING.terms),
        checks=(Check(Term("task_id", "is null"), STILL_RUNNING),),
    ),
    Write(STALE_LEASE),
    edges=edges(HELD, RELEASED, writes={"expires_at": NOW, "released_at": NOW, **TOUCHED}),
)
EXPIRE: Final = Trigger("expire", "its time has run out", kind="time", edges=edges(HELD, EXPIRED))
PURGE: Final = Trigger(
    "purge",
    "its disbanded room is pruned",
    kind="sweep",
    over=given("room_id"),
    edges=edges((state for state in STATES if state.row), GONE),
)

DRIVER_LEASE: Final = Lifecycle(
    "driver_lease",
    "which process drives a room, and until when",
    LEASES,
    states=STATES,
    triggers=(ACQUIRE, RENEW, RELEASE, EXPIRE, PURGE),
    root=THE_ROOM,
    lock_order=LOCK_ORDER,
)
