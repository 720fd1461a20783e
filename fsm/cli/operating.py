"""The operator's commands, in the order in which the help lists them."""

from typing import Final

import typer

from fsm.cli.cancelling import cancel
from fsm.cli.drawing import diagram, export, table
from fsm.cli.events import events
from fsm.cli.leases import lease
from fsm.cli.recovering import ADMISSION, recover
from fsm.cli.requeueing import defer, requeue
from fsm.cli.room import claim, disband, rename, show
from fsm.cli.rooms import rooms
from fsm.cli.sessions import admissions, sessions
from fsm.cli.showing import task
from fsm.cli.why import why
from fsm.cli.workers import workers

__all__ = ["ADMISSION", "COMMANDS", "ROOM", "TASK"]

COMMANDS: Final = (
    *(rooms, events, lease, why, requeue, defer, cancel),
    *(sessions, admissions, workers, recover),
    *(diagram, table, export),
)

TASK: Final = typer.Typer(help="Look at one task.", no_args_is_help=False)
"""The commands on one task: `fsm task show`."""
TASK.callback()(lambda: None)
TASK.command("show")(task)

ROOM: Final = typer.Typer(help="Look at one room, rename it, take it over or close it.", no_args_is_help=False)
"""The commands on one room: `fsm room show`, `rename`, `claim` and `disband`."""
ROOM.callback()(lambda: None)
for _command in (show, rename, claim, disband):
    ROOM.command(_command.__name__)(_command)
