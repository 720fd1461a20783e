"""Reading tasks, and pruning those whose outcome the gateway has published. Rules: `fsm.lifecycles.driver_task`."""

import math

from fsm.calling import operation
from fsm.driver.machines import TASK_MACHINE
from fsm.driver.parse import Clock, Location, opened, opened_at, parse_identity, parse_status
from fsm.driver.values import TaskIdentity, name
from fsm.driver.views import TaskView, task_view, tolerant_view
from fsm.errors import DriverValidationError, TaskConflictError
from fsm.lifecycle import Arg, Term, among, given
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles import DRIVER_TASK
from fsm.lifecycles.driver_task import MISSING, OTHER_TURN, PUBLISHED
from fsm.lifecycles.limits import MAX_RETAINED_TERMINAL_TASKS, MAX_TASK_PRUNE_BATCH, TERMINAL_TASK_RETENTION_SECONDS
from fsm.lifecycles.tables import PUBLICATIONS, TASK_ORDER, TASKS
from storage import Transaction, Value
from storage.validate import integer, number

__all__ = ["get_task", "list_tasks", "prune_published_terminal_tasks"]


@operation(DriverValidationError)
def get_task(db: Location, identity: TaskIdentity) -> TaskView:
    """Return one task as stored.

    Raises DriverValidationError; TaskConflictError where it is missing, bound to another turn, or damaged.
    """
    task = parse_identity(identity)
    arguments = task.arguments()
    handle = opened(db)
    where = given(*DRIVER_TASK.key)
    rows = handle.read(lambda tx: TASK_MACHINE.select(tx, where, values=arguments))
    if not rows:
        raise TaskConflictError(f"no task has this room_id and task_id; {MISSING.remedy}")
    if any(rows[0][column] != arguments[column] for column in ("thread_id", "turn_id")):
        raise TaskConflictError(f"the task_id is bound to another turn; {OTHER_TURN.remedy}")
    return task_view(rows[0])


@operation(DriverValidationError)
def list_tasks(db: Location, *, room_id: object, status: object = None) -> list[TaskView]:
    """Return the room's tasks in the order in which they run, all or those in one state.

    A damaged task is listed with `corrupt`. Raises DriverValidationError.
    """
    arguments: dict[str, Value] = {"room_id": name(room_id, "room_id"), "status": parse_status(status)}
    of_status = () if status is None else given("status")
    handle = opened(db)
    rows = handle.read(
        lambda tx: TASK_MACHINE.select(tx, (*given("room_id"), *of_status), order=TASK_ORDER, values=arguments)
    )
    return [tolerant_view(row) for row in rows]


@operation(DriverValidationError)
def prune_published_terminal_tasks(
    db: Location,
    *,
    room_id: object,
    clock: Clock | None = None,
    retention_seconds: object = TERMINAL_TASK_RETENTION_SECONDS,
    retain: object = MAX_RETAINED_TERMINAL_TASKS,
) -> int:
    """Delete ended tasks whose outcome is published, oldest first, at most 1000 a call; return how many.

    Those older than `retention_seconds` go, and those beyond the newest `retain`. Without the gateway's table of
    publications nothing is known to be published, and 0 is returned. A lost call is made again. Raises
    DriverValidationError.
    """
    room = name(room_id, "room_id")
    label = "retention_seconds"
    retention = number(retention_seconds, label=label, error=DriverValidationError, positive=True)
    kept = integer(retain, label="retain", error=DriverValidationError, minimum=0)
    handle, now = opened_at(db, clock)
    arguments: dict[str, Value] = {"room_id": room, "retain": kept, "cutoff": _cutoff(now, retention)}
    return handle.write(lambda tx: _prune(tx, now, arguments))


def _cutoff(now: float, retention: float) -> float:
    cutoff = now - retention
    if not math.isfinite(cutoff):
        raise DriverValidationError(
            "retention_seconds must lead back to a finite instant; pass seconds such as 2592000"
        )
    return cutoff


def _prune(tx: Transaction, now: float, arguments: dict[str, Value]) -> int:
    if not tx.table_exists(PUBLICATIONS.name):
        return 0
    TASK_MACHINE.lock_root(tx, room_id=arguments["room_id"])
    tasks = tx.execute(_CANDIDATES, {**arguments, "batch": MAX_TASK_PRUNE_BATCH})
    for task in tasks:
        TASK_MACHINE.fire(tx, "prune", now=now, room_id=arguments["room_id"], task_id=task["task_id"])
    return len(tasks)


_ENDED_AND_PUBLISHED = f"""
    {sql((*given("room_id"), among(*DRIVER_TASK.final)))} AND EXISTS (
        SELECT 1 FROM {quoted(PUBLICATIONS.name)} AS published
        WHERE published.room_id = task.room_id AND published.task_id = task.task_id AND {sql((PUBLISHED,))})
"""
_CANDIDATES = f"""
    SELECT task_id FROM (
        SELECT task_id, terminal_at,
            ROW_NUMBER() OVER (ORDER BY terminal_at IS NULL, terminal_at DESC, task_id) AS position
        FROM {quoted(TASKS.name)} AS task WHERE {_ENDED_AND_PUBLISHED}) AS ended
    WHERE position > :retain OR {sql((Term("terminal_at", "<=", Arg("cutoff")),))}
    ORDER BY position DESC LIMIT :batch
"""
