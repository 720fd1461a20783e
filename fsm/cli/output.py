"""How answers are written: JSON for programs, a table for people."""

import json
import sys
from datetime import UTC, datetime
from typing import Final

from rich.console import Console

from fsm.driver import TaskView
from fsm.jsonable import to_json

__all__ = ["NARROW_COLUMNS", "console", "say", "say_json", "shown_time", "standing"]

NARROW_COLUMNS: Final = 80
"""On a terminal narrower than this a table loses cells, and records are written one below the other."""
_WIDE: Final = 200
"""A pipe has no width; a table in it must not lose columns."""


def console() -> Console:
    """Return the console for standard output; it knows about NO_COLOR, and about pipes."""
    plain = Console(highlight=False, soft_wrap=False)
    return plain if plain.is_terminal else Console(highlight=False, width=_WIDE)


def say(line: str) -> None:
    """Write one line of an answer."""
    sys.stdout.write(f"{line}\n")


def say_json(answer: object) -> None:
    """Write an answer as one JSON document."""
    say(json.dumps(to_json(answer)))


def shown_time(instant: float | None) -> str:
    """Return an instant as UTC, or as it is stored where the calendar does not reach it."""
    if instant is None:
        return ""
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, TypeError, ValueError, OSError):
        return str(instant)


def standing(task: TaskView) -> str:
    """Say in one line where a task stands."""
    generations = f"execution generation {task['execution_generation']}, cancel generation {task['cancel_generation']}"
    return f"task {task['identity'].task_id}: {task['status']} ({generations})"
