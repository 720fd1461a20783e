"""`fsm sessions` and `fsm admissions`: which sessions there are, and what is asked of one."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fsm.cli.facts import printable, say_one_by_one, say_stored, shown_instant
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, Session, require_existing
from fsm.cli.output import NARROW_COLUMNS, console
from fsm.cli.refusal import CommandRefusedError
from fsm.lifecycle import among
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles.admission_states import QUEUED, STARTED, UNKNOWN
from fsm.lifecycles.runtime_tables import ADMISSIONS, SESSIONS
from fsm.runtime.views import session_view
from fsm.schema import RUNTIME_SCHEMA
from fsm.sessions import AdmissionView, SessionView, get_session, list_session_admissions
from storage import Database, Row, Transaction

__all__ = ["admissions", "require_session", "sessions", "show"]

OF_SESSIONS: Final = ("session", "continues", "source", "generation", "revision", "open", "created", "ended", "because")
OF_ADMISSIONS: Final = ("seq", "admission", "principal", "request", "intent", "state", "epoch", "generation", "mark")
NEVER_FOLDED: Final = frozenset({"generation", "revision", "seq", "state", "epoch", "operations"})

All = Annotated[bool, typer.Option("--all", help="Those that have ended too.")]

_ALL_SESSIONS = f"SELECT * FROM {quoted(SESSIONS.name)} ORDER BY created_at, id"
_OPEN = f"""
    SELECT target_session_id, status, COUNT(*) AS count FROM {quoted(ADMISSIONS.name)}
    WHERE {sql((among(QUEUED, STARTED, UNKNOWN),))} GROUP BY target_session_id, status ORDER BY status
"""


def sessions(location: Location, *, as_json: AsJson = False) -> None:
    """List the sessions, the oldest first, with how many inputs of each have not ended. Nothing is written.

    Times are UTC. With --json each session also has `open`: how many inputs are in each state.
    """
    require_existing(location)
    with opened(location, read_only=True) as db:
        db.require(RUNTIME_SCHEMA)
        found, waiting = db.read(_read)
    views = [session_view(row) for row in found]
    if as_json:
        say_stored([{**view, "open": waiting.get(view["id"], {})} for view in views])
    else:
        show(f"{len(views)} sessions", OF_SESSIONS, [tuple(_of_session(view, waiting)) for view in views])


def _read(tx: Transaction) -> tuple[list[Row], dict[str, dict[str, int]]]:
    waiting: dict[str, dict[str, int]] = {}
    for row in tx.execute(_OPEN):
        waiting.setdefault(str(row["target_session_id"]), {})[str(row["status"])] = int(row["count"] or 0)
    return tx.execute(_ALL_SESSIONS), waiting


def _of_session(view: SessionView, waiting: dict[str, dict[str, int]]) -> Iterator[str]:
    yield printable(view["id"])
    yield printable(view["parent_session_id"])
    yield printable(view["source"])
    yield printable(view["runtime_generation"])
    yield printable(view["runtime_revision"])
    yield ", ".join(f"{count} {printable(state)}" for state, count in waiting.get(view["id"], {}).items())
    yield shown_instant(view["created_at"])
    yield "" if view["ended_at"] is None else shown_instant(view["ended_at"])
    yield printable(view["end_reason"])


def admissions(location: Location, session: Session, *, everything: All = False, as_json: AsJson = False) -> None:
    """List what is asked of a session, in the order of its queue. Nothing is written.

    What was asked is shown with --json alone.
    """
    require_existing(location)
    with opened(location, read_only=True) as db:
        found = list_session_admissions(db, session_id=session, pending_only=not everything)
        if not found:
            require_session(db, session)  # An empty answer must not hide a misspelt session.
    if as_json:
        say_stored(found)
    else:
        show(f"session {session}: {len(found)} admissions", OF_ADMISSIONS, [tuple(_of_admission(e)) for e in found])


def require_session(db: Database, session: str) -> None:
    """Raise CommandRefusedError where there is no such session."""
    if get_session(db, session) is None:
        raise CommandRefusedError(f"no session {session}")


def _of_admission(view: AdmissionView) -> Iterator[str]:
    yield printable(view["seq"])
    yield printable(view["admission_id"])
    yield printable(view["principal_id"])
    yield printable(view["request_id"])
    yield printable(view["intent"])
    yield printable(view["outcome"] or view["status"])
    yield printable(view["owner_epoch"])
    yield printable(view["generation"])
    yield f"corrupt: {view['corrupt']}" if "corrupt" in view else ""


def show(title: str, columns: Sequence[str], records: Sequence[Sequence[str]]) -> None:
    """Write records as a table, or below each other on a narrow terminal."""
    if (terminal := console()).width < NARROW_COLUMNS:
        say_one_by_one(columns, records)
        return
    table = Table(title=Text(printable(title)), box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in NEVER_FOLDED)
    for record in records:
        table.add_row(*(Text(cell) for cell in record))
    terminal.print(table)
