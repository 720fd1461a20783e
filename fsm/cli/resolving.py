"""`fsm resolve`: a person decides about a task whose fate nobody knows."""

import sys
import time
from typing import Annotated, Final

import typer

from fsm.cli.borrowing import borrowed_lease
from fsm.cli.decisions import Case, Decide, came_to_an_end, run_again, set_aside, twice_if_unknown, was_stopped
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Events, Location, Room, Task, named, require_existing, seconds
from fsm.cli.output import say, say_json, standing
from fsm.cli.reading import find_task, stored_task
from fsm.cli.reporting import Reporter
from fsm.cli.terms import Tempo
from fsm.driver import TaskIdentity, TaskView, new_process_generation, recover_room
from fsm.lifecycles.driver_task import FAILED, SETTLED
from fsm.observers import observe
from storage import Database

__all__ = ["resolve"]

WAIT_SECONDS: Final = 15.0

Settled = Annotated[bool, typer.Option("--settled", help="The run succeeded.")]
Failed = Annotated[bool, typer.Option("--failed", help="The run failed.")]
Cancelled = Annotated[bool, typer.Option("--cancelled", help="The run was stopped.")]
Requeue = Annotated[bool, typer.Option("--requeue", help="Run it again; it may then have happened twice.")]
Defer = Annotated[
    str | None,
    typer.Option("--defer", metavar="REASON", callback=named, help="Set it aside, so that the room goes on."),
]
Result = Annotated[str | None, typer.Option("--result", metavar="TEXT", help="What the run answered.")]
Wait = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", callback=seconds, help="How long to wait for the lease of a driver."),
]


def resolve(
    location: Location,
    room: Room,
    task: Task,
    *,
    settled: Settled = False,
    failed: Failed = False,
    cancel: Cancelled = False,
    requeue: Requeue = False,
    defer: Defer = None,
    result: Result = None,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
    events: Events = False,
) -> None:
    """Decide about an uncertain task: one that is indeterminate, or deferred, or stopping with its driver gone."""
    chosen = [
        decide
        for wanted, decide in (
            (settled, came_to_an_end(SETTLED, result)),
            (failed, came_to_an_end(FAILED, result)),
            (cancel, was_stopped),
            (requeue, run_again),
            (defer is not None, set_aside(defer or "")),
        )
        if wanted
    ]
    _check_choice(len(chosen), result_fits=result is None or settled or failed)
    require_existing(location)
    with opened(location, read_only=True) as db:
        # Looked for first without writing: a database that is not a gateway's must not be given its tables.
        identity = find_task(db, room, task)["identity"]
    with opened(location) as db:
        if events:
            observe(db, Reporter(sys.stdout, time.time, as_json=True).transition)
        after = _resolved(db, identity, chosen[0], wait)
    if as_json:
        say_json(after)
    elif not events:
        say(standing(after))


def _check_choice(choices: int, *, result_fits: bool) -> None:
    if choices != 1:
        raise typer.BadParameter("give exactly one of --settled, --failed, --cancelled, --requeue and --defer")
    if not result_fits:
        raise typer.BadParameter("--result goes with --settled or --failed")


def _resolved(db: Database, identity: TaskIdentity, decide: Decide, wait: float) -> TaskView:
    """Decide under a lease of its own, and return what is stored afterwards."""
    tempo = Tempo(time.time, time.monotonic, time.sleep)
    with borrowed_lease(db, identity.room_id, new_process_generation(), wait=wait, tempo=tempo) as lease:
        recover_room(db, lease)
        case = Case(db, lease, stored_task(db, identity), db.new_id())
        twice_if_unknown(lambda: decide(case))
    return stored_task(db, identity)
