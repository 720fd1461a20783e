"""A transaction on one SQLite connection."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import NoReturn

from attrs import frozen

from storage.errors import StorageError
from storage.port import NO_PARAMETERS, Database, Parameters, Row, Transaction, Value
from storage.sqlite.connection import FAILURES, is_undecodable, tolerate, translate
from storage.statements import Texts, reads, refuse_control, refuse_write, sqlite_text

WRITING = Texts(refuse_control, sqlite_text)
READING = Texts(refuse_write, sqlite_text)
_MAXIMUM_NAMES = 4096


@frozen(eq=False)
class _Mark:
    """What a transaction was when a savepoint was set: its depth among the marks, and all that SQLite does not undo."""

    depth: int
    actions: int
    changes: int
    doomed: str

    @property
    def savepoint(self) -> str:
        return f"storage_mark_{self.depth}"


class SqliteTransaction(Transaction):
    """The port's Transaction over a connection whose BEGIN has been run; dead once `end` was called."""

    __slots__ = ("_connection", "_marks", "_names", "_started_at", "_texts", "actions", "database", "doomed")

    def __init__(
        self, database: Database, connection: sqlite3.Connection, texts: Texts, names: dict[str, tuple[str, ...]]
    ) -> None:
        self.database = database
        self.actions: list[Callable[[], None]] = []
        self.doomed = ""
        self._texts = texts
        self._names = names
        self._connection: sqlite3.Connection | None = connection
        self._started_at = 0
        self._marks: list[_Mark] = []

    def begin(self, statement: str) -> None:
        """Run BEGIN in one of its forms.

        Raises:
            DatabaseUnavailableError: the lock was not to be had within the busy timeout.
        """
        control(self.connection, statement)
        self._started_at = self.connection.total_changes

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> list[Row]:
        """Run one statement and return all of its rows; see the port."""
        connection = self._connection
        if connection is None:
            raise _over()
        if not isinstance(parameters, dict):
            parameters = _as_dict(parameters)
        try:
            cursor = connection.execute(self._texts[sql], parameters)
            rows = cursor.fetchall()
        except FAILURES as exc:
            cursor, rows = self._again(connection, sql, parameters, exc)
        if not rows:
            return rows
        names = self._names.get(sql)
        if names is None:
            names = self._names_of(sql, cursor)
        return [dict(zip(names, row)) for row in rows]  # noqa: B905 # SQLite answers every row with every column

    def _again(
        self, connection: sqlite3.Connection, sql: str, parameters: dict[str, Value], failure: Exception
    ) -> tuple[sqlite3.Cursor, list[tuple[Value, ...]]]:
        """Run a query once more, if it failed at text that is not UTF-8; raise for every other failure."""
        if not is_undecodable(failure):
            self._fail(connection, failure)
        tolerate(connection)
        if not reads(sql):
            # Its rows have been changed by now, and changing them twice may store something else.
            reason = "a statement that writes met text that is not UTF-8 before any query did"
            self.doom(reason)
            raise StorageError(f"{reason}; nothing was stored, and it works if repeated") from failure
        try:
            cursor = connection.execute(self._texts[sql], parameters)
            return cursor, cursor.fetchall()
        except FAILURES as exc:
            self._fail(connection, exc)

    def _fail(self, connection: sqlite3.Connection, failure: Exception) -> NoReturn:
        # Some failures make SQLite roll back by itself; a body that goes on would then write outside a transaction.
        if not connection.in_transaction:
            self.end()
        raise translate(failure) from failure

    def _names_of(self, sql: str, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        # Remembered where a later change of a table cannot matter: asking costs as much as a short query.
        names = tuple(column[0] for column in cursor.description)
        if "*" not in sql and len(self._names) < _MAXIMUM_NAMES:
            self._names[sql] = names
        return names

    @property
    def changes(self) -> int:
        """How many rows this transaction has changed so far."""
        connection = self._connection
        if connection is None:
            raise _over()
        return connection.total_changes - self._started_at

    def lock_name(self, name: str) -> None:
        """Nothing to take: BEGIN IMMEDIATE has let this writer in alone; see the port."""
        _ = self.connection, name

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` after the commit; see the port."""
        _ = self.connection
        self.actions.append(action)

    def doom(self, reason: str) -> None:
        """Let it end in nothing but a rollback; see the port."""
        _ = self.connection
        self.doomed = self.doomed or reason

    def mark(self) -> object:
        """Set a savepoint; see the port."""
        mark = _Mark(len(self._marks), len(self.actions), self.changes, self.doomed)
        self._control(f"SAVEPOINT {mark.savepoint}")
        self._marks.append(mark)
        return mark

    def keep(self, mark: object) -> None:
        """Remove a savepoint and what it could undo; see the port."""
        standing = self._standing(mark)
        self._control(f"RELEASE {standing.savepoint}")
        del self._marks[standing.depth :]

    def undo(self, mark: object) -> None:
        """Return to a savepoint and remove it; see the port."""
        connection, mark = self.connection, self._standing(mark)
        self._control(f"ROLLBACK TO {mark.savepoint}")
        self._control(f"RELEASE {mark.savepoint}")
        del self._marks[mark.depth :]
        del self.actions[mark.actions :]
        self.doomed = mark.doomed
        # SQLite goes on counting over what it has undone.
        self._started_at = connection.total_changes - mark.changes

    def _standing(self, mark: object) -> "_Mark":
        _ = self.connection
        if not isinstance(mark, _Mark) or mark not in self._marks[mark.depth : mark.depth + 1]:
            raise StorageError(
                "expected a mark of this transaction that still stands, found another; use each mark once, "
                "in the transaction that made it"
            )
        return mark

    def table_exists(self, name: str) -> bool:
        """Tell whether a table of that name exists; names are compared as SQLite does, without case."""
        sql = "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = :name COLLATE NOCASE"
        return bool(self.execute(sql, {"name": name}))

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of the open transaction.

        Raises:
            StorageError: the transaction is over.
        """
        if self._connection is None:
            raise _over()
        return self._connection

    def end(self) -> None:
        """Let no further statement through."""
        self._connection = None

    def _control(self, statement: str) -> None:
        connection = self.connection
        try:
            connection.execute(statement)
        except FAILURES as exc:
            self._fail(connection, exc)


def control(connection: sqlite3.Connection, statement: str) -> None:
    """Run BEGIN or COMMIT.

    Raises:
        StorageError: the statement failed; the cause tells how.
    """
    try:
        connection.execute(statement)
    except FAILURES as exc:
        raise translate(exc) from exc


def _as_dict(parameters: Parameters) -> dict[str, Value]:
    if not isinstance(parameters, Mapping):
        raise StorageError(f"expected parameters by name, found a {type(parameters).__name__}; pass a dict")
    return dict(parameters)


def _over() -> StorageError:
    return StorageError(
        "expected an open transaction, found one that is over; use a transaction only inside the body or block "
        "that received it, and return values rather than iterators from there"
    )
