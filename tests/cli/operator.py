"""The installed command `fsm` for the operator's commands: in this very process where nothing else is needed."""

import os
import pty
import subprocess
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

import pytest
from attrs import frozen

from tests.cli.processes import FSM, PATIENCE, ROOM, environment, is_one_line

__all__ = ["Answer", "Asked", "at_a_terminal", "entry_point", "files_of", "fsm_here"]

T1 = f"{ROOM}/t1"


@frozen
class Answer:
    """What a command ended with, and what it wrote."""

    code: int
    out: str
    err: str

    def is_refusal(self, code: int = 1) -> bool:
        """Say whether it ended so, with one line of an error and no traceback."""
        return self.code == code and is_one_line(self.err) and "Traceback" not in self.err


def entry_point() -> Callable[[list[str]], int]:
    """Return the function that the installed script `fsm` calls."""
    (point,) = entry_points(group="console_scripts", name="fsm")
    return cast("Callable[[list[str]], int]", point.load())


def fsm_here(capfd: pytest.CaptureFixture[str], *arguments: object) -> Answer:
    """Run one command of the installed entry point in this process."""
    capfd.readouterr()
    code = entry_point()([str(each) for each in arguments])
    written = capfd.readouterr()
    return Answer(code, written.out, written.err)


Asked = Callable[..., Answer]


def files_of(directory: Path) -> dict[str, bytes]:
    """Return every file beneath a directory, byte by byte."""
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


def at_a_terminal(*arguments: object, typed: str = "", **more: str) -> tuple[int, str]:
    """Run one command in a process of its own whose every stream is a terminal; answer its question, where one is."""
    ours, theirs = pty.openpty()
    command = [*FSM, *map(str, arguments)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**more)) as process:
        os.close(theirs)
        told, answered = b"", not typed
        with suppress(OSError):  # A terminal whose last user is gone ends in an error.
            while more_told := os.read(ours, 1000):
                told += more_told
                if not answered and b"?" in told:
                    os.write(ours, typed.encode())
                    answered = True
        code = process.wait(PATIENCE)
    os.close(ours)
    return code, told.decode()
