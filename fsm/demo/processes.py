"""The processes that the demo starts, and what it does to them."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import IO, Final, Self

from fsm.cli.refusal import CommandRefusedError
from fsm.demo.chronicle import Chronicle

__all__ = ["DriverProcess", "operate"]

FSM: Final = (sys.executable, "-m", "fsm")
PATIENCE_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 5.0


class DriverProcess:
    """A real `fsm drive`; whatever of it is left when its context ends is killed."""

    def __init__(self, name: str, arguments: tuple[str, ...], chronicle: Chronicle) -> None:
        self.name = name
        self._chronicle = chronicle
        self._process = subprocess.Popen([*FSM, "drive", *arguments], stdout=subprocess.PIPE, text=True)  # noqa: S603 # ours
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            # A killed process may leave half a line behind.
            with suppress(json.JSONDecodeError):
                self._chronicle.add(self.name, json.loads(line))

    def kill(self) -> None:
        """Kill the driver as a machine that fails does, and end the command that it leaves behind."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join(GRACE_SECONDS)
        self._kill_orphan()

    def _kill_orphan(self) -> None:
        spawned = [
            told.facts["pid"]
            for told in self._chronicle.told()
            if told.process == self.name and told.is_notice("spawned")
        ]
        with suppress(ProcessLookupError, IndexError):
            os.killpg(spawned[-1], signal.SIGKILL)

    def finish(self) -> None:
        """Wait until the driver ends by itself. Raises CommandRefusedError where it does not, or not well."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise CommandRefusedError(f"{self.name} did not end within {PATIENCE_SECONDS:g} s") from error
        if code != 0:
            raise CommandRefusedError(f"{self.name} ended with exit code {code}")
        self._reader.join(GRACE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._reader.join(GRACE_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()


def operate(name: str, arguments: tuple[str, ...], chronicle: Chronicle) -> None:
    """Run one `fsm` command to its end and note what it told. Raises CommandRefusedError where it fails."""
    done = subprocess.run(  # noqa: S603 # our own command
        [*FSM, *arguments], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    if done.returncode != 0:
        raise CommandRefusedError(f"fsm {arguments[0]} ended with exit code {done.returncode}")
    for line in done.stdout.splitlines():
        chronicle.add(name, json.loads(line))
