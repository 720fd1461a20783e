"""The commands, and what becomes of whatever they raise: one line and an exit code."""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Final

import typer

from fsm.cli.drive import drive
from fsm.cli.listing import tasks
from fsm.cli.operating import ADMISSION, COMMANDS, ROOM, TASK
from fsm.cli.refusal import CommandRefusedError, holds_url, one_line
from fsm.cli.reporting import make_usable, silence
from fsm.cli.resolving import resolve
from fsm.cli.scenarios.command import run_scenario
from fsm.cli.submitting import submit
from fsm.demo import demo
from fsm.errors import LifecycleError
from storage import StorageError

__all__ = ["app", "run"]

DONE: Final = 0
REFUSED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130

# typer exports of its usage errors only this one, and its base is another class from version to version.
_USAGE_ERROR: Final = typer.BadParameter.__mro__[1]

app = typer.Typer(name="fsm", add_completion=True, pretty_exceptions_enable=False)
for _command in (submit, tasks, resolve, drive, demo, *COMMANDS):
    app.command(_command.__name__)(_command)
app.command("run")(run_scenario)
app.add_typer(TASK, name="task")
app.add_typer(ROOM, name="room")
app.add_typer(ADMISSION, name="admission")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 # typer calls it so
    if wanted:
        sys.stdout.write(f"fsm {_version()}\n")
        raise typer.Exit


def _version() -> str:
    try:
        return version("gateway-fsm")
    except PackageNotFoundError:
        return "not installed"


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Submit, drive and inspect the durable tasks of a gateway's rooms."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    make_usable()
    try:
        code = _exit_code_of(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        return REFUSED
    return code


def _exit_code_of(arguments: Sequence[str] | None) -> int:
    try:
        answer = app(None if arguments is None else list(arguments), prog_name="fsm", standalone_mode=False)
    except (CommandRefusedError, LifecycleError, StorageError) as error:
        return _say(error, REFUSED)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _say(error.strerror or "the operating system refused", REFUSED)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        if not isinstance(error, _USAGE_ERROR):
            raise
        return _say(_explained(error), MISUSED)
    return answer if isinstance(answer, int) else DONE


def _explained(error: Exception) -> str:
    """Return what a usage error says, with the parameter that it is about."""
    explain = getattr(error, "format_message", error.__str__)
    said = str(explain())
    # What was typed too much may be a prompt.
    extra = said.startswith("Got unexpected extra argument")
    if extra:
        return "more arguments than the command takes; put a text with spaces in quotes"
    return "a URL stands where none is taken; it follows the command's name" if holds_url(said) else said


def _say(error: object, code: int) -> int:
    sys.stderr.write(f"fsm: {one_line(error)}\n")
    return code
