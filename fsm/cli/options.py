"""The options that several commands share, and what they accept."""

import math
from pathlib import Path
from typing import Annotated, Final

import typer

from fsm.cli.refusal import CommandRefusedError
from fsm.lifecycles.limits import MAX_IDENTIFIER_CHARS, MAX_RUNTIME_TEXT_CHARS
from storage.validate import identifier, text

__all__ = [
    "ASK_SECONDS",
    "AsJson",
    "Events",
    "Location",
    "OptionalGateway",
    "Room",
    "Session",
    "Task",
    "named",
    "require_existing",
    "runtime_text",
    "seconds",
]

ASK_SECONDS: Final = 0.1
"""How long a command waits before it asks again for what another process has."""


def named(value: str | None) -> str | None:
    """Accept an identifier as the library does."""
    if value is None:
        return None
    return identifier(value, label="the value", error=typer.BadParameter, maximum=MAX_IDENTIFIER_CHARS)


def runtime_text(value: str) -> str:
    """Accept an id of a session, an admission or a worker as the library does: any text that is not blank."""
    return text(value, label="the value", error=typer.BadParameter, maximum_characters=MAX_RUNTIME_TEXT_CHARS)


def seconds(value: float) -> float:
    """Accept a duration that is a finite number above 0."""
    if not math.isfinite(value) or value <= 0:
        raise typer.BadParameter("a duration must be a finite number of seconds above 0")
    return value


def _location(value: str) -> str:
    if not value.strip() or value == ":memory:":
        raise typer.BadParameter("give the path of a database file, or the URL of a database")
    return value


def require_existing(location: str) -> None:
    """Refuse a database file that is not there: only `submit` and `demo` make one."""
    if "://" not in location and not Path(location).is_file():
        raise CommandRefusedError("no database file at this location; fsm submit makes one")


Location = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION",
        callback=_location,
        help="A database file, or a URL such as postgresql://user@host/database.",
    ),
]
Room = Annotated[str, typer.Option("--room", metavar="ROOM", callback=named, help="The room.")]
Task = Annotated[str, typer.Option("--task", metavar="TASK", callback=named, help="The task.")]
Session = Annotated[
    str, typer.Option("--session", metavar="SESSION", callback=runtime_text, help="The session, by its id.")
]
OptionalGateway = Annotated[
    str | None,
    typer.Option("--gateway", metavar="ID", callback=named, help="The gateway that has authority over the room."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Events = Annotated[bool, typer.Option("--events", help="Write one JSON line for every committed transition.")]
