"""What a command tells while it works: transitions and notices, as JSON lines or as lines for people."""

import json
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from fsm.cli.refusal import one_line
from fsm.observers import Transition

__all__ = ["Reporter", "make_usable", "silence"]


class Reporter:
    """Writes one line for each thing that happened; an observer of `fsm.observers`."""

    def __init__(self, stream: TextIO, clock: Callable[[], float], *, as_json: bool) -> None:
        self._stream, self._clock, self._as_json = stream, clock, as_json

    def transition(self, transition: Transition) -> None:
        """Tell of a committed transition."""
        facts: dict[str, object] = {
            "event": "transition",
            "lifecycle": transition.lifecycle,
            "key": dict(transition.key),
            "trigger": transition.trigger,
            "source": transition.source,
            "dest": transition.dest,
            "at": transition.at,
        }
        record = " ".join(map(str, transition.key.values()))
        self._write(
            facts, f"{transition.lifecycle} {record}: {transition.source} -> {transition.dest} ({transition.trigger})"
        )

    def notice(self, name: str, message: str, **facts: object) -> None:
        """Tell of something that the command noticed or decided; `name` is for programs, `message` for people."""
        self._write({"event": "notice", "notice": name, "message": message, **facts, "at": self._clock()}, message)

    def _write(self, facts: dict[str, object], line: str) -> None:
        text = json.dumps(facts) if self._as_json else one_line(line)
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except OSError:
            # Nobody listens any more, or a log is full. The work is worth more than its report, so it goes on.
            silence(self._stream)


def make_usable() -> None:
    """Give a command that was started without its standard streams empty ones, and let no character stop an answer."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 # it stays to the end
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def silence(stream: TextIO) -> None:
    """Send what is still to be written to a broken pipe nowhere, so that not even the interpreter's exit complains."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
