"""A transaction on one PostgreSQL connection."""

from collections.abc import Mapping
from typing import ClassVar, NoReturn

from storage.errors import StorageError
from storage.port import NO_PARAMETERS, Database, Parameters, Row
from storage.postgres.connection import FAILURES, Connection, LostRaceError, translate
from storage.statements import Texts, refuse_control, refuse_several, refuse_write, server_text
from storage.transacting import EngineTransaction


def _translated(sql: str) -> str:
    # A text without parameters goes to the server as it is, which would run whatever follows its first statement.
    refuse_several(sql)
    return server_text(sql)


WRITING = Texts(refuse_control, _translated)
READING = Texts(refuse_write, _translated)
# Not FOR UPDATE: a row that others refer to need not hold up those who insert what refers to it.
_LOCKING = Texts(refuse_write, lambda sql: f"{_translated(sql)} FOR NO KEY UPDATE")
_SHARING = Texts(refuse_write, lambda sql: f"{_translated(sql)} FOR SHARE")

_CHANGING = ("INSERT", "UPDATE", "DELETE", "MERGE")
_LOCK_NAME = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ':' || :name, 0))"
_TABLE = """
    SELECT 1 AS found FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = current_schema() AND class.relname = :name AND class.relkind IN ('r', 'p')
"""


class PostgresTransaction(EngineTransaction[Connection]):
    """The port's Transaction on PostgreSQL."""

    __slots__ = ("_changes", "_cursor", "_texts", "inherited", "lost_race")

    locks_rows: ClassVar[bool] = True

    def __init__(self, database: Database, connection: Connection, texts: Texts[str]) -> None:
        super().__init__(database, connection)
        self.inherited = False
        self.lost_race: LostRaceError | None = None
        self._texts = texts
        self._changes = 0
        self._cursor = connection.cursor()

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> list[Row]:
        """Run one statement and return all of its rows; see the port."""
        return self._run(self._texts[sql], parameters)

    def lock(self, sql: str, parameters: Parameters = NO_PARAMETERS, *, shared: bool = False) -> list[Row]:
        """Hold the rows that a query finds; see the port."""
        if self._texts is READING:
            # Its snapshot holds them; the server would not lock them for it, and would seem to be no primary.
            return self.execute(sql, parameters)
        return self._run((_SHARING if shared else _LOCKING)[sql], parameters)

    def lock_name(self, name: str) -> None:
        """Hold a name; see the port. Databases in other schemas have names of their own."""
        self.execute(_LOCK_NAME, {"name": name})

    @property
    def changes(self) -> int:
        """How many rows this transaction has changed so far."""
        _ = self.connection
        return self._changes

    def table_exists(self, name: str) -> bool:
        """Tell whether a table of that name exists; see the port."""
        return bool(self.execute(_TABLE, {"name": name}))

    def _run(self, text: str, parameters: Parameters) -> list[Row]:
        _, cursor = self.connection, self._cursor
        if not isinstance(parameters, Mapping):
            raise StorageError(f"expected parameters by name, found a {type(parameters).__name__}; pass a dict")
        try:
            cursor.execute(text, parameters)
            # Not `description`, which makes an object of each column to say that there are any.
            rows: list[Row] = cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []
        except FAILURES as exc:
            self._fail(exc)
        if cursor.statusmessage is not None and cursor.statusmessage.startswith(_CHANGING):
            self._changes += cursor.rowcount
        return rows

    def _control(self, statement: str) -> None:
        try:
            self.connection.execute(statement)
        except FAILURES as exc:
            self._fail(exc)

    def _fail(self, exc: BaseException) -> NoReturn:
        error = translate(exc)
        # Remembered, since whoever runs the statement may turn its error into one of his own.
        if isinstance(error, LostRaceError):
            self.lost_race = self.lost_race or error
        raise error from exc

    def _uncount(self, changes: int) -> None:
        self._changes = changes
