"""The gateway's tables, as an existing `state.db` has them; the CHECK of a state column is derived, not said here."""

from typing import Final

from storage import Column, ForeignKey, Index, Table, Total

__all__ = [
    "EVENTS",
    "EVENT_BYTES",
    "LEASES",
    "LIVE_ROOMS",
    "PUBLICATIONS",
    "RETIRED",
    "ROOMS",
    "TASKS",
    "TASK_ORDER",
    "TOTALS",
]


def _text(name: str, *, nullable: bool = False) -> Column:
    return Column(name, "TEXT", nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column:
    return Column(name, "REAL", nullable=nullable)


def _count(name: str, *, minimum: int, default: int | None = None) -> Column:
    return Column(name, "INTEGER", minimum=minimum, default=default)


_OF_A_ROOM: Final = (ForeignKey(("room_id",), "hosted_rooms", ("room_id",)),)

TOTALS: Final = Table(
    "hosted_room_totals",
    (_text("name"), Column("total", "INTEGER")),
    primary_key=("name",),
)
"""Sums over all rooms, a row each. Where rows are locked one by one, such a row is locked after the room's own."""

EVENT_BYTES: Final = Total("event_bytes", TOTALS, column="event_bytes")
"""The UTF-8 bytes of all events that the gateway keeps: an append must not scan every room for them."""

LIVE_ROOMS: Final = Total("live_rooms", TOTALS, while_null="disbanded_at")
"""How many rooms are live: two gateways that create rooms at once must not both count the one below the limit."""

ROOMS: Final = Table(
    "hosted_rooms",
    (
        _text("room_id"),
        _text("name"),
        _text("members_json"),
        _text("authority_gateway_id"),
        _count("authority_epoch", minimum=1, default=1),
        _count("next_seq", minimum=1, default=1),
        _count("event_bytes", minimum=0, default=0),
        _count("revision", minimum=1, default=1),
        _time("created_at"),
        _time("updated_at"),
        _time("disbanded_at", nullable=True),
    ),
    primary_key=("room_id",),
    totals=(EVENT_BYTES, LIVE_ROOMS),
)

RETIRED: Final = Table(
    "hosted_room_retired_ids",
    (_text("room_id"), _time("retired_at")),
    primary_key=("room_id",),
)

EVENTS: Final = Table(
    "hosted_room_events",
    (
        _text("room_id"),
        _count("seq", minimum=1),
        _text("event_id"),
        _text("kind"),
        _text("actor_json"),
        Column("authority_epoch", "INTEGER", nullable=True, minimum=1),
        _text("payload_json"),
        _time("created_at"),
    ),
    primary_key=("room_id", "seq"),
    unique=(("room_id", "event_id"),),
    foreign_keys=_OF_A_ROOM,
    indexes=(Index("idx_hosted_room_events_cursor", ("room_id", "seq")),),
)

LEASES: Final = Table(
    "hosted_room_driver_leases",
    (
        _text("room_id"),
        _text("gateway_id"),
        _count("authority_epoch", minimum=1),
        _text("process_generation"),
        _count("lease_generation", minimum=1),
        _time("expires_at"),
        _time("acquired_at"),
        _time("updated_at"),
        _time("released_at", nullable=True),
    ),
    primary_key=("room_id",),
    foreign_keys=_OF_A_ROOM,
    exact=True,
)

TASK_ORDER: Final = ("source_event_seq", "created_at", "task_id")
"""The order in which a room's tasks run: by the event that asked for them, never by their ids alone."""

TASKS: Final = Table(
    "hosted_room_driver_tasks",
    (
        _text("room_id"),
        _text("task_id"),
        _text("thread_id"),
        _text("turn_id"),
        _count("source_event_seq", minimum=1),
        _text("payload_json"),
        _text("payload_digest"),
        _text("status"),
        _count("execution_generation", minimum=0, default=0),
        _count("cancel_generation", minimum=0, default=0),
        _text("run_gateway_id", nullable=True),
        _text("run_process_generation", nullable=True),
        Column("run_lease_generation", "INTEGER", nullable=True),
        _text("cancel_id", nullable=True),
        _text("settlement_id", nullable=True),
        _text("settlement_status", nullable=True),
        _text("result_json", nullable=True),
        _time("created_at"),
        _time("updated_at"),
        _time("started_at", nullable=True),
        _time("terminal_at", nullable=True),
        _time("indeterminate_at", nullable=True),
    ),
    primary_key=("room_id", "task_id"),
    unique=(("room_id", "thread_id", "turn_id"),),
    foreign_keys=_OF_A_ROOM,
    indexes=(Index("idx_hosted_room_driver_tasks_status", ("room_id", "status", *TASK_ORDER)),),
    exact=True,
)

PUBLICATIONS: Final = Table(
    "hosted_room_policy_publications",
    (_text("room_id"), _text("task_id"), _text("kind")),
    primary_key=("room_id", "task_id", "kind"),
)
"""The gateway's own record of what it has published; only read here, and only where it exists."""
