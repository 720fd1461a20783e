"""What the demo claims, each proven from the database."""

from itertools import pairwise

from fsm.cli.refusal import CommandRefusedError
from fsm.demo.chronicle import Chronicle
from fsm.driver import TaskIdentity, TaskView, list_tasks
from fsm.lifecycles import DRIVER_TASK
from fsm.lifecycles.driver_task import INDETERMINATE, QUEUED, SETTLE, SETTLED
from storage import Database

__all__ = ["held_back", "kept_order", "prove_outcome"]


def _prove(claim: str, holds: object) -> None:
    if not holds:
        raise CommandRefusedError(f"this does not hold: {claim}")


def held_back(db: Database, room_id: str, lost: TaskIdentity) -> None:
    """Prove that nothing after the lost task runs or has run."""
    tasks = list_tasks(db, room_id=room_id)
    position = [task["identity"] for task in tasks].index(lost)
    _prove("the task of the killed driver is uncertain", tasks[position]["status"] == INDETERMINATE.name)
    _prove("nothing behind the uncertain task has started", all(map(_never_began, tasks[position + 1 :])))


def _never_began(task: TaskView) -> bool:
    return task["status"] == QUEUED.name and task["execution_generation"] == 0


def prove_outcome(db: Database, room_id: str, lost: TaskIdentity, chronicle: Chronicle) -> list[TaskView]:
    """Prove that every task was settled exactly once, and that only the lost one was run again; return the tasks."""
    tasks = list_tasks(db, room_id=room_id)
    settlements = {task["settlement_id"] for task in tasks if task["settlement_id"] is not None}
    _prove("every task is settled", all(task["status"] == SETTLED.name for task in tasks))
    _prove("every task has a settlement of its own", len(settlements) == len(tasks))
    _prove("every task was settled exactly once", _settled(chronicle) == sorted(_ids(tasks)))
    for task in tasks:
        runs = 2 if task["identity"] == lost else 1
        _prove(f"task {task['identity'].task_id} began {runs} time(s)", task["execution_generation"] == runs)
    _prove("the tasks ended in their order", kept_order(tasks))
    return tasks


def kept_order(tasks: list[TaskView]) -> bool:
    """Say whether each task ended before the next one's last run began."""
    return all((earlier["terminal_at"] or 0) <= (later["started_at"] or 0) for earlier, later in pairwise(tasks))


def _ids(tasks: list[TaskView]) -> list[str]:
    return [task["identity"].task_id for task in tasks]


def _settled(chronicle: Chronicle) -> list[str]:
    return sorted(str(told.task_id) for told in chronicle.told() if told.is_step(DRIVER_TASK.name, SETTLE.name))
