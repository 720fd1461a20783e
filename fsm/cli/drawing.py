"""`fsm diagram`, `fsm table` and `fsm export`: a lifecycle as its declaration has it, for people and for programs."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final

import typer

from diagrams import BEGINNING, END, PictureUnavailableError, describe, dot, mermaid, picture, plantuml, reference
from diagrams.export import export as exported
from fsm.cli.catalogue import LifecycleName, lifecycle_named
from fsm.cli.facts import printable
from fsm.cli.opening import opened
from fsm.cli.options import require_existing
from fsm.cli.records import UNDECLARED, StoredRecord, key_of, read_record, require_room
from fsm.cli.refusal import CommandRefusedError, one_line
from fsm.cli.writing import STANDARD_OUTPUT, Output, is_terminal, write_out
from fsm.lifecycle import Lifecycle
from fsm.lifecycles import HOSTED_ROOM

__all__ = ["diagram", "export", "table"]

_FORMATS: Final[Mapping[str, Callable[..., str | bytes]]] = {
    "mermaid": mermaid,
    "dot": dot,
    "plantuml": plantuml,
    "svg": partial(picture, form="svg"),
    "png": partial(picture, form="png"),
}
_BINARY: Final = frozenset({"png"})


def _known_format(value: str) -> str:
    if value not in _FORMATS:
        raise typer.BadParameter(f"the formats are {', '.join(_FORMATS)}")
    return value


def _completed_format(incomplete: str) -> list[str]:
    return [name for name in _FORMATS if name.startswith(incomplete)]


Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        callback=_known_format,
        autocompletion=_completed_format,
        help=f"{', '.join(_FORMATS)}.",
    ),
]
Overview = Annotated[bool, typer.Option("--overview", help="One line between two states, without guards and fences.")]
DatabaseFile = Annotated[
    str | None, typer.Option("--db", metavar="LOCATION", help="A database, to mark the state that a record is in.")
]
Record = Annotated[
    str | None,
    typer.Option("--record", metavar="RECORD", help="With --db: the record's key, as ROOM or ROOM/TASK."),
]


def diagram(
    lifecycle: LifecycleName,
    *,
    output: Output = STANDARD_OUTPUT,
    form: Format = "mermaid",
    overview: Overview = False,
    db: DatabaseFile = None,
    record: Record = None,
) -> None:
    """Draw a lifecycle as text or as a picture; with --db and --record, the state that the record is in is marked."""
    declared = lifecycle_named(lifecycle)
    if (db is None) != (record is None):
        raise typer.BadParameter("--db and --record go together")
    if form in _BINARY and is_terminal(output):
        raise typer.BadParameter(f"a terminal shows no {form}; give -o FILE, or pipe it", param_hint="--format")
    present = None if db is None or record is None else _present(declared, db, record)
    write_out(output, _drawn(declared, form, overview=overview, present=present))


def table(lifecycle: LifecycleName, *, output: Output = STANDARD_OUTPUT) -> None:
    """Write the reference page of a lifecycle, in Markdown: states, triggers, steps and refusals."""
    write_out(output, reference(describe(lifecycle_named(lifecycle))))


def export(lifecycle: LifecycleName, *, output: Output = STANDARD_OUTPUT) -> None:
    """Write a lifecycle as canonical JSON, with a hash that changes exactly when the lifecycle does."""
    write_out(output, exported(describe(lifecycle_named(lifecycle))))


def _drawn(lifecycle: Lifecycle, form: str, *, overview: bool, present: str | None) -> str | bytes:
    try:
        return _FORMATS[form](describe(lifecycle), overview=overview, present=present)
    except (PictureUnavailableError, OSError, ValueError) as error:
        raise CommandRefusedError(error) from error


def _present(lifecycle: Lifecycle, location: str, record: str) -> str:
    """Return the name of the record's state; one that the declaration lacks is drawn too, and said to be so."""
    key = key_of(lifecycle, record)
    require_existing(location)
    with opened(location, read_only=True) as db:
        if any(reference.table == HOSTED_ROOM.table.name for reference in lifecycle.table.foreign_keys):
            require_room(db, key["room_id"])
        found = read_record(db, lifecycle, key)
    if found.row is None and found.state not in {state.name for state in lifecycle.states}:
        raise CommandRefusedError(f"there is no {lifecycle.name} {record}")
    if found.state != UNDECLARED:
        return found.state
    stored = _stored_state(lifecycle, found)
    sys.stderr.write(f"fsm: {one_line(f'{record} is stored in {stored}, which {lifecycle.name} does not declare')}\n")
    return stored


def _stored_state(lifecycle: Lifecycle, found: StoredRecord) -> str:
    """Return what stands in the column that stores the state, where one does; never a mark's name."""
    row = found.row or {}
    for column in lifecycle.stored_values():
        text = printable(row.get(column))
        if text and text not in {BEGINNING, END}:
            return text
    return UNDECLARED
