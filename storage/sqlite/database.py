"""The SQLite engine: a connection per thread, explicit transactions, nothing hidden."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from storage.engine import Handle
from storage.errors import OUTCOME_UNKNOWN, DatabaseUnavailableError, OutcomeUnknownError, StorageError
from storage.port import Parameters, Result, Transaction
from storage.schema import Schema
from storage.sqlite import connection as connections
from storage.sqlite.connection import FAILURES, primary_code
from storage.sqlite.filesystem import identity
from storage.sqlite.migrate import MIGRATOR, rebuilding
from storage.sqlite.sessions import Session, Sessions
from storage.sqlite.transaction import READING, WRITING, SqliteTransaction, control
from storage.statements import Texts
from storage.transacting import CLOSED, DOOMED, NESTED, READ_ONLY, finds, missing

# After these codes COMMIT is known to have stored nothing; after any other its fate is unknown.
_NOT_COMMITTED = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
    }
)

_REPLACED = "the database file was removed or replaced since it was opened; open the location again"


FORKED_WITHIN = (
    "this process was forked while a transaction was open on the database, whose locks it would mistake for its own; "
    "fork outside of transactions, or start processes by spawning them"
)


class SqliteDatabase(Handle):
    """The port's Database over connections that `connect` makes: one per thread, or one for all when `shared`.

    `prepare` is called once with each connection, ahead of its first write. `beside` opens another handle on the file,
    which reads only and waits for a lock no longer than it is told; without it there is no file to open again.
    """

    def __init__(
        self,
        location: str,
        connect: Callable[[], sqlite3.Connection],
        *,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        read_only: bool = False,
        shared: bool = False,
        prepare: Callable[[sqlite3.Connection], None] = lambda _: None,
        beside: Callable[[float], "SqliteDatabase"] | None = None,
    ) -> None:
        self.location = location
        self.clock = clock
        self.new_id = new_id
        self.read_only = read_only
        self._prepare = prepare
        self._beside = beside
        self._unusable = ""
        self._held_at_fork = False
        self._names: dict[str, tuple[str, ...]] = {}
        self._turn = threading.RLock() if shared else None
        self._connect = connect
        self._file: tuple[int, int] | None = None
        self._sessions = Sessions(self._connect_same, shared=shared)
        # A location that cannot be used is refused here rather than in the first operation.
        self._session()
        if not shared:
            with suppress(OSError):
                self._file = identity(location)

    def write(self, body: Callable[[Transaction], Result]) -> Result:
        """Run `body` between BEGIN IMMEDIATE and COMMIT; see the port. This engine runs it once."""
        session, transaction = self._begin("BEGIN IMMEDIATE", WRITING)
        try:
            result = body(transaction)
        except BaseException:
            self._roll_back(session, transaction)
            raise
        self._commit(session, transaction)
        return result

    def read(self, body: Callable[[Transaction], Result]) -> Result:
        """Run `body` on one snapshot; see the port."""
        session, transaction = self._begin("BEGIN", READING)
        try:
            return body(transaction)
        finally:
            # Rolling back costs what committing does and makes sure that nothing can have been written.
            self._roll_back(session, transaction)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a write transaction for a `with` block; see the port."""
        return self._hold()

    def require(self, schema: Schema) -> None:
        """Make sure of the tables of `schema`; see the port."""
        session = self._session()
        if schema in session.schemas:
            return
        if not self.read(lambda transaction: MIGRATOR.is_current(transaction, schema)):
            self._amend(session, schema)
        session.schemas.add(schema)

    def probe(self, table: str, sql: str, parameters: Parameters, *, timeout_seconds: float) -> bool:
        """Look by way of a connection of its own, or of the only one there is; see the port."""
        self._check_usable()
        if self.replaced:
            raise DatabaseUnavailableError(_REPLACED)
        if self._beside is not None:
            return look(self._beside(timeout_seconds), table, sql, parameters)
        self._take_turn(timeout_seconds)
        try:
            return self.read(lambda transaction: finds(transaction, table, sql, parameters))
        finally:
            if self._turn is not None:
                self._turn.release()

    def close(self) -> None:
        """Close the handle; see the port."""
        self._unusable = self._unusable or CLOSED
        if self._turn is None:
            if self.replaced:
                self._sessions.empty_log()
            self._sessions.close_idle()
        elif self._turn.acquire(blocking=False):
            # Whoever else has the turn comes here at its end.
            try:
                self._sessions.close_idle()
            finally:
                self._turn.release()

    @property
    def usable(self) -> bool:
        """Whether the handle is neither closed nor inherited without its data."""
        return not self._unusable

    @property
    def replaced(self) -> bool:
        """Whether the file at the location is gone or another than the one that was opened.

        An open connection keeps the number of its file from being given to another.
        """
        try:
            return self._file is not None and identity(self.location) != self._file
        except OSError:
            return False

    def retire(self) -> None:
        """Close a handle whose file has left the location, leaving nothing there that belongs to the file.

        Raises:
            DatabaseUnavailableError: a transaction is open on that file; the handle takes no other.
        """
        self._unusable = self._unusable or _REPLACED
        if self._sessions.busy or not (self._sessions.empty_log() or self.read_only):
            raise DatabaseUnavailableError(
                "the database file was removed or replaced while a transaction is open on it; "
                "end the transaction, then try again"
            )
        self._sessions.close_idle()

    def close_before_fork(self) -> None:
        """Close the connections that are idle, so that a child inherits none of SQLite's locks with them."""
        if self._turn is None:
            self._held_at_fork = self._sessions.close_before_fork()

    def forget_inherited(self) -> bool:
        """Let go, in a forked child, of what is the parent's; say whether a transaction was open on it."""
        self._sessions.forget_inherited()
        if self._held_at_fork:
            self._unusable = FORKED_WITHIN
        if self._turn is not None:
            # A thread that is not here may have had the turn.
            self._turn = threading.RLock()
            self._unusable = "this :memory: database belongs to the parent process; open another in the child"
        return self._held_at_fork

    def _session(self) -> Session:
        session = self._sessions.current()
        if session is None or self._unusable:
            self._check_usable()
            session = self._sessions.open()
        return session

    def _connect_same(self) -> sqlite3.Connection:
        # Threads of one handle must not work on different files, nor make a new one where theirs is gone.
        if self.replaced:
            raise DatabaseUnavailableError(_REPLACED)
        return self._connect()

    def _take_turn(self, timeout_seconds: float | None = None) -> None:
        timeout = connections.BUSY_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
        if self._turn is not None and not self._turn.acquire(timeout=timeout):
            raise DatabaseUnavailableError(
                "the connection of this :memory: database is in use by another thread's transaction; "
                "end that one, then try again"
            )

    def _check_usable(self) -> None:
        if self._unusable:
            raise StorageError(self._unusable)

    def _begin(self, statement: str, texts: Texts[str]) -> tuple[Session, SqliteTransaction]:
        session = self._session()
        self._check_begin(session, texts)
        if texts is WRITING and not session.prepared:
            self._prepare(session.connection)
            session.prepared = True
        if self._turn is not None:
            self._take_turn()
        # Announced before the check, for close() does the two in the opposite order.
        transaction = session.transaction = SqliteTransaction(self, session.connection, texts, self._names)
        if session.retired:
            session.transaction = None
            return self._begin(statement, texts)
        try:
            self._check_usable()
            transaction.begin(statement)
        except BaseException:
            self._end(session, transaction)
            raise
        return session, transaction

    def _check_begin(self, session: Session, texts: Texts[str]) -> None:
        if session.transaction is not None:
            raise StorageError(NESTED)
        if self.read_only and texts is WRITING:
            raise StorageError(READ_ONLY)

    def _commit(self, session: Session, transaction: SqliteTransaction) -> None:
        if transaction.doomed:
            self._roll_back(session, transaction)
            raise StorageError(f"{transaction.doomed}; {DOOMED}")
        try:
            control(transaction.connection, "COMMIT")
        except StorageError as exc:
            if exc.__cause__ is None or primary_code(exc.__cause__) in _NOT_COMMITTED:
                self._roll_back(session, transaction)
                raise
            self._discard(session)
            self._end(session, transaction)
            raise OutcomeUnknownError(OUTCOME_UNKNOWN) from exc.__cause__
        except BaseException:
            self._roll_back(session, transaction)
            raise
        self._end(session, transaction)
        transaction.run_actions()

    def _roll_back(self, session: Session, transaction: SqliteTransaction) -> None:
        try:
            if not session.inherited and session.connection.in_transaction:
                session.connection.execute("ROLLBACK")
        except FAILURES:
            # Closing undoes everything too, and must not hide why the transaction is being rolled back.
            self._discard(session)
        finally:
            self._end(session, transaction)

    def _discard(self, session: Session) -> None:
        if self._turn is not None:
            self._unusable = "the connection of this :memory: database failed and its data are gone; open another"
        self._sessions.drop(session)

    def _end(self, session: Session, transaction: SqliteTransaction) -> None:
        transaction.end()
        session.transaction = None
        if self._unusable and not session.inherited:
            if self.replaced:
                connections.empty_log(session.connection)
            session.connection.close()
        # In a forked child the turn is another, which nobody took.
        if self._turn is not None and not session.inherited:
            self._turn.release()
            if self._unusable:
                self.close()

    @contextmanager
    def _hold(self) -> Iterator[Transaction]:
        session, transaction = self._begin("BEGIN IMMEDIATE", WRITING)
        try:
            yield transaction
        except BaseException:
            self._roll_back(session, transaction)
            raise
        self._commit(session, transaction)

    def _amend(self, session: Session, schema: Schema) -> None:
        if self.read_only:
            if absent := self.read(lambda transaction: MIGRATOR.unreadable_tables(transaction, schema)):
                raise missing(schema, absent)
            return
        with self._in_turn(), rebuilding(session.connection):
            self.write(lambda transaction: MIGRATOR.migrate(transaction, schema))

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        turn = self._turn
        self._take_turn()
        try:
            yield
        finally:
            if turn is not None:
                turn.release()


def look(database: SqliteDatabase, table: str, sql: str, parameters: Parameters) -> bool:
    """Tell whether a query finds a row, by way of a handle made for this alone, and close it; see `Database.probe`."""
    try:
        return database.read(lambda transaction: finds(transaction, table, sql, parameters))
    finally:
        database.close()
