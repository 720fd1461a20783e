"""The states of a session's admissions, what tells them apart, and the terms in which their triggers speak of them."""

from typing import Final, Literal

from fsm.lifecycle import Arg, Not, Of, State, Term, given, stored
from fsm.lifecycles.session_authorities import because

__all__ = ["FINAL", "STATES", "SessionAdmissionState"]

SessionAdmissionState = Literal[
    "queued",
    "started",
    "unknown",
    "steering",
    "completed",
    "interrupted",
    "rejected",
    "failed",
    "cancelled",
    "steered",
]

# --- refusals

FULL: Final = because("queue_full", "wait until the session has worked off some of its queue")
ALREADY_STARTED: Final = because(
    "admission_started", "it is no longer in the queue; read it and see what became of it", field="status"
)
IDLE: Final = because("session_idle", "nothing runs under this claim; leave the input in the queue")
STILL_OPEN: Final = because("session_busy", "settle, cancel or resolve it before its session is deleted")

# --- states

IS_OVER: Final = Term("status", "=", "terminal")
NO_OUTCOME: Final = Term("outcome", "is null")
OWNED: Final = tuple(Not(Term(column, "is null")) for column in ("owner_epoch", "generation"))


def _over(outcome: str, meaning: str, *, final: bool = True) -> State:
    return State(
        outcome, meaning, (IS_OVER, Term("outcome", "=", outcome)), final=final, requires=() if final else OWNED
    )


QUEUED: Final = stored(
    "status",
    "queued",
    "admitted, waiting for its turn on the session",
    requires=(NO_OUTCOME, Term("generation", "is null")),
)
STARTED: Final = stored(
    "status", "started", "claimed: an owner is at work on it under one generation", requires=(NO_OUTCOME, *OWNED)
)
UNKNOWN: Final = stored(
    "status",
    "unknown",
    "its owner is gone and nobody knows how far it came; a person or its worker resolves it",
    requires=(NO_OUTCOME, *OWNED),
)
STEERING: Final = _over("steering", "handed to the running claim, whose end decides what becomes of it", final=False)
COMPLETED: Final = _over("completed", "the turn ran to its end")
INTERRUPTED: Final = _over("interrupted", "it was cut off, or its end is not known for certain")
REJECTED: Final = _over("rejected", "its owner would not run it")
FAILED: Final = _over("failed", "the turn ended in an error")
CANCELLED: Final = _over("cancelled", "withdrawn, or replaced, before it began")
STEERED: Final = _over("steered", "another turn took it along and completed")

FINAL: Final = (COMPLETED, INTERRUPTED, REJECTED, FAILED, CANCELLED, STEERED)
SETTLED: Final = (COMPLETED, INTERRUPTED, REJECTED, FAILED)
OUTCOMES: Final = tuple(state.name for state in SETTLED)
"""How an owner may report that a turn ended."""
CAPTURED_OUTCOMES: Final = (COMPLETED.name, INTERRUPTED.name, FAILED.name)
"""How an owner may have captured that a turn ended, before its report failed."""
IMPORTED: Final = (QUEUED, UNKNOWN, *FINAL)
"""In which an older gateway's admission may be taken over; what it had started is unknown."""
STATES: Final = (QUEUED, STARTED, UNKNOWN, STEERING, *FINAL)
"""In the order of an admission's life."""

# --- terms

OF_SESSION: Final = Term("target_session_id", "=", Arg("session_id"))
OF_ITS_SESSION: Final = Term("target_session_id", "=", Of("record", "target_session_id"))
NOTHING: Final = Term("admission_id", "is null")
MINE: Final = (Term("owner_epoch", "=", Arg("epoch")), *given("generation"))
CLAIM: Final = given("owner_epoch", "generation")
SAME_HEAD: Final = Not(Term(Arg("any_head"), "=", 0), Term("admission_id", "!=", Arg("head", nullable=True)))
RESULT: Final = Term(Of("result", "value", nullable=True), "=", Arg("result_json", nullable=True))
CAPTURED: Final = Arg("captured_outcome", nullable=True)
COUNTS: Final = Term("owner_epoch", "=", Arg("epoch"))
