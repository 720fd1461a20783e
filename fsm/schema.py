"""The gateway's schemas: the declared tables, with a CHECK on each state column derived from its declaration."""

from typing import Final

from attrs import evolve

from fsm.lifecycle import Lifecycle
from fsm.lifecycles import (
    DRIVER_LEASE,
    DRIVER_TASK,
    HOSTED_ROOM,
    SESSION_ADMISSION,
    SESSION_TURN_LEASE,
    WORKER_EXECUTION,
)
from fsm.lifecycles.runtime_tables import MESSAGES, META, MODEL_USAGE, RECEIPTS, RUNTIME_EPOCH, SESSIONS
from fsm.lifecycles.tables import EVENTS, RETIRED
from storage import Schema, Table

__all__ = ["GATEWAY_SCHEMA", "RUNTIME_SCHEMA", "table_of"]


def table_of(lifecycle: Lifecycle) -> Table:
    """Return the lifecycle's table with a CHECK on each column that stores its states."""
    stored = lifecycle.stored_values()
    columns = (evolve(column, one_of=stored.get(column.name, column.one_of)) for column in lifecycle.table.columns)
    return evolve(lifecycle.table, columns=tuple(columns))


GATEWAY_SCHEMA: Final = Schema(
    "gateway",
    (table_of(HOSTED_ROOM), EVENTS, RETIRED, table_of(DRIVER_LEASE), table_of(DRIVER_TASK)),
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
