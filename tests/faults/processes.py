"""Processes of this folder's scripts, spoken to by lines of JSON, and moments that two of them meet at."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsm

PATIENCE = 20.0
SOURCES = Path(fsm.__file__).resolve().parents[1]


class Child:
    """One process of a module, with pipes on both ends; what it writes to standard error is shown by pytest."""

    def __init__(self, module: str, *arguments: object) -> None:
        command = [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=SOURCES, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def tell(self, **order: object) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """Wait for one line; None where the process has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        # A line that the kill cut off acknowledges nothing.
        return json.loads(line) if line.endswith("\n") else None

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()

    def rest(self) -> list[Any]:
        """Return every further line until the end of the process, and wait for it."""
        heard = list(iter(self.hear, None))
        self.process.wait(PATIENCE)
        return heard

    def close(self) -> None:
        """Let nothing of it remain."""
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def children(module: str, *argument_lists: tuple[object, ...]) -> Iterator[tuple[Child, ...]]:
    """Start a process for each list of arguments; none outlives the block."""
    started = tuple(Child(module, *arguments) for arguments in argument_lists)
    try:
        yield started
    finally:
        for child in started:
            child.close()


def soon() -> float:
    """Return a moment on the clock that all processes of this machine share, far enough off to be heard of before."""
    return time.monotonic() + 0.002


def wait_until(moment: float) -> None:
    """Burn the time until a moment: sleeping would part two processes by more than their race takes."""
    while time.monotonic() < moment:
        pass
