"""`fsm requeue` and `fsm defer`: what becomes of a task whose fate nobody knows, or that was set aside."""

import sys
import time
from typing import Annotated

import typer
from attrs import frozen

from fsm.cli.borrowing import borrowed_lease
from fsm.cli.confirming import Yes, confirm, require_answerable, shown_task
from fsm.cli.damage import damage_refused
from fsm.cli.decisions import Case, Decide, run_again, set_aside, twice_if_unknown
from fsm.cli.facts import printable, say_stored
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Events, Location, Room, Task, named
from fsm.cli.output import say, standing
from fsm.cli.reading import stored_task
from fsm.cli.refusal import CommandRefusedError
from fsm.cli.reporting import Reporter
from fsm.cli.resolving import WAIT_SECONDS, Wait
from fsm.cli.showing import standing_of
from fsm.cli.terms import Tempo
from fsm.driver import TaskView, new_process_generation, recover_room
from fsm.lifecycle import State
from fsm.lifecycles.driver_task import DEFERRED, INDETERMINATE, RUNNING
from fsm.observers import observe
from storage import Database

__all__ = ["defer", "requeue"]

Reason = Annotated[
    str,
    typer.Option("--reason", metavar="REASON", callback=named, help="Why it is set aside: one word, an identifier."),
]


def requeue(
    location: Location,
    room: Room,
    task: Task,
    *,
    wait: Wait = WAIT_SECONDS,
    yes: Yes = False,
    as_json: AsJson = False,
    events: Events = False,
) -> None:
    """Run an indeterminate or deferred task again; what it had done already may then happen twice."""
    decision = _Decision(run_again, (INDETERMINATE, DEFERRED), "Run it again, though it may then have happened twice?")
    _carry_out(decision, location, room, task, _Manner(wait, yes, as_json, events))


def defer(
    location: Location,
    room: Room,
    task: Task,
    reason: Reason,
    *,
    wait: Wait = WAIT_SECONDS,
    yes: Yes = False,
    as_json: AsJson = False,
    events: Events = False,
) -> None:
    """Set an indeterminate task aside, so that the room goes on; it can be requeued later."""
    decision = _Decision(set_aside(reason), (INDETERMINATE,), "Set it aside?")
    _carry_out(decision, location, room, task, _Manner(wait, yes, as_json, events))


@frozen
class _Decision:
    """What is decided, the states of a task in which it can be, and the question that is asked before."""

    decide: Decide
    states: tuple[State, ...]
    question: str


@frozen
class _Manner:
    """How the command goes about it: seconds to wait for the lease, and what it asks and tells."""

    wait: float
    yes: bool
    as_json: bool
    events: bool


def _carry_out(decision: _Decision, location: str, room: str, task: str, manner: _Manner) -> None:
    require_answerable(yes=manner.yes)
    shown = shown_task(location, room, task)
    _require_open(shown, decision.states)
    confirm(standing_of(shown), decision.question, yes=manner.yes)
    with opened(location) as db, damage_refused():
        if manner.events:
            observe(db, Reporter(sys.stdout, time.time, as_json=True).transition)
        after = _decided(db, shown, decision, manner.wait)
    if manner.as_json:
        say_stored(after)
    elif not manner.events:
        say(printable(standing(after)))


def _require_open(task: TaskView, states: tuple[State, ...]) -> None:
    """Refuse early what no answer could change; a running task may turn out to have lost its driver."""
    names = [state.name for state in states]
    if task["status"] not in {*names, RUNNING.name}:
        raise CommandRefusedError(f"{standing(task)}; only a task that is {' or '.join(names)} can be resolved so")


def _decided(db: Database, shown: TaskView, decision: _Decision, wait: float) -> TaskView:
    """Decide under a lease of its own about the generations that were shown, and return what is stored afterwards.

    The lease is taken only after the question was answered: a person who thinks must not hold up a driver.
    """
    identity = shown["identity"]
    tempo = Tempo(time.time, time.monotonic, time.sleep)
    with borrowed_lease(db, identity.room_id, new_process_generation(), wait=wait, tempo=tempo) as lease:
        recover_room(db, lease)
        now = stored_task(db, identity)
        if _generations(now) != _generations(shown):
            raise CommandRefusedError(f"{standing(now)}; it has moved on since it was shown, look again")
        case = Case(db, lease, now, db.new_id())
        twice_if_unknown(lambda: decision.decide(case))
    return stored_task(db, identity)


def _generations(task: TaskView) -> tuple[int, int]:
    return task["execution_generation"], task["cancel_generation"]
