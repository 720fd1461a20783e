"""worker_execution: one worker process of a session, from its registration to its end."""

from typing import Final, Literal

from fsm.lifecycle import (
    GONE,
    NEW,
    Arg,
    Check,
    Do,
    Edge,
    Fence,
    Lifecycle,
    Load,
    Look,
    Not,
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
from fsm.lifecycles.runtime_tables import EXECUTIONS, META, RECEIPTS, RUNTIME_LOCK_ORDER
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

__all__ = ["RETIRED_RECEIPT", "WORKER_EXECUTION", "WorkerExecutionState"]

WorkerExecutionState = Literal["registered", "running", "unknown", "terminal"]

RETIRED_RECEIPT: Final = '{"retired":true}'
"""What is left of a read copy once its execution has ended."""

# --- refusals

OUT_OF_SEQUENCE: Final = because(
    "invalid_params", "number an execution's operations from 1 on, each one higher than the last", field="sequence"
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

IS_CHILD: Final = Term("kind", "=", "child")
SAME_DIGEST: Final = given("payload_digest")
OF_SESSION: Final = Fence(given("session_id"), DENIED)
OF_GENERATION: Final = Fence(given("generation"), STALE_GENERATION)
WITHIN_ITS_EPOCH: Final = Fence(
    Not(Term(Arg("reserved"), "=", 1), Term("owner_epoch", "!=", Arg("epoch"))), STALE_EPOCH
)
"""An execution that an admission reserved reports through its owner's pipes and dies with them."""

COMPACT: Final = Do("compact_receipts", "what the execution had only read shrinks to a mark that it was read")
OPERATION: Final = (
    EPOCH,
    Load(NOT_FOUND),
    OF_SESSION,
    OF_GENERATION,
    Fence(Term("owner_epoch", "=", Arg("epoch")), STALE_EPOCH),
    Look(
        "receipt",
        RECEIPTS,
        given("execution_id", "sequence"),
        checks=(Check(Not(SAME_DIGEST, Term("result_json", "=", RETIRED_RECEIPT)), STALE_GENERATION),),
    ),
    Replay(SAME_DIGEST, conflict=(), refuse=CONFLICT, on="receipt"),
    CURRENT_SESSION,
    Source(STALE_GENERATION),
    Fence(Term("last_sequence", "=", Arg("previous_sequence")), OUT_OF_SEQUENCE),
    Do("run_handler", "the operation's own effect, in this transaction; it answers a JSON object"),
    Do("store_receipt", "the answer is kept under its sequence number, for the exact retry"),
    Write(STALE_GENERATION),
    Do("revise_session", "the session's revision + 1, where the handler wrote or the execution ends"),
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
