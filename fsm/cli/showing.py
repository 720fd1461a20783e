"""`fsm task`: one task whole, with what was asked and what was answered."""

import json
from collections.abc import Iterator

from fsm.cli.facts import say_facts, say_stored, shown_instant
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, require_existing
from fsm.cli.reading import find_task
from fsm.cli.records import RoomTask, key_of
from fsm.driver import TaskView
from fsm.jsonable import to_json
from fsm.lifecycles import DRIVER_TASK

__all__ = ["content_of", "standing_of", "task"]


def task(location: Location, record: RoomTask, *, as_json: AsJson = False) -> None:
    """Show one task whole, its prompt and result too. Nothing is written; times are UTC."""
    require_existing(location)
    key = key_of(DRIVER_TASK, record)
    with opened(location, read_only=True) as db:
        found = find_task(db, key["room_id"], key["task_id"])
    if as_json:
        say_stored(found)
    else:
        say_facts((*standing_of(found), *content_of(found)))


def standing_of(task: TaskView) -> Iterator[tuple[str, object]]:
    """Yield where a task stands, without what it was asked and what it answered."""
    identity = task["identity"]
    yield "task", identity.task_id
    yield "room", identity.room_id
    yield "turn", f"{identity.turn_id} of thread {identity.thread_id}"
    yield "state", task["status"]
    yield "corrupt", task.get("corrupt")
    yield "generations", f"execution {task['execution_generation']}, cancel {task['cancel_generation']}"
    if task["run_process_generation"] is not None:
        process, gateway = task["run_process_generation"], task["run_gateway_id"]
        yield "run", f"process {process} of gateway {gateway}, lease generation {task['run_lease_generation']}"
    yield "cancel id", task["cancel_id"]
    if task["settlement_id"] is not None:
        yield "settlement", f"{task['settlement_status']} under {task['settlement_id']}"
    for label, instant in (
        ("created", task["created_at"]),
        ("changed", task["updated_at"]),
        ("begun", task["started_at"]),
        ("ended", task["terminal_at"]),
        ("uncertain since", task["indeterminate_at"]),
    ):
        yield label, shown_instant(instant)


def content_of(task: TaskView) -> Iterator[tuple[str, object]]:
    """Yield what a task was asked and what it answered: the operator's own data, for the operator's eyes."""
    payload = task["payload"]
    if payload is not None:
        yield "profile", payload["target_profile"]
        yield "member", payload.get("target_member_id")
        yield "event", payload["source_event_seq"]
        yield "prompt", payload["prompt"]
    if task["result"] is not None:
        yield "result", json.dumps(to_json(task["result"]), indent=2, sort_keys=True, ensure_ascii=False)
