"""Where what a command makes goes: to a file, or to standard output."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from fsm.cli.refusal import CommandRefusedError, unless_url

__all__ = ["STANDARD_OUTPUT", "Output", "is_terminal", "write_out"]

STANDARD_OUTPUT: Final = "-"
DATABASE: Final = b"SQLite format 3\0"

Output = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The file to write; - is standard output.")]


def is_terminal(output: str) -> bool:
    """Say whether a person would get the very bytes."""
    return output == STANDARD_OUTPUT and sys.stdout.isatty()


def write_out(output: str, made: str | bytes) -> None:
    """Write all of it, text as UTF-8 whatever the terminal takes: a file made by a pipe must not depend on that.

    Raises CommandRefusedError where it cannot, and where the file is a database, which is never what was meant.
    """
    raw = made.encode("utf-8", "backslashreplace") if isinstance(made, str) else made
    if output == STANDARD_OUTPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    try:
        if path.is_file() and _begins_as_database(path):
            raise CommandRefusedError(f"{unless_url(output)} is a database and stays as it is; choose another file")
        path.write_bytes(raw)
    except OSError as error:
        raise CommandRefusedError(f"cannot write {unless_url(output)}: {error.strerror}") from error


def _begins_as_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(DATABASE)) == DATABASE
