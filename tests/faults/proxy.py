"""A proxy between a client and a PostgreSQL server that does harm at one request, chosen by its number.

It reads the protocol as far as it must: where a request of the client ends, which process of the server answers it,
and when that has answered. The code under test knows nothing of it.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Final

from attrs import define, field
from psycopg.conninfo import conninfo_to_dict

from tests.engines import SERVER, on_server

_ENCRYPTION_REQUESTS: Final = frozenset({80877103, 80877104})
_PATIENCE_SECONDS: Final = 20.0
_WORD: Final = re.compile(rb"[A-Z]+")


class Fault(Enum):
    """What is done when the chosen request has arrived at the proxy, which lies between the client and the server."""

    CUT_BEFORE = "the connection is cut, and the server never hears of the request"
    TERMINATED_BEFORE = "the server's process is terminated, and the request is too late"
    RACED = "the server's process is told to terminate while the request is on its way to it"
    TERMINATED_AFTER = "the request has been sent to the server, and right after that its process is terminated"
    ANSWER_LOST = "the server carries the request out, and the connection is cut before its answer arrives"


class _Closed(Exception):  # noqa: N818 # the end of a connection is its ordinary end
    pass


@define(eq=False)
class _Stream:
    """One side of a connection, read by whole messages."""

    socket: socket.socket

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = b""
            with suppress(OSError):
                more = self.socket.recv(size - len(data))
            if not more:
                raise _Closed
            data += more
        return data

    def first_message(self) -> bytes:
        """Read a message without a type, as the first of a client are."""
        head = self.read(4)
        return head + self.read(struct.unpack("!I", head)[0] - 4)

    def message(self) -> tuple[bytes, bytes]:
        """Read a message; return its type and all its bytes."""
        head = self.read(5)
        return head[:1], head + self.read(struct.unpack("!I", head[1:])[0] - 4)

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as exc:
            raise _Closed from exc

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@define(eq=False)
class _Link:
    """One connection of a client and what stands for it on the server."""

    client: _Stream
    server: _Stream
    backend: int = 0
    muted: bool = False
    answered: threading.Event = field(factory=threading.Event)
    over: threading.Event = field(factory=threading.Event)

    def greet(self) -> None:
        """Refuse encryption, and pass on who the client is."""
        message = self.client.first_message()
        while struct.unpack("!I", message[4:8])[0] in _ENCRYPTION_REQUESTS:
            self.client.send(b"N")
            message = self.client.first_message()
        self.server.send(message)

    def requests(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each request whole, with the statement that it names."""
        data, statement = b"", b""
        while True:
            kind, message = self.client.message()
            data += message
            if kind in b"QP":
                statement = message[5:] if kind == b"Q" else message[message.index(b"\0", 5) + 1 :]
            if kind in b"QSXp":
                yield statement, data
                data, statement = b"", b""

    def answer(self) -> None:
        """Pass the server's messages on until its end."""
        with suppress(_Closed):
            while True:
                kind, message = self.server.message()
                if kind == b"K":
                    self.backend = struct.unpack("!I", message[5:9])[0]
                # Before the client has it, for its next request may wait for an answer of its own at once.
                if kind == b"Z":
                    self.answered.set()
                if not self.muted:
                    self.client.send(message)
        self.over.set()
        self.answered.set()
        self.close()

    def close(self) -> None:
        self.client.close()
        self.server.close()


@define(eq=False)
class Proxy:
    """Listens on a port of its own. Armed, it counts the requests of its clients and harms one of them, once."""

    _listener: socket.socket = field(factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _links: list[_Link] = field(factory=list)
    _fault: Fault | None = None
    _at: int = 0
    seen: list[str] = field(factory=list)
    """The first words of the requests since it was armed."""
    struck: bool = False

    @property
    def parameters(self) -> str:
        """What a URL ends with to lead here."""
        return f"&host=127.0.0.1&port={self._listener.getsockname()[1]}&sslmode=disable&gssencmode=disable"

    def arm(self, fault: Fault | None = None, at: int = 0) -> None:
        """Do harm at the request of this number, counted from here; without a fault, only count."""
        self._fault, self._at, self.seen, self.struck = fault, at, [], False

    def serve(self) -> None:
        """Take connections until it is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _in_thread(lambda client=client: self._connect(_Stream(client)))  # type: ignore[misc]  # mypy infers no lambda with a default

    def close(self) -> None:
        """Cut everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.close()

    def _connect(self, client: _Stream) -> None:
        link = _Link(client, _Stream(_to_server()))
        self._links.append(link)
        with suppress(_Closed):
            link.greet()
            _in_thread(link.answer)
            for statement, data in link.requests():
                self._pass_on(link, statement, data)
        link.close()

    def _pass_on(self, link: _Link, statement: bytes, data: bytes) -> None:
        number, self.seen = len(self.seen), [*self.seen, _first_word(statement)]
        if self._fault is None or number != self._at:
            link.server.send(data)
            return
        fault, self._fault, self.struck = self._fault, None, True
        self._harm(link, fault, data)
        raise _Closed

    def _harm(self, link: _Link, fault: Fault, data: bytes) -> None:
        if fault is Fault.CUT_BEFORE:
            return
        if fault is Fault.ANSWER_LOST:
            link.muted = True
            link.answered.clear()
            link.server.send(data)
            assert link.answered.wait(_PATIENCE_SECONDS)
            return
        if fault is Fault.RACED:
            _in_thread(lambda: link.server.send(data))
        if fault is Fault.TERMINATED_AFTER:
            link.server.send(data)
        on_server("SELECT pg_terminate_backend(%s)", link.backend)
        assert link.over.wait(_PATIENCE_SECONDS)


def _first_word(statement: bytes) -> str:
    found = _WORD.search(statement.upper())
    return "" if found is None else found[0].decode()


def _to_server() -> socket.socket:
    target = conninfo_to_dict(SERVER)
    host, port = str(target.get("host") or "127.0.0.1"), int(str(target.get("port") or 5432))
    if host.startswith("/"):
        local = socket.socket(socket.AF_UNIX)
        local.connect(f"{host}/.s.PGSQL.{port}")
        return local
    remote = socket.create_connection((host, port), timeout=_PATIENCE_SECONDS)
    remote.settimeout(None)
    remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return remote


def _in_thread(work: Callable[[], None]) -> None:
    def run() -> None:
        with suppress(_Closed):
            work()

    threading.Thread(target=run, daemon=True).start()


@contextmanager
def proxy() -> Iterator[Proxy]:
    """Run a proxy to the server of the tests; every connection through it is cut at the end."""
    running = Proxy()
    _in_thread(running.serve)
    try:
        yield running
    finally:
        running.close()
