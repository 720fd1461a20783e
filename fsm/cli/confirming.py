"""Asking before a task or a room is changed: what is about to change is shown first."""

import sys
from typing import Annotated

import typer

from fsm.cli.damage import damage_refused
from fsm.cli.facts import Facts, fact_lines
from fsm.cli.opening import opened
from fsm.cli.options import require_existing
from fsm.cli.reading import find_task
from fsm.cli.refusal import CommandRefusedError
from fsm.driver import TaskView

__all__ = ["Yes", "confirm", "require_answerable", "shown_task"]

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where nobody sits at a terminal.")]


def require_answerable(*, yes: bool) -> None:
    """Refuse, before anything is opened, a call that would ask a question which nobody could answer."""
    if not yes and not (sys.stdin is not None and sys.stdin.isatty()):
        raise typer.BadParameter("no terminal to confirm at; give --yes", param_hint="--yes")


def shown_task(location: str, room: str, task: str) -> TaskView:
    """Return the task that the question is about, read without writing: a file that is not ours must stay as it is."""
    require_existing(location)
    with opened(location, read_only=True) as db, damage_refused():
        return find_task(db, room, task)


def confirm(facts: Facts, question: str, *, yes: bool) -> None:
    """Show where what is about to change stands, never what it was asked, and go on only where the answer is yes.

    Everything goes to standard error, so that the answer of the command stays alone on standard output.
    """
    if yes:
        return
    sys.stderr.writelines(f"{line}\n" for line in fact_lines(facts))
    if not typer.confirm(question, err=True):
        raise CommandRefusedError("nothing was changed")
