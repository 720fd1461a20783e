"""Which thread uses which connection."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from storage.schema import Schema
from storage.sqlite.connection import empty_log
from storage.sqlite.fork import keep_for_ever
from storage.sqlite.transaction import SqliteTransaction


@define(eq=False)
class Session:
    """A thread's use of a connection: the open transaction, the schemas made sure of, whether it is ready to write."""

    connection: sqlite3.Connection
    schemas: set[Schema] = field(factory=set)
    thread: threading.Thread = field(factory=threading.current_thread)
    transaction: SqliteTransaction | None = None
    inherited: bool = False
    prepared: bool = False
    retired: bool = False


class Sessions:
    """The sessions of one handle: a connection for each thread, or one for all when `shared`."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, shared: bool) -> None:
        self._connect = connect
        self._all: list[Session] = []
        self._lock = threading.Lock()
        self._local = threading.local()
        self._shared: Session | None = None
        self._shared = Session(connect()) if shared else None

    def __del__(self) -> None:
        # A handle that was dropped unclosed; what a fork inherited is no longer among these.
        for session in (*self._all, *((self._shared,) if self._shared else ())):
            with suppress(sqlite3.Error):
                session.connection.close()

    def current(self) -> Session | None:
        """Return this thread's session, None before `open`."""
        session: Session | None = getattr(self._local, "session", None)
        return None if session is None or session.retired else session

    def close_before_fork(self) -> bool:
        """Close what can be closed, to be opened anew by its thread; say whether a transaction stood in the way."""
        with self._lock:
            for session in self._all:
                # Retired before it is looked at: a thread that begins just now sees it and takes another connection.
                session.retired = True
                if session.transaction is None:
                    session.connection.close()
                else:
                    session.retired = False
            self._all = [session for session in self._all if not session.retired]
            return bool(self._all)

    def open(self) -> Session:
        """Make this thread's session, and close the connections of threads that have ended."""
        with self._lock:
            self._drop_dead()
            session = (
                Session(self._shared.connection, self._shared.schemas) if self._shared else Session(self._connect())
            )
            self._all.append(session)
        self._local.session = session
        return session

    def drop(self, session: Session) -> None:
        """Close a connection that cannot be trusted any more; its thread gets another."""
        session.connection.close()
        with self._lock:
            self._all = [other for other in self._all if other is not session]
        if self.current() is session:
            del self._local.session

    @property
    def busy(self) -> bool:
        """Whether a transaction is open on one of the connections."""
        with self._lock:
            return any(session.transaction is not None for session in self._all)

    def empty_log(self) -> bool:
        """Empty the write-ahead log by way of any connection; False where somebody else keeps it from that."""
        with self._lock:
            return all(empty_log(session.connection) for session in self._all)

    def close_idle(self) -> None:
        """Close the connections on which no transaction is open."""
        with self._lock:
            busy = [session for session in self._all if session.transaction is not None]
            if self._shared and not busy:
                self._shared.connection.close()
            for session in self._all:
                if not self._shared and session.transaction is None:
                    session.connection.close()
            self._all = busy

    def forget_inherited(self) -> None:
        """Let go, in a forked child, of the parent's connections without closing them."""
        for session in [*self._all, *([self._shared] if self._shared else [])]:
            session.inherited = True
            keep_for_ever(session.connection)
            if session.transaction is not None:
                session.transaction.end()
        self._all = []
        # Not even to be closed: a thread that is not here may have been inside SQLite, with the connection's mutex.
        self._shared = None
        self._lock = threading.Lock()
        self._local = threading.local()

    def _drop_dead(self) -> None:
        alive = [session for session in self._all if session.thread.is_alive()]
        if not self._shared:
            for session in self._all:
                if session not in alive:
                    session.connection.close()
        self._all = alive
