"""One COMMAND at work, in a process group of its own, fed and read through files so that no size can block it."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

__all__ = ["Child", "Watchdog"]


class Child:
    """A running command; leaving its context kills whatever is left of its process group."""

    def __init__(self, command: Sequence[str], prompt: str, environment: Mapping[str, str]) -> None:
        """Start the command with the prompt on its standard input. Raises OSError where it provably did not start."""
        self._lock = threading.Lock()
        with ExitStack() as files:
            prompted, self._output = (files.enter_context(TemporaryFile()) for _ in range(2))
            self._process = _spawn(command, _filled(prompted, prompt), self._output, environment)
            self._files = files.pop_all()

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self._process.pid

    def ended(self) -> bool:
        """Say whether the command has ended. It stays unreaped, so that its group's id cannot become another's."""
        with self._lock:
            return self._process.returncode is not None or _has_ended(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, unless it is known to be gone."""
        with self._lock:
            self._send(number)

    def reap(self) -> int:
        """End what is left of the group and return the exit code of the command."""
        with self._lock:
            self._send(signal.SIGKILL)
            return self._process.wait()

    def output(self, limit: int) -> tuple[bytes, bool]:
        """Return what the command wrote, at most `limit` bytes, and whether there was more."""
        descriptor = self._output.fileno()
        return os.pread(descriptor, limit, 0), os.fstat(descriptor).st_size > limit

    def _send(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._files:
            self.reap()


def _filled(file: IO[bytes], text: str) -> IO[bytes]:
    file.write(text.encode("utf-8", errors="replace"))
    file.seek(0)
    return file


def _spawn(
    command: Sequence[str], prompt: IO[bytes], output: IO[bytes], environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 # running the operator's command is what the driver is for
        list(command), stdin=prompt, stdout=output, env=dict(environment), process_group=0
    )


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Watchdog:
    """Acts once when a deadline passes, even while the main thread hangs in a call that does not return."""

    def __init__(self, act: Callable[[], None], deadline: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._act, self._deadline, self._monotonic = act, deadline, monotonic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fsm-lease-watchdog", daemon=True)
        self.fired = False

    def _watch(self) -> None:
        while (left := self._deadline() - self._monotonic()) > 0:
            if self._over.wait(min(left, threading.TIMEOUT_MAX)):
                return
        self.fired = True
        self._act()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
