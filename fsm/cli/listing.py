"""`fsm tasks`: what a room's tasks are, and where each stands."""

from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fsm.cli.facts import printable, say_one_by_one, say_stored
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, Room, require_existing
from fsm.cli.output import NARROW_COLUMNS, console, shown_time
from fsm.driver import TaskView, list_tasks
from fsm.lifecycles import DRIVER_TASK
from fsm.rooms import room_state

__all__ = ["tasks"]

COLUMNS = ("task", "state", "generations", "created", "begun", "ended", "mark")
NEVER_FOLDED = frozenset({"state", "generations"})


def _state(value: str | None) -> str | None:
    names = [state.name for state in DRIVER_TASK.states]
    if value is not None and value not in names:
        raise typer.BadParameter(f"a task is {', '.join(names[:-1])} or {names[-1]}")
    return value


Status = Annotated[
    str | None,
    typer.Option("--status", metavar="STATE", callback=_state, help="Only the tasks that are in this state."),
]


def tasks(
    location: Location,
    room: Room,
    *,
    status: Status = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a room in the order in which they run. Nothing is written.

    Generations are those of execution and of cancellation; times are UTC.
    """
    require_existing(location)
    with opened(location, read_only=True) as db:
        found = list_tasks(db, room_id=room, status=status)
        if not found:
            room_state(db, room_id=room, include_disbanded=True)  # An empty answer must not hide a misspelt room.
    if as_json:
        say_stored(found)
    elif (terminal := console()).width < NARROW_COLUMNS:
        say_one_by_one(COLUMNS, map(_cells, found))
    else:
        terminal.print(_table(room, found))


def _table(room: str, found: list[TaskView]) -> Table:
    table = Table(title=Text(f"room {room}: {len(found)} tasks"), box=SIMPLE_HEAD)
    for column in COLUMNS:
        table.add_column(column, overflow="fold", no_wrap=column in NEVER_FOLDED)
    for task in found:
        table.add_row(*(Text(printable(cell)) for cell in _cells(task)))
    return table


def _cells(task: TaskView) -> tuple[str, ...]:
    return (
        str(task["identity"].task_id),
        task["status"],
        f"{task['execution_generation']}/{task['cancel_generation']}",
        *(shown_time(task[instant]) for instant in ("created_at", "started_at", "terminal_at")),
        f"corrupt: {task['corrupt']}" if "corrupt" in task else "",
    )
