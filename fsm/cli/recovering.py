"""`fsm recover` and `fsm admission resolve`: what a lost owner has left, and what a person decides about it."""

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Final, TypedDict

import typer

from fsm.cli.confirming import Yes, confirm, require_answerable
from fsm.cli.facts import printable, say_stored
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Events, Location, require_existing, runtime_text
from fsm.cli.output import say
from fsm.cli.refusal import CommandRefusedError
from fsm.cli.reporting import Reporter
from fsm.lifecycles.admission_states import UNKNOWN
from fsm.lifecycles.runtime_tables import RUNTIME_EPOCH
from fsm.observers import observe
from fsm.schema import RUNTIME_SCHEMA
from fsm.sessions import (
    AdmissionView,
    begin_runtime_epoch,
    get_session_admission,
    recover_session_inputs,
    resolve_unknown_session_input,
)
from storage import Database

__all__ = ["ADMISSION", "recover"]

_EPOCH: Final = f"SELECT epoch FROM {RUNTIME_EPOCH.name} WHERE singleton = 1"

Begin = Annotated[
    str | None,
    typer.Option(
        "--begin",
        metavar="INSTANCE",
        callback=lambda value: None if value is None else runtime_text(value),
        help="First begin an epoch under this name: the owner until now is gone, and nothing of its work counts.",
    ),
]
Admission = Annotated[str, typer.Argument(metavar="ADMISSION", callback=runtime_text, help="The admission, by its id.")]


class Recovery(TypedDict):
    """What a recovery came to: under which epoch, and how many turns became unknown."""

    epoch: int
    lost: int


def recover(
    location: Location, *, begin: Begin = None, yes: Yes = False, as_json: AsJson = False, events: Events = False
) -> None:
    """Mark as unknown what owners of older epochs have left running; nothing is run again.

    Without --begin the present epoch stays as it is, and its own work is not touched.
    """
    if begin is not None:
        require_answerable(yes=yes)
    require_existing(location)
    with opened(location, read_only=True) as db:
        db.require(RUNTIME_SCHEMA)
        epoch = _present_epoch(db)
    if begin is not None:
        confirm((("epoch", epoch),), "Is its owner gone, so that another epoch may begin?", yes=yes)
    elif epoch is None:
        raise CommandRefusedError("no epoch has begun, so that nothing can have been left; --begin begins one")
    with opened(location) as db:
        _report(db, events=events)
        current = begin_runtime_epoch(db, instance_id=begin) if begin is not None else epoch
        recovery: Recovery = {"epoch": current or 0, "lost": recover_session_inputs(db, epoch=current)}
    if as_json:
        say_stored(recovery)
    elif not events:
        say(f"epoch {recovery['epoch']}: {recovery['lost']} turns are unknown now")


def _present_epoch(db: Database) -> int | None:
    rows = db.read(lambda tx: tx.execute(_EPOCH))
    return int(rows[0]["epoch"] or 0) if rows else None


def _report(db: Database, *, events: bool) -> None:
    if events:
        observe(db, Reporter(sys.stdout, time.time, as_json=True).transition)


def resolve(
    location: Location, admission: Admission, *, yes: Yes = False, as_json: AsJson = False, events: Events = False
) -> None:
    """Acknowledge that nobody knows how far a turn came: it counts as interrupted, and its session's queue goes on."""
    require_answerable(yes=yes)
    require_existing(location)
    with opened(location, read_only=True) as db:
        db.require(RUNTIME_SCHEMA)
        shown, epoch = get_session_admission(db, admission_id=admission), _present_epoch(db)
    _require_unknown(shown, admission)
    assert shown is not None  # noqa: S101 # an admission that is not there has been refused
    confirm(_standing(shown), "Give it up as interrupted?", yes=yes)
    with opened(location) as db:
        _report(db, events=events)
        after = resolve_unknown_session_input(
            db, epoch=epoch, admission_id=shown["admission_id"], generation=shown["generation"]
        )
    if as_json:
        say_stored(after)
    elif not events:
        say(printable(f"admission {after['admission_id']}: {after['outcome']} (generation {after['generation']})"))


def _require_unknown(found: AdmissionView | None, admission: str) -> None:
    if found is None:
        raise CommandRefusedError(f"no admission {admission}")
    if found["status"] != UNKNOWN.name:
        stands = found["outcome"] or found["status"]
        raise CommandRefusedError(f"admission {admission} is {stands}; only one that is {UNKNOWN.name} can be resolved")


def _standing(found: AdmissionView) -> Iterator[tuple[str, object]]:
    """Yield where an admission stands, without what was asked."""
    yield "admission", found["admission_id"]
    yield "session", found["target_session_id"]
    yield "principal", found["principal_id"]
    yield "request", found["request_id"]
    yield "state", found["status"]
    yield "claim", f"epoch {found['owner_epoch']}, generation {found['generation']}"


ADMISSION: Final = typer.Typer(help="Decide about one admission.", no_args_is_help=False)
"""The commands on one admission: `fsm admission resolve`."""
ADMISSION.callback()(lambda: None)
ADMISSION.command("resolve")(resolve)
