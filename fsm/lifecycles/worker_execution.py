"""worker_execution: one worker process of a session, from its registration to its end."""

from typing import Final, Literal

from fsm.lifecycle import (
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
    Secret,
    Source,
    State,
    Term,
    Trigger,
    Write,
    edges,
    given,
    stored,
)
from fsm.lifecycles.runtime_tables import EXECUTIONS, META, RECEIPTS, RUNTIME_LOCK_ORDER, SESSIONS
from fsm.lifecycles.session_authorities import (
    CONFLICT,
    CURRENT_SESSION,
    DENIED,
    EPOCH,
    NOT_FOUND,
    STALE_EPOCH,
    STALE_GENERATION,
    because,
)
from fsm.lifecycles.session_turn_lease import ACQUIRE, RELEASE, RENEW, SESSION_TURN_LEASE

__all__ = ["KINDS", "RETIRED_RECEIPT", "WORKER_EXECUTION", "WorkerExecutionState"]

WorkerExecutionState = Literal["registered", "running", "unknown", "terminal"]

CHILD: Final = "child"
"""The kind that does not outlive its owner."""
KINDS: Final = ("cron", CHILD, "compute", "kanban")
"""What a worker may be."""
RETIRED_RECEIPT: Final = '{"retired":true}'
"""What is left of a read copy once its execution has ended."""
RETIRED_RECEIPTS: Final = (RETIRED_RECEIPT, '{"retired": true}')
"""The same as gateways spell it that wrote their receipts themselves."""

# --- refusals

OUT_OF_SEQUENCE: Final = because(
    "invalid_params", "number an execution's operations from 1 on, each one higher than the last", field="sequence"
)

OTHER_OPERATION: Final = because(
    "admission_conflict", "this number has another operation; retry exactly, or go on with the next", field="sequence"
)

# --- states

REGISTERED: Final = stored("status", "registered", "announced to the owner, which has not heard from it yet")
RUNNING: Final = stored("status", "running", "at work for the owner that the row names")
UNKNOWN: Final = stored("status", "unknown", "its owner is gone, and it has not proven itself to the next one")
TERMINAL: Final = stored("status", "terminal", "it has ended, or nobody waits for it any longer", final=True)

STATES: Final = (REGISTERED, RUNNING, UNKNOWN, TERMINAL)
"""In the order of an execution's life."""
LIVE: Final = (REGISTERED, RUNNING, UNKNOWN)

# --- terms and steps

IS_CHILD: Final = Term("kind", "=", CHILD)
SAME_DIGEST: Final = given("payload_digest")
IS_RETRY: Final = Term(Of("receipt", "payload_digest", nullable=True), "=", Arg("payload_digest"))
OF_SESSION: Final = Fence(given("session_id"), DENIED)
OF_GENERATION: Final = Fence(given("generation"), STALE_GENERATION)
WITHIN_ITS_EPOCH: Final = Fence(
    Not(Term(Arg("reserved"), "=", 1), Term("owner_epoch", "!=", Arg("epoch"))), STALE_EPOCH
)
"""An execution that an admission reserved reports through its owner's pipes and dies with them."""
CURRENT_SESSION_UNLESS_RETRIED: Final = Authority(
    "session",
    SESSIONS,
    {"id": Arg("session_id")},
    NOT_FOUND,
    (Check(Not(Term("runtime_generation", "!=", Arg("generation")), Not(IS_RETRY)), STALE_GENERATION),),
)
"""Only what is new needs the session's current generation: a stored receipt answers for the execution's own."""
NOT_RETIRED: Final = Fence(
    Not(
        IS_RETRY,
        Term(Of("receipt", "result_json", nullable=True), "in", RETIRED_RECEIPTS),
        Term(Of("record", "status"), "=", TERMINAL.name),
    ),
    STALE_GENERATION,
)
"""What an execution had only read is not answered again once it has ended."""

COMPACT: Final = Do("compact_receipts", "what the execution had only read shrinks to a mark that it was read")
OPERATION: Final = (
    EPOCH,
    Load(NOT_FOUND),
    OF_SESSION,
    OF_GENERATION,
    Look("receipt", RECEIPTS, given("execution_id", "sequence")),
    CURRENT_SESSION_UNLESS_RETRIED,
    Fence(Term("owner_epoch", "=", Arg("epoch")), STALE_EPOCH),
    NOT_RETIRED,
    Replay(SAME_DIGEST, conflict=(), refuse=OTHER_OPERATION, on="receipt"),
    Source(STALE_GENERATION),
    Fence(Term("last_sequence", "=", Arg("previous_sequence")), OUT_OF_SEQUENCE),
    Do(
        "run_operation",
        "the operation's own effect, in this transaction; it answers a JSON object",
        fires=tuple((SESSION_TURN_LEASE.name, trigger.name) for trigger in (ACQUIRE, RENEW, RELEASE)),
    ),
    Do("store_receipt", "the answer is kept under its sequence number, for the exact retry"),
    Write(STALE_GENERATION),
    Do("revise_session", "the session's revision + 1, where the operation wrote or the execution ends"),
)


def _operation(dest: State) -> tuple[Edge, ...]:
    return edges((REGISTERED, RUNNING), dest, writes={"last_sequence": Arg("sequence")})


# --- triggers

REGISTER: Final = Trigger(
    "register",
    "an owner is about to start a worker",
    EPOCH,
    CURRENT_SESSION,
    Load(),
    Replay(
        (*given("session_id", "generation", "kind", "adoption_digest"), Term("owner_epoch", "=", Arg("epoch"))),
        conflict=(),
        refuse=CONFLICT,
    ),
    Look(
        "tombstone", META, Term("key", "=", Arg("tombstone_key")), checks=(Check(Term("value", "is null"), CONFLICT),)
    ),
    Do(
        "require_free_lineage",
        "nothing is at work or unknown in the session's lineage, nor queued where asked",
        reads_only=True,
    ),
    Write(CONFLICT),
    edges=edges(
        NEW,
        REGISTERED,
        writes={
            **{name: Arg(name) for name in ("session_id", "generation", "kind", "adoption_digest")},
            "owner_epoch": Arg("epoch"),
        },
    ),
)
ADOPT: Final = Trigger(
    "adopt",
    "a worker proves itself to the present owner",
    EPOCH,
    Load(NOT_FOUND),
    OF_SESSION,
    OF_GENERATION,
    CURRENT_SESSION,
    Source(STALE_GENERATION),
    Secret("adoption_digest", Arg("adoption_digest"), DENIED),
    WITHIN_ITS_EPOCH,
    Do(
        "readopt_admission",
        "the one admission under this claim goes on under the new owner, and what steers to it goes along",
        fires=(("session_admission", "readopt"), ("session_admission", "rebind")),
    ),
    Write(STALE_GENERATION),
    edges=edges(LIVE, RUNNING, writes={"owner_epoch": Arg("epoch")}),
)
APPLY: Final = Trigger("apply", "a worker reports its next operation", *OPERATION, edges=_operation(RUNNING))
FINISH: Final = Trigger("finish", "a worker reports that it is done", *OPERATION, COMPACT, edges=_operation(TERMINAL))
LOSE: Final = Trigger(
    "lose",
    "a new owner recovers what an older one left; a child does not outlive its parent's owner",
    EPOCH,
    kind="sweep",
    over=Term("owner_epoch", "!=", Arg("epoch")),
    edges=(
        edges(LIVE, TERMINAL, IS_CHILD),
        edges((REGISTERED, RUNNING), UNKNOWN, Not(IS_CHILD)),
    ),
)
RETIRE: Final = Trigger(
    "retire",
    "its admission was settled or resolved",
    Load(NOT_FOUND),
    Source(STALE_GENERATION),
    COMPACT,
    Write(STALE_GENERATION),
    edges=edges(LIVE, TERMINAL),
)
DISCARD: Final = Trigger(
    "discard",
    "its session is reset by hand, and no admission had reserved it",
    Load(NOT_FOUND),
    Source(STALE_GENERATION),
    COMPACT,
    Write(STALE_GENERATION),
    edges=edges(UNKNOWN, TERMINAL),
)
DELETE: Final = Trigger(
    "delete",
    "its session is deleted",
    Load(NOT_FOUND),
    Source(STALE_GENERATION),
    Do("leave_tombstone", "its receipts go; that it existed is kept, so that its id is never registered again"),
    Write(STALE_GENERATION),
    edges=edges(TERMINAL, GONE),
)

WORKER_EXECUTION: Final = Lifecycle(
    "worker_execution",
    "one worker process of a session, from its registration to its end",
    EXECUTIONS,
    states=STATES,
    triggers=(REGISTER, ADOPT, APPLY, FINISH, LOSE, RETIRE, DISCARD, DELETE),
    lock_order=RUNTIME_LOCK_ORDER,
)
