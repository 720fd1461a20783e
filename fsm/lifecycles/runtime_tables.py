"""The tables of sessions and workers, as an existing `state.db` has them at least; CHECKs of states are derived."""

from typing import Final

from storage import Column, Index, Table

__all__ = [
    "ADMISSIONS",
    "COUNTERS",
    "EXECUTIONS",
    "MESSAGES",
    "META",
    "MODEL_USAGE",
    "RECEIPTS",
    "RUNTIME_EPOCH",
    "RUNTIME_LOCK_ORDER",
    "SESSIONS",
    "TURN_LEASES",
    "UNSET_SOURCES",
]


def _text(name: str, *, nullable: bool = False) -> Column:
    return Column(name, "TEXT", nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column:
    return Column(name, "REAL", nullable=nullable)


def _count(name: str, *, minimum: int = 0, default: int | None = None, nullable: bool = False) -> Column:
    return Column(name, "INTEGER", minimum=minimum, default=default, nullable=nullable)


TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
COSTS: Final = ("estimated_cost_usd", "actual_cost_usd")
COUNTERS: Final = (*TOKENS, "api_call_count", *COSTS)
"""What usage adds up: tokens and calls are integers, costs are dollars and unknown until the first is reported."""

_COUNTED: Final = (
    *(_count(name, default=0) for name in (*TOKENS, "api_call_count")),
    *(Column(name, "REAL", nullable=True, minimum=0) for name in COSTS),
)

RUNTIME_EPOCH: Final = Table(
    "runtime_epoch",
    (_count("singleton", minimum=1), _count("epoch", minimum=1), _text("instance_id")),
    primary_key=("singleton",),
)
"""One row: which owner of the gateway's state is the present one."""

META: Final = Table("state_meta", (_text("key"), _text("value")), primary_key=("key",))
"""Results, receipts, bindings and tombstones, told apart by the prefix of their keys."""

SESSIONS: Final = Table(
    "sessions",
    (
        _text("id"),
        _text("parent_session_id", nullable=True),
        _text("source"),
        _text("created_source", nullable=True),
        _text("chat_id", nullable=True),
        _text("title", nullable=True),
        _text("model", nullable=True),
        Column("archived", "INTEGER", default=0),
        _time("created_at"),
        _time("ended_at", nullable=True),
        _text("end_reason", nullable=True),
        _count("runtime_generation", default=0),
        _count("runtime_revision", default=0),
        *_COUNTED,
    ),
    primary_key=("id",),
    indexes=(Index("idx_sessions_lineage", ("parent_session_id", "id")),),
)

UNSET_SOURCES: Final = ("", "unknown")
"""What `created_source` may hold that says nothing; such a value, or none, may still be filled in."""

MESSAGES: Final = Table(
    "messages",
    (
        Column("id", "INTEGER"),
        _text("session_id"),
        _text("role"),
        _text("content", nullable=True),
        Column("extra_json", "TEXT", default="{}"),
        _time("timestamp"),
    ),
    primary_key=("id",),
    indexes=(Index("idx_messages_transcript", ("session_id", "id")),),
    autoincrement=True,
)

ADMISSIONS: Final = Table(
    "session_admissions",
    (
        Column("seq", "INTEGER"),
        _text("admission_id"),
        _text("request_id"),
        _text("principal_id"),
        _text("target_session_id"),
        _text("lineage_json"),
        _text("payload_json"),
        _text("payload_digest"),
        _text("intent"),
        _text("status"),
        _text("outcome", nullable=True),
        _count("owner_epoch", nullable=True),
        _count("generation", nullable=True),
        _time("retired_at", nullable=True),
    ),
    primary_key=("seq",),
    unique=(("admission_id",), ("principal_id", "target_session_id", "request_id")),
    indexes=(
        Index("idx_session_admissions_queue", ("target_session_id", "status", "seq")),
        # What steers to a claim is over as far as its status goes, and would be sought among all that ever ended.
        Index("idx_session_admissions_claim", ("target_session_id", "generation", "owner_epoch")),
    ),
    autoincrement=True,
)

EXECUTIONS: Final = Table(
    "worker_executions",
    (
        _text("execution_id"),
        _text("session_id"),
        _text("kind"),
        _count("owner_epoch"),
        _count("generation"),
        _text("status"),
        _text("adoption_digest"),
        _count("last_sequence", default=0),
    ),
    primary_key=("execution_id",),
    indexes=(Index("idx_worker_executions_session", ("session_id", "status")),),
)

RECEIPTS: Final = Table(
    "worker_receipts",
    (_text("execution_id"), _count("sequence", minimum=1), _text("payload_digest"), _text("result_json")),
    primary_key=("execution_id", "sequence"),
)

TURN_LEASES: Final = Table(
    "session_turn_leases",
    (_text("conversation_id"), _text("holder"), _time("acquired_at"), _time("expires_at")),
    primary_key=("conversation_id",),
)

MODEL_USAGE: Final = Table(
    "session_model_usage",
    (_text("session_id"), _text("task"), _text("model"), *_COUNTED),
    primary_key=("session_id", "task", "model"),
)
"""What auxiliary calls used, by session, task and model; an unnamed model is the empty text."""

RUNTIME_LOCK_ORDER: Final = (RUNTIME_EPOCH, SESSIONS, ADMISSIONS, EXECUTIONS, TURN_LEASES)
"""The order in which a transaction locks rows of the runtime: from the epoch, which all share, down to the record."""
