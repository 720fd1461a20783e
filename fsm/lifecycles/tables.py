"""The gateway's tables, as an existing `state.db` has them; the CHECK of a state column is derived, not said here."""

from typing import Final

from storage import Added, Column, ForeignKey, Index, Table, Total

__all__ = [
    "EVENTS",
    "EVENT_BYTES",
    "LEASES",
    "LINKS",
    "LIVE_ROOMS",
    "LOCK_ORDER",
    "PEER_RESERVATIONS",
    "PUBLICATIONS",
    "REMOTE_RUNS",
    "RETIRED",
    "REVOKED_GRANTS",
    "ROOMS",
    "TASKS",
    "TASK_ORDER",
    "TOTALS",
]


def _text(name: str, *, nullable: bool = False, added: Added | None = None) -> Column:
    return Column(name, "TEXT", nullable=nullable, added=added)


def _time(name: str, *, nullable: bool = False) -> Column:
    return Column(name, "REAL", nullable=nullable)


def _count(name: str, *, minimum: int, default: int | None = None, added: Added | None = None) -> Column:
    return Column(name, "INTEGER", minimum=minimum, default=default, added=added)


_LEGACY: Final = Added("legacy")
"""Who a row of an older gateway is of, which did not say so."""
_LEGACY_ACTOR: Final = Added('{"id":"legacy","kind":"system"}')
_FIRST_EPOCH: Final = Added(1)
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
        _text("authority_gateway_id", added=_LEGACY),
        _count("authority_epoch", minimum=1, default=1, added=_FIRST_EPOCH),
        _count("next_seq", minimum=1, default=1),
        _count("event_bytes", minimum=0, default=0, added=Added(0)),
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
        _text("actor_json", added=_LEGACY_ACTOR),
        Column("authority_epoch", "INTEGER", nullable=True, minimum=1, added=Added()),
        _text("payload_json"),
        _time("created_at"),
    ),
    primary_key=("room_id", "seq"),
    unique=(("room_id", "event_id"),),
    foreign_keys=_OF_A_ROOM,
    indexes=(Index("idx_hosted_room_events_cursor", ("room_id", "seq")),),
)

LINKS: Final = Table(
    "hosted_room_links",
    (
        _text("room_id"),
        _text("member_id"),
        _text("target_url"),
        _text("target_profile"),
        _text("grant"),
        _text("catalog_json"),
        _text("cancellation_scope_id"),
        _text("trace_id"),
        _text("transport_security"),
        Column("status", "TEXT", default="ready"),
        _time("updated_at"),
    ),
    primary_key=("room_id", "member_id"),
)

REVOKED_GRANTS: Final = Table(
    "hosted_room_revoked_grants",
    (_text("scope_key"), _time("expires_at"), _time("revoked_before")),
    primary_key=("scope_key",),
)

PEER_RESERVATIONS: Final = Table(
    "hosted_room_peer_reservations",
    (
        _text("room_id"),
        _text("member_id"),
        _text("target_profile"),
        _text("authority_gateway_id"),
        _count("authority_epoch", minimum=1),
        _time("expires_at"),
        _time("revoked_at", nullable=True),
        _time("created_at"),
        _time("updated_at"),
    ),
    primary_key=("room_id", "member_id", "target_profile"),
)

REMOTE_RUNS: Final = Table(
    "hosted_room_remote_runs",
    (
        _text("room_id"),
        _text("home_install_id", added=_LEGACY),
        _text("authority_gateway_id", added=_LEGACY),
        _count("authority_epoch", minimum=1, added=_FIRST_EPOCH),
        _text("member_id"),
        _text("task_id"),
        _count("execution_generation", minimum=1),
        _text("target_install_id"),
        _text("target_profile"),
        _text("run_id"),
        _text("session_id"),
        _time("created_at"),
        _time("updated_at"),
    ),
    primary_key=(
        "room_id",
        "home_install_id",
        "authority_gateway_id",
        "authority_epoch",
        "member_id",
        "target_install_id",
        "target_profile",
        "task_id",
        "execution_generation",
    ),
    rekeyed=True,
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

LOCK_ORDER: Final = (ROOMS, TOTALS, LEASES, TASKS)
"""The order in which a transaction locks rows, whatever it compares first: else two could wait for each other."""
