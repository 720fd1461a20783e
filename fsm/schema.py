"""The gateway's schemas: the declared tables, with a CHECK on each state column derived from its declaration.

Older shapes that a gateway may have left are part of them: what its tables may lack, and what is then filled in.
"""

from typing import Final

from attrs import evolve

from fsm.lifecycle import Lifecycle
from fsm.lifecycle.terms import sql
from fsm.lifecycles import (
    DRIVER_LEASE,
    DRIVER_TASK,
    HOSTED_ROOM,
    PEER_RESERVATION,
    SESSION_ADMISSION,
    SESSION_TURN_LEASE,
    WORKER_EXECUTION,
)
from fsm.lifecycles.hosted_room import DISBANDED
from fsm.lifecycles.runtime_tables import MESSAGES, META, MODEL_USAGE, RECEIPTS, RUNTIME_EPOCH, SESSIONS
from fsm.lifecycles.tables import EVENTS, LINKS, REMOTE_RUNS, RETIRED, REVOKED_GRANTS, ROOMS, TOTALS
from storage import Backfill, Schema, Table

__all__ = ["GATEWAY_SCHEMA", "RUNTIME_SCHEMA", "table_of"]


def table_of(lifecycle: Lifecycle) -> Table:
    """Return the lifecycle's table with a CHECK on each column that stores its states."""
    stored = lifecycle.stored_values()
    columns = (evolve(column, one_of=stored.get(column.name, column.one_of)) for column in lifecycle.table.columns)
    return evolve(lifecycle.table, columns=tuple(columns))


COUNT_EVENT_BYTES: Final = Backfill(
    f"""
    UPDATE {ROOMS.name} SET event_bytes = COALESCE((
        SELECT SUM(octet_length(event_id) + octet_length(kind) + octet_length(actor_json) + octet_length(payload_json))
        FROM {EVENTS.name} WHERE {EVENTS.name}.room_id = {ROOMS.name}.room_id
    ), 0)
    """,
    after=(ROOMS.name, "event_bytes"),
)
RETIRE_DISBANDED: Final = Backfill(
    f"""
    INSERT INTO {RETIRED.name} (room_id, retired_at)
    SELECT room_id, disbanded_at FROM {ROOMS.name} WHERE {sql(DISBANDED.terms)} ON CONFLICT DO NOTHING
    """
)
"""Once an id was known to be taken by its disbanded room alone, which pruning would make it forget."""

GATEWAY_SCHEMA: Final = Schema(
    "gateway",
    (
        table_of(HOSTED_ROOM),
        TOTALS,
        EVENTS,
        RETIRED,
        LINKS,
        REVOKED_GRANTS,
        table_of(PEER_RESERVATION),
        REMOTE_RUNS,
        table_of(DRIVER_LEASE),
        table_of(DRIVER_TASK),
    ),
    backfills=(COUNT_EVENT_BYTES, RETIRE_DISBANDED),
)
"""Rooms, and who drives them."""
RUNTIME_SCHEMA: Final = Schema(
    "runtime",
    (
        RUNTIME_EPOCH,
        META,
        SESSIONS,
        MESSAGES,
        table_of(SESSION_ADMISSION),
        table_of(WORKER_EXECUTION),
        RECEIPTS,
        table_of(SESSION_TURN_LEASE),
        MODEL_USAGE,
    ),
)
"""Sessions, what is asked of them, and who works on it."""
