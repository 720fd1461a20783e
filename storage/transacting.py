"""What the transactions of all engines share: their end, their marks, and what is done after the commit."""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import frozen

from storage.errors import StorageError, UnsupportedDatabaseError
from storage.port import Database, Parameters, Transaction
from storage.schema import Schema

__all__ = ["CLOSED", "DOOMED", "NESTED", "READ_ONLY", "EngineTransaction", "finds", "missing"]

logger = logging.getLogger("storage")

Connection = TypeVar("Connection")

CLOSED = "expected an open handle, found a closed one; open the location again"
DOOMED = "it was rolled back: do not go on in a transaction after an error in it"
NESTED = (
    "expected no open transaction of this thread on this database, found one; "
    "use the open transaction instead of opening another inside it"
)
READ_ONLY = "expected a writable handle, found a read-only one; open the location for writing"


def finds(transaction: Transaction, table: str, sql: str, parameters: Parameters) -> bool:
    """Tell whether the table exists and the query finds a row."""
    return transaction.table_exists(table) and bool(transaction.execute(sql, parameters))


def missing(schema: Schema, tables: tuple[str, ...]) -> UnsupportedDatabaseError:
    """Return what a read-only handle raises where tables are missing, which it does not make."""
    return UnsupportedDatabaseError(
        f"expected the tables of {schema.name}, found none, or an older one, named {', '.join(tables)}; "
        "open the database once for writing so that they are created"
    )


@frozen(eq=False)
class _Mark:
    """What a transaction was when a savepoint was set: its depth among the marks, and all that stands outside it."""

    depth: int
    actions: int
    changes: int
    doomed: str

    @property
    def savepoint(self) -> str:
        return f"storage_mark_{self.depth}"


class EngineTransaction(Transaction, Generic[Connection]):
    """A transaction over a connection whose BEGIN has been run; dead once `end` was called."""

    __slots__ = ("_connection", "_marks", "actions", "database", "doomed")

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.actions: list[Callable[[], None]] = []
        self.doomed = ""
        self._connection: Connection | None = connection
        self._marks: list[_Mark] = []

    @property
    def connection(self) -> Connection:
        """The connection of the open transaction.

        Raises:
            StorageError: the transaction is over.
        """
        if self._connection is None:
            raise self.over()
        return self._connection

    @staticmethod
    def over() -> StorageError:
        """Return what every use of a transaction that is over raises."""
        return StorageError(
            "expected an open transaction, found one that is over; use a transaction only inside the body or block "
            "that received it, and return values rather than iterators from there"
        )

    def end(self) -> None:
        """Let no further statement through."""
        self._connection = None

    def lock_name(self, name: str) -> None:
        """Nothing to take where a write transaction is alone; see the port."""
        _ = self.connection, name

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` after the commit; see the port."""
        _ = self.connection
        self.actions.append(action)

    def run_actions(self) -> None:
        """Run what was registered for after the commit; one that raises is reported and holds up no other."""
        for action in self.actions:
            try:
                action()
            except Exception:
                logger.exception("an action after a commit failed; the commit stands")

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
        mark = self._standing(mark)
        self._control(f"ROLLBACK TO {mark.savepoint}")
        self._control(f"RELEASE {mark.savepoint}")
        del self._marks[mark.depth :]
        del self.actions[mark.actions :]
        self.doomed = mark.doomed
        self._uncount(mark.changes)

    @abstractmethod
    def _control(self, statement: str) -> None:
        """Run a statement on savepoints."""

    @abstractmethod
    def _uncount(self, changes: int) -> None:
        """Let `changes` be what it was, now that all since then is undone."""

    def _standing(self, mark: object) -> _Mark:
        _ = self.connection
        if not isinstance(mark, _Mark) or mark not in self._marks[mark.depth : mark.depth + 1]:
            raise StorageError(
                "expected a mark of this transaction that still stands, found another; use each mark once, "
                "in the transaction that made it"
            )
        return mark
