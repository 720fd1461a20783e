"""A PostgreSQL server of the tests' own, which they may stop and start."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import pytest
from attrs import frozen

__all__ = ["Server", "own_server"]

_PLACES: Final = "/usr/lib/postgresql/*/bin"
_ACCOUNT: Final = "postgres"


@frozen
class Server:
    """A server with a data directory of its own, reached by TCP on this machine."""

    programs: Path
    directory: Path
    port: int

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql://{_ACCOUNT}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it lets clients in."""
        self._control("start")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it: `immediate` as if it had crashed."""
        self._control("stop", "-m", mode)

    def restart(self, mode: Literal["fast", "immediate"]) -> None:
        """Stop it and start it again."""
        self.stop(mode)
        self.start()

    def make(self) -> None:
        """Make its data directory; what is committed survives a crash, as on any server."""
        self._run("initdb", "-D", self._data, "-U", _ACCOUNT, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.directory,
            "fsync": "on",
            "max_connections": 30,
            "shared_buffers": "16MB",
        }
        text = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        with Path(self._data, "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.write(text)

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "60", "-l", str(self.directory / "log"), *words)

    def _run(self, program: str, *words: str) -> None:
        # Not a pipe: the server inherits it from pg_ctl, and would keep it open for as long as it runs.
        with (self.directory / "said").open("w+", encoding="utf-8") as said:
            command = [*_as_account(), str(self.programs / program), *words]
            ended = subprocess.run(command, check=False, stdout=said, stderr=subprocess.STDOUT, cwd="/")
            said.seek(0)
            assert ended.returncode == 0, said.read()


def _as_account() -> list[str]:
    """Return what a command begins with that runs as a user whom the server obeys: it refuses to run as root."""
    return ["runuser", "-u", _ACCOUNT, "--"] if os.geteuid() == 0 else []


def _programs() -> Path:
    """Return where the server's programs are; where there are none, the test is skipped, and fails in CI."""
    found = sorted(Path("/").glob(_PLACES.removeprefix("/") + "/pg_ctl"))
    beside = shutil.which("pg_ctl")
    if not found and beside is None:
        reason = f"no programs of a PostgreSQL server are at {_PLACES} or on the PATH; install postgresql"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return (found[-1] if found else Path(str(beside))).parent


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def own_server() -> Iterator[Server]:
    """Run a server for as long as the block lasts; nothing of it remains."""
    programs = _programs()
    directory = Path(tempfile.mkdtemp(prefix="gateway_fsm_server_"))
    try:
        if os.geteuid() == 0:
            shutil.chown(directory, _ACCOUNT)
        server = Server(programs, directory, _free_port())
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(directory)
