"""How SQLite makes a declared table, and amends one by putting another in its place."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

from storage.creating import create_table, listed, literal, one_of
from storage.errors import UnsupportedDatabaseError
from storage.judge import Shape
from storage.migrating import Migrator
from storage.port import Transaction
from storage.schema import Column, Table
from storage.sqlite.shape import creating_text, limiting_checks, read_shape
from storage.sqlite.statement_text import DIALECT, Check, renamed
from storage.sqlite.transaction import control
from storage.statements import quoted

__all__ = ["MIGRATOR", "rebuilding"]


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


def _rebuild(transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
    """Copy a table into one that differs in the CHECKs of these columns, and put it in its place.

    The new table is made from the text of the old one, so that further columns, their types,
    defaults and constraints stay what they are.
    """
    following = _free_name(transaction, table.name)
    attached = transaction.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = :name AND type IN ('index', 'trigger') AND sql IS NOT NULL",
        {"name": table.name},
    )
    stored = transaction.execute("SELECT name, hidden FROM pragma_table_xinfo(:name)", {"name": table.name})
    names = listed(tuple(str(row["name"]) for row in stored if row["hidden"] == 0))
    create = creating_text(transaction, table.name) or ""
    known = frozenset(str(row["name"]).lower() for row in stored)
    transaction.execute(renamed(create, following, _replacements(create, columns, known)))
    transaction.execute(f"INSERT INTO {quoted(following)} ({names}) SELECT {names} FROM {quoted(table.name)}")
    _compare_counts(transaction, table, following)
    _carry_sequence(transaction, table, following)
    transaction.execute(f"DROP TABLE {quoted(table.name)}")
    transaction.execute(f"ALTER TABLE {quoted(following)} RENAME TO {quoted(table.name)}")
    for row in attached:
        transaction.execute(str(row["sql"]))


def _free_name(transaction: Transaction, name: str) -> str:
    """Return a name that nothing has: whatever has it was not made here, where nothing outlives its transaction."""
    rows = transaction.execute("SELECT name FROM sqlite_master UNION ALL SELECT name FROM sqlite_temp_master")
    taken = {str(row["name"]).lower() for row in rows}
    candidates = (f"{name}_next{number or ''}" for number in count())
    return next(candidate for candidate in candidates if candidate.lower() not in taken)


def _replacements(create: str, columns: tuple[Column, ...], known: frozenset[str]) -> dict[Check, str]:
    """Put the declared condition in place of a column's first CHECK, and of its others one that always holds."""
    replacements = {}
    for column in columns:
        for position, check in enumerate(limiting_checks(create, column, known)):
            replacements[check] = "1" if position else one_of(column)
    return replacements


def _compare_counts(transaction: Transaction, table: Table, following: str) -> None:
    (counts,) = transaction.execute(
        f"SELECT (SELECT count(*) FROM {quoted(table.name)}) AS before, "
        f"(SELECT count(*) FROM {quoted(following)}) AS after"
    )
    if counts["before"] != counts["after"]:
        raise UnsupportedDatabaseError(
            f"table {table.name}: expected {counts['before']} rows in its copy, found {counts['after']}; "
            "the database was left as it was: check it with PRAGMA integrity_check"
        )


def _carry_sequence(transaction: Transaction, table: Table, following: str) -> None:
    """Keep the highest key ever given, which the copied rows need not show."""
    if not table.autoincrement:
        return
    old, new = literal(table.name), literal(following)
    transaction.execute(f"DELETE FROM sqlite_sequence WHERE name = {new}")
    transaction.execute(
        f"INSERT INTO sqlite_sequence (name, seq) SELECT {new}, seq FROM sqlite_sequence WHERE name = {old}"
    )


class _Sqlite(Migrator):
    def shapes(self, transaction: Transaction, tables: tuple[Table, ...]) -> dict[str, Shape]:
        """Read them from the catalogue, one by one."""
        found = {table.name: read_shape(transaction, table) for table in tables}
        return {name: shape for name, shape in found.items() if shape is not None}

    def create(self, transaction: Transaction, table: Table) -> None:
        """Make a table."""
        transaction.execute(create_table(table, DIALECT))

    def rebuild(self, transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
        """Copy the table into another; within `rebuilding` only."""
        _rebuild(transaction, table, columns)


MIGRATOR: Final[Migrator] = _Sqlite()
