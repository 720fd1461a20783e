"""`fsm workers`: which executions there are, and where each stands."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from fsm.cli.facts import printable, say_stored
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, require_existing, runtime_text
from fsm.cli.sessions import require_session, show
from fsm.lifecycle import Arg, Conditions, Term
from fsm.runtime.machines import WORKER_MACHINE
from fsm.runtime.views import worker_view
from fsm.schema import RUNTIME_SCHEMA
from fsm.workers import WorkerView

__all__ = ["workers"]

COLUMNS: Final = ("execution", "session", "kind", "state", "epoch", "generation", "operations")
EVERY: Final[Conditions] = ()
OF_SESSION: Final[Conditions] = (Term("session_id", "=", Arg("session_id")),)


def _session(value: str | None) -> str | None:
    return None if value is None else runtime_text(value)


OfSession = Annotated[
    str | None,
    typer.Option("--session", metavar="SESSION", callback=_session, help="Only those of this session, by its id."),
]


def workers(location: Location, *, session: OfSession = None, as_json: AsJson = False) -> None:
    """List the workers' executions by session, with how many operations each has reported. Nothing is written."""
    require_existing(location)
    where = EVERY if session is None else OF_SESSION
    with opened(location, read_only=True) as db:
        db.require(RUNTIME_SCHEMA)
        rows = db.read(
            lambda tx: WORKER_MACHINE.select(
                tx, where, values={"session_id": session}, order=("session_id", "execution_id")
            )
        )
        if session is not None and not rows:
            require_session(db, session)  # An empty answer must not hide a misspelt session.
    found = list(map(worker_view, rows))
    if as_json:
        say_stored(found)
    else:
        show(f"{len(found)} executions", COLUMNS, [tuple(_cells(each)) for each in found])


def _cells(view: WorkerView) -> Iterator[str]:
    yield printable(view["execution_id"])
    yield printable(view["session_id"])
    yield printable(view["kind"])
    yield printable(view["status"])
    yield printable(view["owner_epoch"])
    yield printable(view["generation"])
    yield printable(view["last_sequence"])
