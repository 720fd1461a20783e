"""Reading tasks as they are stored, damaged or not."""

from fsm.cli.refusal import CommandRefusedError
from fsm.driver import TaskIdentity, TaskView, get_task, list_tasks
from fsm.errors import TaskConflictError
from fsm.lifecycle import State
from storage import Database

__all__ = ["find_task", "stored_task", "tasks_in"]


def tasks_in(db: Database, room_id: str, *states: State) -> list[TaskView]:
    """Return the room's tasks that are in one of these states, state by state, each in the order of the queue."""
    return [task for state in states for task in list_tasks(db, room_id=room_id, status=state.name)]


def stored_task(db: Database, identity: TaskIdentity) -> TaskView:
    """Return a task that exists, also where its content is damaged."""
    try:
        return get_task(db, identity)
    except TaskConflictError:
        return find_task(db, identity.room_id, identity.task_id)


def find_task(db: Database, room_id: str, task_id: str) -> TaskView:
    """Return a task by its id alone."""
    for task in list_tasks(db, room_id=room_id):
        if task["identity"].task_id == task_id:
            return task
    raise CommandRefusedError(f"room {room_id} has no task {task_id}")
