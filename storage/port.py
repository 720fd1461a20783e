"""The port: what every engine offers and all that an operation may rely on."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, TypeAlias, TypeVar

from storage.schema import Schema

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]
Parameters: TypeAlias = Mapping[str, Value]
Location: TypeAlias = str | os.PathLike[str]

Result = TypeVar("Result")

NO_PARAMETERS: Parameters = {}


class Transaction(ABC):
    """One open transaction. It is over when the block or body that received it ends."""

    database: "Database"
    locks_rows: ClassVar[bool] = False
    """Whether write transactions run side by side: what one has read then holds still only where it has locked it."""

    @abstractmethod
    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> list[Row]:
        """Run one statement with `:name` placeholders and return all of its rows, fetched whole.

        Stored text that is not UTF-8 comes back with its stray bytes as lone surrogates (PEP 383).
        Keys of `parameters` that the statement does not name are ignored. The text is the same for
        every engine; compare with NULL through `IS [NOT] DISTINCT FROM`, and count the bytes of a
        column's text by `octet_length(column)`, a quoted or qualified name in it. A body that catches an
        error of its own statement must not go on as if nothing had happened: some engines refuse
        every later statement of the transaction.

        Raises:
            StorageError: the transaction is over; the text holds several statements, or one that
                would end the transaction or change the connection (COMMIT, PRAGMA, ...); a read
                tries to write; the engine refuses the statement.
            ConstraintError: the statement breaks a constraint.
            DatabaseUnavailableError: the database stayed locked, or its disk failed.
        """

    def lock(self, sql: str, parameters: Parameters = NO_PARAMETERS, *, shared: bool = False) -> list[Row]:
        """Run a query on one table and hold the rows that it finds as they are until the transaction ends.

        Waits for whoever has written or locked them, and answers what they hold after that. Nobody else can then write
        them or lock them; of those who lock them `shared`, there may be many. In a read, whose snapshot stays as it is,
        and where a write transaction is the only one there is, this is `execute`. Raises as `execute` does.
        """
        del shared
        return self.execute(sql, parameters)

    @property
    @abstractmethod
    def changes(self) -> int:
        """How many rows this transaction has inserted, updated and deleted so far, without those that `undo` undid."""

    @abstractmethod
    def lock_name(self, name: str) -> None:
        """Take turns, until the end of the transaction, with every other write transaction that names the same text.

        For decisions over rows that have no row in common which is always there to be locked. Name the lock before
        anything is read that the decision rests on. Naming it again costs nothing. An engine that lets one writer in at
        a time has nothing to do.

        Raises:
            StorageError: the transaction is over.
            DatabaseUnavailableError: the lock was not to be had in time.
        """

    @abstractmethod
    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` once the transaction is committed, after those registered before it.

        It runs outside the transaction and may use the database. One that raises is reported
        through the logger "storage" and changes nothing. A rollback drops them all.

        Raises:
            StorageError: the transaction is over.
        """

    @abstractmethod
    def doom(self, reason: str) -> None:
        """Let the transaction end in nothing but a rollback: whoever caught what went wrong must not commit half of it.

        Its end then raises StorageError with the first reason given, unless another exception is on its way.
        Undoing to a mark set before takes it back: there is no half left to commit.

        Raises:
            StorageError: the transaction is over.
        """

    @abstractmethod
    def mark(self) -> object:
        """Mark this point of the transaction and return the mark, which says nothing to anybody but `keep` and `undo`.

        Marks may nest. One that is neither undone nor kept needs no care: the end of the transaction takes it along.

        Raises:
            StorageError: the transaction is over.
        """

    @abstractmethod
    def keep(self, mark: object) -> None:
        """Let go of the mark: what was done since then stays. It is used up, and with it every mark set after it.

        Raises:
            StorageError: the transaction is over, or the mark is used up or not one of this transaction.
        """

    @abstractmethod
    def undo(self, mark: object) -> None:
        """Undo everything done since the mark; the transaction goes on as if it had just been set.

        That is the rows and tables written, the actions registered with `after_commit`, and `doom`;
        `changes` goes back to what it was. The mark is used up, and with it every mark set after it.

        Raises:
            StorageError: the transaction is over, or the mark is used up or not one of this transaction.
        """

    @abstractmethod
    def table_exists(self, name: str) -> bool:
        """Tell whether the database has a table of that name.

        Raises:
            StorageError: the transaction is over.
        """


class Database(ABC):
    """A handle on one database, usable from every thread, whichever engine stands behind it."""

    location: str
    clock: Callable[[], float]
    new_id: Callable[[], str]

    @abstractmethod
    def write(self, body: Callable[[Transaction], Result]) -> Result:
        """Run `body` in one write transaction and return what it returns, after the commit.

        Whatever `body` raises rolls everything back and is raised unchanged. An engine may run
        `body` again when the first attempt lost against another transaction, so it must do nothing
        outside the transaction except through `after_commit`.

        Raises:
            StorageError: the handle is closed, or this thread already has a transaction open on it.
            DatabaseUnavailableError: the write lock was not to be had within 10 seconds, or the disk failed.
            ConstraintError: a deferred constraint does not hold at the commit; nothing is stored.
            OutcomeUnknownError: the commit failed in a way that hides its fate.
        """

    @abstractmethod
    def read(self, body: Callable[[Transaction], Result]) -> Result:
        """Run `body` on one consistent snapshot that it cannot write to, and return what it returns.

        An engine may run `body` again, as in `write`.

        Raises:
            StorageError: the handle is closed, this thread already has a transaction open on it, or
                `body` tries to write.
            DatabaseUnavailableError: the database cannot be read now.
        """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a write transaction that the caller holds: committed at the end of the block, never run again.

        An exception in the block rolls everything back. Raises as `write` does.
        """

    @abstractmethod
    def require(self, schema: Schema) -> None:
        """Make sure that the tables of `schema` exist in the right shape; costs nothing the next time.

        Missing tables and indexes are created, an outdated set of values in a CHECK is rebuilt, a
        table that lacks an `added` column or is `rekeyed` is made anew with all of its rows, the
        schema's backfills run, and a total that is not kept is summed up and kept from then on, all in
        one transaction. A read-only handle only judges, and tolerates what it could have amended except
        a missing table or column that it may read.

        Raises:
            UnsupportedDatabaseError: a table has another shape; the database was left as it was.
            StorageError: the handle is closed, or this thread has a transaction open on it.
            DatabaseUnavailableError: another process held the write lock too long.
        """

    @abstractmethod
    def probe(self, table: str, sql: str, parameters: Parameters, *, timeout_seconds: float) -> bool:
        """Tell whether a query finds a row, as far as that can be told at once; False where `table` does not exist.

        Nothing is created, migrated or written, and nobody is waited for longer than `timeout_seconds`. It sees what
        is committed, and may be asked while this thread has a transaction open, unless the engine has one connection.

        Raises:
            StorageError: the handle is closed, or the query does not fit what is there.
            DatabaseUnavailableError: the database cannot be read within that time.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every connection; one with an open transaction closes when that ends. Closing twice is harmless."""
