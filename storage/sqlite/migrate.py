"""How SQLite makes a declared table, and amends one by putting another in its place."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from storage.creating import create_table
from storage.judge import Shape
from storage.migrating import Migrator
from storage.port import Transaction
from storage.schema import Column, Table, Total
from storage.sqlite.rebuild import rebuild, remake
from storage.sqlite.shape import read_shape
from storage.sqlite.statement_text import DIALECT
from storage.sqlite.totals import create_trigger, missing_triggers
from storage.sqlite.transaction import control

__all__ = ["MIGRATOR", "rebuilding"]

_INDEXES: Final = """
    SELECT list.name AS name FROM pragma_index_list(:name) AS list
    JOIN pragma_index_info(list.name) AS info WHERE list.origin = 'c' AND info.name = :column
"""


@contextmanager
def rebuilding(connection: sqlite3.Connection) -> Iterator[None]:
    """Let tables be dropped and renamed in the transaction within, as SQLite's procedure for it asks.

    With foreign keys on, dropping a table would delete what refers to it; without the older meaning
    of RENAME, references in other tables would follow the new name. Neither can be set inside a
    transaction.

    Raises:
        StorageError: the connection was closed.
    """
    try:
        control(connection, "PRAGMA foreign_keys=OFF")
        control(connection, "PRAGMA legacy_alter_table=ON")
        yield
    finally:
        # A handle closed by another thread closes its connection with the transaction: nothing is left to set back.
        with suppress(sqlite3.ProgrammingError):
            connection.execute("PRAGMA legacy_alter_table=OFF")
            connection.execute("PRAGMA foreign_keys=ON")


class _Sqlite(Migrator):
    remakes = True

    def shapes(self, transaction: Transaction, tables: tuple[Table, ...]) -> dict[str, Shape]:
        """Read them from the catalogue, one by one."""
        found = {table.name: read_shape(transaction, table) for table in tables}
        return {name: shape for name, shape in found.items() if shape is not None}

    def create(self, transaction: Transaction, table: Table) -> None:
        """Make a table."""
        transaction.execute(create_table(table, DIALECT))

    def rebuild(self, transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
        """Copy the table into another; within `rebuilding` only."""
        rebuild(transaction, table, columns)

    def remake(self, transaction: Transaction, table: Table, shape: Shape) -> None:
        """Copy the table into one that is as declared; within `rebuilding` only."""
        remake(transaction, table, shape)

    def indexes_on(self, transaction: Transaction, table: Table, column: str) -> tuple[str, ...]:
        """Ask the catalogue for them."""
        rows = transaction.execute(_INDEXES, {"name": table.name, "column": column})
        return tuple(str(row["name"]) for row in rows)

    def missing_triggers(self, transaction: Transaction, table: Table, total: Total) -> list[str]:
        """Compare them with the catalogue's, word by word."""
        return missing_triggers(transaction, table, total)

    def create_trigger(self, transaction: Transaction, table: Table, total: Total, name: str) -> None:
        """Make one of the three."""
        create_trigger(transaction, table, total, name)


MIGRATOR: Final[Migrator] = _Sqlite()
