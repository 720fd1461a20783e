"""Requests to stop that reach a command as signals."""

import signal
from types import FrameType
from typing import Final

__all__ = ["StopRequests"]

_INSISTING: Final = 2
_AT_ONCE: Final = 3


class StopRequests:
    """Counts what asks a process to end: the first signal asks, the second insists, the third waits for nothing."""

    def __init__(self) -> None:
        self._count = 0

    def listen(self) -> None:
        """Count the signals from now on, instead of dying of them and leaving a command behind."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self.count)
        # Whoever started this process may have had its children reaped unseen; ours must be waited for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def count(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Note one more request."""
        self._count += 1

    @property
    def asked(self) -> bool:
        """No new task may be taken; the running one ends by itself."""
        return self._count > 0

    @property
    def insisted(self) -> bool:
        """The running task must be terminated too."""
        return self._count >= _INSISTING

    @property
    def at_once(self) -> bool:
        """The running task must be killed without any grace."""
        return self._count >= _AT_ONCE
