"""A transaction on one SQLite connection."""

import sqlite3
from collections.abc import Mapping
from typing import NoReturn

from storage.errors import StorageError
from storage.port import NO_PARAMETERS, Database, Parameters, Row, Value
from storage.sqlite.connection import FAILURES, is_undecodable, tolerate, translate
from storage.statements import Texts, reads, refuse_control, refuse_write, sqlite_text
from storage.transacting import EngineTransaction

WRITING = Texts(refuse_control, sqlite_text)
READING = Texts(refuse_write, sqlite_text)
_MAXIMUM_NAMES = 4096


class SqliteTransaction(EngineTransaction[sqlite3.Connection]):
    """The port's Transaction on SQLite."""

    __slots__ = ("_names", "_started_at", "_texts")

    def __init__(
        self, database: Database, connection: sqlite3.Connection, texts: Texts[str], names: dict[str, tuple[str, ...]]
    ) -> None:
        super().__init__(database, connection)
        self._texts = texts
        self._names = names
        self._started_at = 0

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
            raise self.over()
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
            raise self.over()
        return connection.total_changes - self._started_at

    def table_exists(self, name: str) -> bool:
        """Tell whether a table of that name exists; names are compared as SQLite does, without case."""
        sql = "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = :name COLLATE NOCASE"
        return bool(self.execute(sql, {"name": name}))

    def _uncount(self, changes: int) -> None:
        # SQLite goes on counting over what it has undone.
        self._started_at = self.connection.total_changes - changes

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
