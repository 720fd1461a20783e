"""`fsm cancel`: at once what has not begun; what may be at work is asked to stop, and its driver has the last word."""

import time
from typing import Annotated, Final

import typer
from attrs import frozen

from fsm.cli.confirming import Yes, confirm, require_answerable, shown_task
from fsm.cli.damage import damage_refused
from fsm.cli.decisions import twice_if_unknown
from fsm.cli.facts import printable, say_stored
from fsm.cli.opening import opened
from fsm.cli.options import ASK_SECONDS, AsJson, Location, Room, Task, named, seconds
from fsm.cli.output import say, standing
from fsm.cli.reading import stored_task
from fsm.cli.refusal import CommandRefusedError
from fsm.cli.showing import standing_of
from fsm.cli.terms import Tempo
from fsm.driver import TERMINAL_STATUSES, TaskView, begin_task_cancel, cancel_task
from fsm.errors import InvalidTaskTransitionError, LifecycleError
from fsm.lifecycles.driver_task import CANCELLED, INDETERMINATE, RUNNING, STOPPING
from storage import Database, random_id

__all__ = ["cancel"]

WAIT_SECONDS: Final = 30.0
IN_TWO_PHASES: Final = frozenset(state.name for state in (RUNNING, INDETERMINATE, STOPPING))

Wait = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", callback=seconds, help="How long a driver gets to acknowledge the stop."),
]
CancelId = Annotated[
    str | None,
    typer.Option(
        "--cancel-id", metavar="ID", callback=named, help="The name of this cancel; the same again changes nothing."
    ),
]


@frozen
class _Cancel:
    """One cancel: the task as it was shown, the id under which it is stored, and how long to wait, in seconds."""

    db: Database
    shown: TaskView
    cancel_id: str
    wait: float

    def read(self) -> TaskView:
        """Return the task as it is stored now."""
        return stored_task(self.db, self.shown["identity"])


def _bears(task: TaskView, cancel_id: str) -> bool:
    """Say whether the task bears this very cancel."""
    return task["cancel_id"] == cancel_id and task["status"] in {STOPPING.name, CANCELLED.name}


def cancel(
    location: Location,
    room: Room,
    task: Task,
    *,
    wait: Wait = WAIT_SECONDS,
    cancel_id: CancelId = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a task: at once where it waits; where it may be at work, ask it to stop and wait until it has.

    Exit 0 means cancelled. A run that ended before it could be stopped keeps its outcome: exit 1, as at the deadline,
    after which the request to stop stands.
    """
    require_answerable(yes=yes)
    shown = shown_task(location, room, task)
    name = cancel_id or f"cancel-{random_id()}"
    _require_new_or_same(shown, name)
    if not _bears(shown, name):
        confirm(standing_of(shown), _question(shown), yes=yes)
    with opened(location) as db, damage_refused():
        wanted = _Cancel(db, shown, name, wait)
        after = _cancelled(wanted)
    if as_json:
        say_stored(after)
    if after["status"] != CANCELLED.name or not _bears(after, name):
        raise CommandRefusedError(_unfinished(wanted, after))
    if not as_json:
        say(printable(standing(after)))


def _require_new_or_same(task: TaskView, cancel_id: str) -> None:
    """Refuse early where the task has ended, or where another stop is under way that this one cannot join."""
    if _bears(task, cancel_id):
        return
    if task["status"] in TERMINAL_STATUSES:
        raise CommandRefusedError(f"{standing(task)}; it has ended, and there is nothing to cancel")
    if task["status"] == STOPPING.name:
        raise CommandRefusedError(f"{standing(task)}; wait for that stop with --cancel-id {task['cancel_id']}")


def _question(task: TaskView) -> str:
    return "Ask it to stop?" if task["status"] in IN_TWO_PHASES else "Cancel it for good?"


def _cancelled(wanted: _Cancel) -> TaskView:
    """Cancel, or ask and wait; return the task as it then is."""
    try:
        twice_if_unknown(lambda: _asked(wanted))
    except LifecycleError:
        # The completion may have come first: that is an outcome to tell, where anything else is a refusal.
        task = wanted.read()
        if task["status"] not in TERMINAL_STATUSES:
            raise
        return task
    return _awaited(wanted)


def _asked(wanted: _Cancel) -> TaskView:
    """Make the call that fits the state; a task that moves from the queue to work meanwhile is still to be cancelled.

    The cancel generation stays the one that was shown, so that no other party's cancel is passed over.
    """
    while True:
        task = wanted.read()
        call = begin_task_cancel if task["status"] in IN_TWO_PHASES else cancel_task
        try:
            return call(
                wanted.db,
                wanted.shown["identity"],
                cancel_id=wanted.cancel_id,
                expected_cancel_generation=wanted.shown["cancel_generation"],
            )
        except InvalidTaskTransitionError:
            if wanted.read()["status"] == task["status"]:
                raise


def _awaited(wanted: _Cancel) -> TaskView:
    tempo = Tempo(time.time, time.monotonic, time.sleep)
    end = tempo.monotonic() + wanted.wait
    while (task := wanted.read())["status"] == STOPPING.name and tempo.monotonic() < end:
        tempo.sleep(min(ASK_SECONDS, wanted.wait))
    return task


def _unfinished(wanted: _Cancel, task: TaskView) -> str:
    """Say why the task is not cancelled, though it was asked."""
    if task["status"] != STOPPING.name:
        return f"{standing(task)}; it ended before it could be cancelled"
    return (
        f"{standing(task)} after {wanted.wait:g} s; the request stands: wait on with --cancel-id {wanted.cancel_id},"
        " or say what became of it with fsm resolve where its driver is gone"
    )
