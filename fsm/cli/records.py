"""A record named on the command line, and its row as it is stored, damaged or not."""

from collections.abc import Mapping
from typing import Annotated

import typer
from attrs import frozen

from fsm.cli.options import named, runtime_text
from fsm.cli.refusal import CommandRefusedError
from fsm.lifecycle import Lifecycle, given
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles import DRIVER_TASK, HOSTED_ROOM
from fsm.machine.projection import UNDECLARED, Projection
from fsm.schema import GATEWAY_SCHEMA, RUNTIME_SCHEMA
from storage import Database, Row, Schema, Table, Transaction, Value

__all__ = ["UNDECLARED", "RoomTask", "StoredRecord", "key_of", "read_record", "require_room", "schema_of", "stored_row"]

SEPARATOR = "/"
"""Stands between the parts of a key; no identifier holds it."""


def key_of(lifecycle: Lifecycle, record: str) -> dict[str, str]:
    """Return the key that a record's name says, one part for each of the lifecycle's key columns."""
    if schema_of(lifecycle) is RUNTIME_SCHEMA:
        (column,) = lifecycle.key
        return {column: runtime_text(record)}
    parts = record.split(SEPARATOR)
    shape = SEPARATOR.join(column.removesuffix("_id").upper() for column in lifecycle.key)
    if len(parts) != len(lifecycle.key):
        raise typer.BadParameter(f"a record of {lifecycle.name} is named {shape}")
    return {column: str(named(part)) for column, part in zip(lifecycle.key, parts, strict=True)}


def schema_of(lifecycle: Lifecycle) -> Schema:
    """Return the schema in which the lifecycle's table stands."""
    runtime = {table.name for table in RUNTIME_SCHEMA.tables}
    return RUNTIME_SCHEMA if lifecycle.table.name in runtime else GATEWAY_SCHEMA


def _task_record(value: str) -> str:
    return SEPARATOR.join(key_of(DRIVER_TASK, value).values())


RoomTask = Annotated[
    str, typer.Argument(metavar="ROOM/TASK", callback=_task_record, help="The room and the task, parted by a slash.")
]


@frozen
class StoredRecord:
    """A record as one snapshot shows it, and the state that it is in at `now`, in seconds."""

    row: Row | None
    state: str
    now: float


def read_record(db: Database, lifecycle: Lifecycle, key: Mapping[str, Value]) -> StoredRecord:
    """Return a record of any of the gateway's lifecycles; `row` is None where it has none."""
    db.require(schema_of(lifecycle))
    now = db.clock()

    def body(tx: Transaction) -> StoredRecord:
        row = stored_row(tx, lifecycle.table, key)
        joined = stored_row(tx, lifecycle.joined, key) if lifecycle.joined else None
        return StoredRecord(row, Projection(lifecycle).state_of(row, joined, {"now": now}), now)

    return db.read(body)


def stored_row(tx: Transaction, table: Table, key: Mapping[str, Value]) -> Row | None:
    """Return the row that a table has under this key, or None."""
    rows = tx.execute(f"SELECT * FROM {quoted(table.name)} WHERE {sql(given(*key))}", key)
    return rows[0] if rows else None


def require_room(db: Database, room_id: str) -> Row:
    """Return the room's row; an answer about what a room lacks must not hide a misspelt room."""
    found = read_record(db, HOSTED_ROOM, {"room_id": room_id})
    if found.row is None:
        raise CommandRefusedError(f"no room {room_id}: it is {found.state}")
    return found.row
