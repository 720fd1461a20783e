"""A database as an older gateway left it, written out by hand: what it holds must not follow the declarations."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from fsm.driver.parse import parse_payload
from tests.world import START, payload

__all__ = ["INSERT", "REFERENCE", "STATES", "make_older", "row"]

STATES: Final = ("queued", "running", "settled", "failed", "cancelled", "indeterminate")
REFERENCE: Final = ", foreign key (room_id) references hosted_rooms(room_id)"
ROOMS: Final = """
    create table hosted_rooms (
        room_id text primary key, name text not null, members_json text not null, authority_gateway_id text not null,
        authority_epoch integer not null default 1 check (authority_epoch >= 1),
        next_seq integer not null default 1 check (next_seq >= 1),
        event_bytes integer not null default 0 check (event_bytes >= 0),
        revision integer not null default 1 check (revision >= 1),
        created_at real not null, updated_at real not null, disbanded_at real)
"""
TASKS: Final = """
    create table hosted_room_driver_tasks (
        room_id text not null, task_id text not null, thread_id text not null, turn_id text not null,
        source_event_seq integer not null check (source_event_seq >= 1), payload_json text not null,
        payload_digest text not null, status text not null check (status in ({states})),
        execution_generation integer not null default 0 check (execution_generation >= 0),
        cancel_generation integer not null default 0 check (cancel_generation >= 0),
        run_gateway_id text, run_process_generation text, run_lease_generation integer, cancel_id text,
        settlement_id text, settlement_status text, result_json text, created_at real not null,
        updated_at real not null, started_at real, terminal_at real, indeterminate_at real{more},
        primary key (room_id, task_id), unique (room_id, thread_id, turn_id){reference})
"""
INDEX: Final = """
    create index idx_hosted_room_driver_tasks_status
        on hosted_room_driver_tasks(room_id, status, source_event_seq, created_at, task_id)
"""
INSERT: Final = """
    insert into hosted_room_driver_tasks
        (room_id, task_id, thread_id, turn_id, source_event_seq, payload_json, payload_digest, status,
         result_json, created_at, updated_at)
    values ('room', :name, 'thread', 'turn-' || :name, :number, :payload_json, :payload_digest, :status,
            :result_json, :at, :at)
"""


def make_older(
    path: Path,
    *,
    tasks: int,
    states: tuple[str, ...] = STATES,
    more: str = "",
    reference: str = REFERENCE,
    indexed: bool = False,
) -> None:
    """Make the database with one room, whose tasks are in each of the states by turns."""
    listed = ", ".join(f"'{state}'" for state in states)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(ROOMS)
        connection.execute(TASKS.format(states=listed, more=more, reference=reference))
        if indexed:
            connection.execute(INDEX)
        connection.execute("insert into hosted_rooms values ('room', 'Room', '[]', 'gw', 1, 1, 0, 1, 1.5, 1.5, null)")
        connection.executemany(
            INSERT, (row(f"t{number}", number, states[number % len(states)]) for number in range(1, tasks + 1))
        )


def row(name: str, number: int, status: str) -> dict[str, Any]:
    """Return what is inserted of a task."""
    _, payload_json, digest = parse_payload(payload(number))
    content = {"payload_json": payload_json, "payload_digest": digest, "result_json": '{"n":1}'}
    return {"name": name, "number": number, "status": status, "at": START + number / 8, **content}
