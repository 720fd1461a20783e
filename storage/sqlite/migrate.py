"""Bringing an SQLite database to a declared schema, in one transaction and only by what the shape calls for."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from storage.errors import ConstraintError, UnsupportedDatabaseError
from storage.judge import Shape, differences, going, lacking, missing_indexes, older, outdated
from storage.port import Transaction
from storage.schema import Column, Schema, Table
from storage.sqlite.rebuild import rebuild, remake
from storage.sqlite.shape import read_shape
from storage.sqlite.statement_text import create_index, create_table, one_of, quoted
from storage.sqlite.transaction import control


def unreadable_tables(transaction: Transaction, schema: Schema) -> tuple[str, ...]:
    """Return the names of the declared tables that do not exist, or lack a column."""
    shapes = {table: read_shape(transaction, table) for table in schema.tables}
    return tuple(table.name for table, shape in shapes.items() if shape is None or lacking(table, shape))


def pending(transaction: Transaction, schema: Schema) -> tuple[Table, ...]:
    """Judge every table of a schema without writing, and return those that something must be done for.

    Raises:
        UnsupportedDatabaseError: a table has another shape, or rows that its new CHECK would refuse.
    """
    return tuple(table for table in schema.tables if _needs_amending(transaction, table))


def migrate(transaction: Transaction, schema: Schema) -> None:
    """Create what is missing, rebuild what is older and fill it in; judged again here, as nobody else can write now.

    Raises:
        UnsupportedDatabaseError: as `pending`; or the rows do not fit a missing index or the rebuilt table.
    """
    amended = pending(transaction, schema)
    added: set[tuple[str, str]] = set()
    for table in amended:
        try:
            added.update((table.name, column) for column in _amend(transaction, table))
        except ConstraintError as exc:
            raise _unfit(table) from exc
    for backfill in schema.backfills if amended else ():
        if backfill.after is None or backfill.after in added:
            transaction.execute(backfill.statement)


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
    if found := differences(table, shape, remaking=True):
        raise UnsupportedDatabaseError(
            f"table {table.name}: {'; '.join(found)}. The database was left as it was: "
            "open it with the version that made it, or move the table away so that it is made anew"
        )
    columns, is_older = outdated(table, shape), older(table, shape)
    for column in columns:
        _refuse_other_values(transaction, table, column)
    if is_older:
        _refuse_unfit_rows(transaction, table, shape)
        _refuse_unfit_indexes(transaction, table, shape)
    return bool(is_older or columns or missing_indexes(table, shape))


def _refuse_other_values(transaction: Transaction, table: Table, column: Column) -> None:
    sql = f"SELECT 1 AS refused FROM {quoted(table.name)} WHERE NOT ({one_of(column)}) LIMIT 1"
    if transaction.execute(sql):
        raise UnsupportedDatabaseError(
            f"table {table.name}, column {column.name}: expected only {', '.join(column.one_of)}, found rows with "
            "another value; correct these rows, or open the database with the version that wrote them"
        )


def _refuse_unfit_rows(transaction: Transaction, table: Table, shape: Shape) -> None:
    """Find ahead of any change the rows of an older table that the declared one would not take."""
    present = [column for column in table.columns if column.name in shape.kinds]
    unfit = [f"{quoted(column.name)} IS NULL" for column in present if not column.nullable]
    unfit += [f"{quoted(column.name)} < {column.minimum}" for column in present if column.minimum is not None]
    if unfit and transaction.execute(
        f"SELECT 1 AS refused FROM {quoted(table.name)} WHERE {' OR '.join(unfit)} LIMIT 1"
    ):
        raise _unfit(table)


def _refuse_unfit_indexes(transaction: Transaction, table: Table, shape: Shape) -> None:
    """Find ahead of any change what would have to go with a column of the older key, and is not ours to drop."""
    sql = """
        SELECT list.name AS name FROM pragma_index_list(:name) AS list
        JOIN pragma_index_info(list.name) AS info WHERE list.origin = 'c' AND info.name = :column
    """
    for column in going(table, shape):
        if found := transaction.execute(sql, {"name": table.name, "column": column}):
            raise UnsupportedDatabaseError(
                f"table {table.name}: expected no index on {column}, which goes with its older key, found "
                f"{found[0]['name']}; drop it and open the database again, which was left as it was"
            )


def _unfit(table: Table) -> UnsupportedDatabaseError:
    return UnsupportedDatabaseError(
        f"table {table.name}: expected rows that keep its keys and constraints, found some that do not; "
        "correct them and open the database again, which was left as it was"
    )


def _amend(transaction: Transaction, table: Table) -> tuple[str, ...]:
    """Give a table its shape and return the names of the columns that it lacked."""
    shape = read_shape(transaction, table)
    if shape is None:
        transaction.execute(create_table(table))
    elif older(table, shape):
        remake(transaction, table, shape)
    elif columns := outdated(table, shape):
        rebuild(transaction, table, columns)
    indexes = table.indexes if shape is None else missing_indexes(table, shape)
    for index in indexes:
        transaction.execute(create_index(table, index))
    return () if shape is None else tuple(column.name for column in lacking(table, shape))
