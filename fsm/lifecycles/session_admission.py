"""session_admission: one input to a session, from its admission to its one outcome."""

from typing import Final

from fsm.lifecycle import (
    DECLINE,
    GONE,
    NEW,
    Arg,
    Authority,
    Check,
    Do,
    Edge,
    Fence,
    Lifecycle,
    Load,
    Look,
    Not,
    Of,
    Replay,
    Source,
    Term,
    Trigger,
    Write,
    Writes,
    choice,
    edges,
    given,
)
from fsm.lifecycles.admission_states import (
    ALREADY_STARTED,
    CANCELLED,
    CAPTURED,
    CLAIM,
    COMPLETED,
    COUNTS,
    FAILED,
    FINAL,
    FULL,
    IDLE,
    IMPORTED,
    INTERRUPTED,
    IS_OVER,
    MINE,
    NOTHING,
    OF_ITS_SESSION,
    OF_SESSION,
    QUEUED,
    RESULT,
    SAME_HEAD,
    SETTLED,
    STARTED,
    STATES,
    STEERED,
    STEERING,
    STILL_OPEN,
    UNKNOWN,
)
from fsm.lifecycles.limits import ADMISSION_QUEUE_MAX
from fsm.lifecycles.runtime_tables import ADMISSIONS, META, RUNTIME_LOCK_ORDER, SESSIONS
from fsm.lifecycles.session_authorities import (
    CONFLICT,
    CURRENT_SESSION_OF_RECORD,
    EPOCH,
    NOT_FOUND,
    SESSION,
    SESSION_OF_RECORD,
    STALE_GENERATION,
    UNKNOWN_EXECUTION,
)

__all__ = ["SESSION_ADMISSION"]

# --- steps

LOAD: Final = Load(DECLINE)
"""A row that is gone may have left a tombstone: the operation answers from it, or refuses with not_found."""
NONE_UNKNOWN: Final = Look(
    "unresolved", ADMISSIONS, (OF_SESSION, *UNKNOWN.terms), checks=(Check(NOTHING, UNKNOWN_EXECUTION),)
)
NONE_UNKNOWN_THERE: Final = Look(
    "unresolved", ADMISSIONS, (OF_ITS_SESSION, *UNKNOWN.terms), checks=(Check(NOTHING, DECLINE),)
)
STORED_RESULT: Final = Look("result", META, Term("key", "=", Arg("result_key")))
RETIRE_WORKERS: Final = Do(
    "retire_workers",
    "the executions of this claim end, on its session and on the last of its lineage",
    fires=(("worker_execution", "retire"),),
)
TERMINAL_WRITE: Final = Do("terminal_write", "the owner's own effect on the end, in this transaction", hook=True)
REVISE: Final = Do("revise_session", "the session's revision + 1")

# --- writes

REQUEUES: Final[Writes] = {"outcome": None, "generation": None}
BINDS: Final[Writes] = {"owner_epoch": Arg("epoch"), "generation": Arg("generation")}
CONTENT: Final[Writes] = {
    **{name: Arg(name) for name in ("request_id", "principal_id", "lineage_json", "payload_json", "payload_digest")},
    "target_session_id": Arg("session_id"),
    "intent": Arg("intent"),
    "owner_epoch": Arg("epoch"),
}

# --- triggers

ADMIT: Final = Trigger(
    "admit",
    "a principal hands over an input",
    EPOCH,
    Look("tombstone", META, Term("key", "=", Arg("tombstone_key"))),
    Replay(Not(Term("value", "is null")), on="tombstone"),
    SESSION,
    Load(),
    Look("known", ADMISSIONS, (*given("principal_id", "request_id"), OF_SESSION)),
    Replay(given("payload_digest"), conflict=(), refuse=CONFLICT, on="known"),
    Source(CONFLICT),
    Do("authorize_write", "the caller's own check on a new admission, which may make room in the queue", hook=True),
    Look(
        "waiting",
        ADMISSIONS,
        (OF_SESSION, *QUEUED.terms),
        count=True,
        checks=(Check(Term("count", "<", ADMISSION_QUEUE_MAX), FULL),),
    ),
    Write(CONFLICT),
    edges=edges(NEW, QUEUED, writes=CONTENT),
)
IMPORT: Final = Trigger(
    "import",
    "the snapshot of an older gateway is taken over, once",
    EPOCH,
    SESSION,
    Load(),
    Source(CONFLICT),
    Do("advance_generation", "the session's generation is at least the row's"),
    Write(CONFLICT),
    edges=choice(
        Arg("state"),
        NEW,
        IMPORTED,
        {**CONTENT, "generation": Arg("generation", nullable=True)},
    ),
    imports=True,
)
CLAIM_HEAD: Final = Trigger(
    "claim",
    "an owner takes the head of the session's queue",
    EPOCH,
    Do("guard", "the owner's own gate; it raises to refuse", hook=True),
    SESSION,
    NONE_UNKNOWN,
    Do(
        "look_at_workers",
        "how many executions are at work in the lineage; one that is unknown refuses",
        reads_only=True,
    ),
    Look(
        "running",
        ADMISSIONS,
        (OF_SESSION, *STARTED.terms),
        checks=(Check((NOTHING, Term(Of("look_at_workers", "at_work"), "=", 0)), DECLINE),),
    ),
    Look(
        "head",
        ADMISSIONS,
        (OF_SESSION, *QUEUED.terms),
        order=("seq",),
        checks=(Check(SAME_HEAD, DECLINE), Check(Not(NOTHING), DECLINE)),
    ),
    Load(NOT_FOUND, by="head"),
    Source(STALE_GENERATION),
    Do("next_generation", "the session's generation + 1 is this claim's"),
    Write(STALE_GENERATION),
    edges=edges(
        QUEUED,
        STARTED,
        writes={"owner_epoch": Arg("epoch"), "generation": Of("next_generation", "generation")},
    ),
)
SETTLE: Final = Trigger(
    "settle",
    "the owner reports how the turn ended",
    EPOCH,
    LOAD,
    STORED_RESULT,
    Replay((IS_OVER, Term("outcome", "=", Arg("outcome")), *given("generation"), RESULT)),
    CURRENT_SESSION_OF_RECORD,
    Fence(MINE, STALE_GENERATION),
    Source(STALE_GENERATION),
    RETIRE_WORKERS,
    TERMINAL_WRITE,
    Do("store_result", "what the turn answered, under the admission's own key"),
    Write(STALE_GENERATION),
    Do(
        "end_steering",
        "each input that steered here ends as the caller says that it was delivered; those left out are interrupted",
        fires=(("session_admission", "deliver"), ("session_admission", "leave_out")),
    ),
    REVISE,
    edges=choice(Arg("outcome"), STARTED, SETTLED),
)
CANCEL: Final = Trigger(
    "cancel",
    "a principal withdraws an input that has not begun",
    EPOCH,
    LOAD,
    Replay((IS_OVER, Not(*STEERING.terms))),
    Source(STALE_GENERATION, per={UNKNOWN: UNKNOWN_EXECUTION}),
    SESSION_OF_RECORD,
    Write(STALE_GENERATION),
    edges=edges(QUEUED, CANCELLED),
)
STEER: Final = Trigger(
    "steer",
    "the running claim takes a queued input along",
    EPOCH,
    LOAD,
    Replay((IS_OVER, Term("outcome", "in", (STEERING.name, STEERED.name)))),
    Source(ALREADY_STARTED),
    SESSION_OF_RECORD,
    Look("claim", ADMISSIONS, (OF_ITS_SESSION, *STARTED.terms, *MINE), checks=(Check(Not(NOTHING), IDLE),)),
    Write(ALREADY_STARTED),
    edges=edges(QUEUED, STEERING, writes=BINDS),
)
DELIVER: Final = Trigger(
    "deliver",
    "the claim that it steered to has ended, and says whether it was delivered",
    Load(DECLINE),
    Source(DECLINE),
    Fence(CLAIM, DECLINE),
    Write(DECLINE),
    edges=(
        choice(Arg("ending"), STEERING, (STEERED, INTERRUPTED)),
        choice(Arg("ending"), STEERING, (QUEUED,), REQUEUES),
    ),
)
LEAVE_OUT: Final = Trigger(
    "leave_out",
    "the claim that it steered to has ended without a word about it: it may have been delivered",
    kind="sweep",
    over=(OF_SESSION, *CLAIM),
    edges=edges(STEERING, INTERRUPTED),
)
REVERT: Final = Trigger(
    "revert",
    "its text never reached the running claim",
    EPOCH,
    Load(DECLINE),
    Source(DECLINE),
    Fence(MINE, DECLINE),
    SESSION_OF_RECORD,
    Write(DECLINE),
    edges=edges(STEERING, QUEUED, writes=REQUEUES),
)
REPLACE: Final = Trigger(
    "replace",
    "its successor is being admitted in the same transaction",
    LOAD,
    Source(ALREADY_STARTED),
    SESSION_OF_RECORD,
    Write(ALREADY_STARTED),
    Do("bind_replacement", "the successor's identity is bound to what it replaced"),
    edges=edges(QUEUED, CANCELLED),
)
REHOME: Final = Trigger(
    "rehome",
    "the conversation goes on in another session, and its queue with it",
    EPOCH,
    Load(NOT_FOUND),
    Source(ALREADY_STARTED),
    SESSION_OF_RECORD,
    Authority("new_session", SESSIONS, {"id": Arg("new_session_id")}, NOT_FOUND),
    NONE_UNKNOWN_THERE,
    Look(
        "taken",
        ADMISSIONS,
        (
            *(Term(name, "=", Of("record", name)) for name in ("principal_id", "request_id")),
            Term("target_session_id", "=", Arg("new_session_id")),
        ),
        checks=(Check(NOTHING, CONFLICT),),
    ),
    Write(ALREADY_STARTED),
    edges=edges(
        QUEUED,
        QUEUED,
        writes={
            "target_session_id": Arg("new_session_id"),
            "lineage_json": Arg("lineage_json"),
            "payload_digest": Arg("payload_digest"),
        },
    ),
)
RETARGET: Final = Trigger(
    "retarget",
    "a local automation names a transcript that was reset",
    EPOCH,
    Load(NOT_FOUND),
    Source(ALREADY_STARTED),
    SESSION_OF_RECORD,
    NONE_UNKNOWN_THERE,
    Write(ALREADY_STARTED),
    edges=edges(
        QUEUED,
        QUEUED,
        writes={"payload_json": Arg("payload_json"), "payload_digest": Arg("payload_digest")},
    ),
)
LOSE: Final = Trigger(
    "lose",
    "a new owner recovers what an older one left; its workers were lost first",
    EPOCH,
    kind="sweep",
    over=Term("owner_epoch", "!=", Arg("epoch")),
    edges=(Edge(STEERING, INTERRUPTED), Edge(STARTED, UNKNOWN)),
)
READOPT: Final = Trigger(
    "readopt",
    "its worker has proven itself to the present owner",
    Load(NOT_FOUND),
    Fence(CLAIM, STALE_GENERATION),
    Source(STALE_GENERATION),
    Write(STALE_GENERATION),
    edges=edges((STARTED, UNKNOWN), STARTED, writes={"owner_epoch": Arg("epoch")}),
)
REBIND: Final = Trigger(
    "rebind",
    "the claim that it steers to was readopted",
    kind="sweep",
    over=(OF_SESSION, *CLAIM),
    edges=edges(STEERING, STEERING, writes={"owner_epoch": Arg("epoch")}),
)
RESOLVE: Final = Trigger(
    "resolve",
    "a person acknowledges that its end is not known, or its owner has captured how it ended",
    EPOCH,
    LOAD,
    STORED_RESULT,
    Replay(
        (
            IS_OVER,
            *given("generation"),
            Not(Term("outcome", "!=", INTERRUPTED.name), Term(Of("result", "value", nullable=True), "is null")),
        )
    ),
    SESSION_OF_RECORD,
    Fence(given("generation"), STALE_GENERATION),
    Source(STALE_GENERATION),
    Do("store_captured", "what the owner of this very epoch captured before its settlement failed"),
    TERMINAL_WRITE,
    RETIRE_WORKERS,
    Write(STALE_GENERATION),
    Do(
        "interrupt_steering",
        "what steered here may have been delivered, and is interrupted",
        fires=(("session_admission", "leave_out"),),
    ),
    REVISE,
    edges=(
        *(Edge(UNKNOWN, state, (Term(CAPTURED, "=", state.name), COUNTS)) for state in (COMPLETED, FAILED)),
        Edge(UNKNOWN, INTERRUPTED, Not(Term(CAPTURED, "in", (COMPLETED.name, FAILED.name)), COUNTS)),
    ),
)
DELETE: Final = Trigger(
    "delete",
    "its session is deleted",
    Load(NOT_FOUND),
    Source(STILL_OPEN),
    Do("leave_tombstone", "its identity and outcome are kept, without a word of its user"),
    Write(STILL_OPEN),
    edges=edges(FINAL, GONE),
)

SESSION_ADMISSION: Final = Lifecycle(
    "session_admission",
    "one input to a session, from its admission to its one outcome",
    ADMISSIONS,
    states=STATES,
    triggers=(
        ADMIT,
        CLAIM_HEAD,
        SETTLE,
        CANCEL,
        STEER,
        DELIVER,
        LEAVE_OUT,
        REVERT,
        REPLACE,
        REHOME,
        RETARGET,
        LOSE,
        READOPT,
        REBIND,
        RESOLVE,
        IMPORT,
        DELETE,
    ),
    key=("admission_id",),
    lock_order=RUNTIME_LOCK_ORDER,
)
