"""`python -m fsm` without the time that its imports take: a process that has made them forks for each command.

A fork has the streams, the environment and the working directory that the command would have, and ends as the
interpreter does. Only what is imported was imported before.
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

from fsm.__main__ import main

__all__ = ["Warm"]

WIDTH: Final = 20
"""Of the number of a process, in characters."""


class Warm:
    """A process that has imported the command line, in one environment; it ends with the process that started it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        # Python asks when it starts what kind of streams it has: those of the commands will be pipes.
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], stdin=pipe, stdout=pipe, stderr=pipe
        )
        theirs.close()

    @classmethod
    @cache
    def of(cls, environment: frozenset[tuple[str, str]]) -> "Warm":
        """Return the one for an environment."""
        return cls(dict(environment))

    def run(self, arguments: Sequence[str], given: str | None, timeout: float) -> "subprocess.CompletedProcess[str]":
        """Run one command to its end, as `subprocess.run` does."""
        (asked, ask), (stdin, give), (take_out, out), (take_err, err), (take_end, end) = (os.pipe() for _ in range(5))
        socket.send_fds(self._channel, [b"!"], [asked, stdin, out, err, end])
        for theirs in (asked, stdin, out, err, end):
            os.close(theirs)
        _write(ask, json.dumps([str(Path.cwd()), *arguments]))
        with ThreadPoolExecutor(3) as threads:
            threads.submit(_write, give, given or "")
            told = [threads.submit(_read, each) for each in (take_out, take_err)]
            child = int(os.read(take_end, WIDTH))
            if not select.select([take_end], [], [], timeout)[0]:
                os.kill(child, signal.SIGKILL)
                raise subprocess.TimeoutExpired([*arguments], timeout)
            code = int(_read(take_end))
            return subprocess.CompletedProcess([*arguments], code, *(each.result() for each in told))


def _read(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as stream:
        return stream.read()


def _write(descriptor: int, text: str) -> None:
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def _serve(channel: socket.socket) -> list[str]:
    """Fork for each command that is asked for; return its arguments in the fork that is to run it."""
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, descriptors, *_ = socket.recv_fds(channel, 1, 5)
        if not asked:
            os._exit(0)
        if not os.fork():
            break
        for each in descriptors:
            os.close(each)
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        _wait_for(child, descriptors)
    directory, *arguments = json.loads(_read(descriptors[0]))
    os.chdir(directory)
    for number, each in enumerate(descriptors[1:4]):
        os.dup2(each, number)
    for each in descriptors[1:]:
        os.close(each)
    return [str(each) for each in arguments]


def _wait_for(child: int, descriptors: Sequence[int]) -> NoReturn:
    """Tell who the child is, and when it has ended with which code."""
    *streams, end = descriptors
    for each in streams:
        os.close(each)
    os.write(end, f"{child:{WIDTH}}".encode())
    os.write(end, str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


if __name__ == "__main__":
    # A command imports these when it comes to them.
    for each in ("fsm.cli.app", "storage.postgres.database"):
        import_module(each)
    sys.argv[1:] = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
