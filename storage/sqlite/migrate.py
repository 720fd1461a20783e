"""Bringing an SQLite database to a declared schema, in one transaction and only by what the shape calls for."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from storage.errors import ConstraintError, UnsupportedDatabaseError
from storage.judge import differences, missing_indexes, outdated
from storage.port import Transaction
from storage.schema import Column, Schema, Table
from storage.sqlite.shape import creating_text, limiting_checks, read_shape
from storage.sqlite.statement_text import Check, create_index, create_table, listed, literal, one_of, quoted, renamed
from storage.sqlite.totals import keep, pending_totals
from storage.sqlite.transaction import control


def missing_tables(transaction: Transaction, schema: Schema) -> tuple[str, ...]:
    """Return the names of the declared tables that do not exist, but for those of totals: only writers need them."""
    kept = {total.kept_in.name for _, total in schema.totals}
    wanted = (table for table in schema.tables if table.name not in kept)
    return tuple(table.name for table in wanted if read_shape(transaction, table) is None)


def is_current(transaction: Transaction, schema: Schema) -> bool:
    """Judge a schema without writing, and say whether there is nothing to be done for it.

    Raises:
        UnsupportedDatabaseError: as `pending`; or a trigger of a total is another one of that name.
    """
    return not pending(transaction, schema) and not pending_totals(transaction, schema)


def pending(transaction: Transaction, schema: Schema) -> tuple[Table, ...]:
    """Judge every table of a schema without writing, and return those that something must be done for.

    Raises:
        UnsupportedDatabaseError: a table has another shape, or rows that its new CHECK would refuse.
    """
    return tuple(table for table in schema.tables if _needs_amending(transaction, table))


def migrate(transaction: Transaction, schema: Schema) -> None:
    """Create what is missing and rebuild what is outdated; judged again here, now that nobody else can write.

    Totals come last: they are summed up over the rows as they are then.

    Raises:
        UnsupportedDatabaseError: as `is_current`; or the rows do not fit a missing index or the rebuilt table.
    """
    for table in pending(transaction, schema):
        try:
            _amend(transaction, table)
        except ConstraintError as exc:
            raise UnsupportedDatabaseError(
                f"table {table.name}: expected rows that keep its keys and constraints, found some that do not; "
                "correct them and open the database again, which was left as it was"
            ) from exc
    for table, total in pending_totals(transaction, schema):
        keep(transaction, table, total)


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


def _needs_amending(transaction: Transaction, table: Table) -> bool:
    shape = read_shape(transaction, table)
    if shape is None:
        return True
    if found := differences(table, shape):
        raise UnsupportedDatabaseError(
            f"table {table.name}: {'; '.join(found)}. The database was left as it was: "
            "open it with the version that made it, or move the table away so that it is made anew"
        )
    columns = outdated(table, shape)
    for column in columns:
        _refuse_other_values(transaction, table, column)
    return bool(columns or missing_indexes(table, shape))


def _refuse_other_values(transaction: Transaction, table: Table, column: Column) -> None:
    sql = f"SELECT 1 AS refused FROM {quoted(table.name)} WHERE NOT ({one_of(column)}) LIMIT 1"
    if transaction.execute(sql):
        raise UnsupportedDatabaseError(
            f"table {table.name}, column {column.name}: expected only {', '.join(column.one_of)}, found rows with "
            "another value; correct these rows, or open the database with the version that wrote them"
        )


def _amend(transaction: Transaction, table: Table) -> None:
    shape = read_shape(transaction, table)
    if shape is None:
        transaction.execute(create_table(table))
    elif columns := outdated(table, shape):
        _rebuild(transaction, table, columns)
    indexes = table.indexes if shape is None else missing_indexes(table, shape)
    for index in indexes:
        transaction.execute(create_index(table, index))


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
