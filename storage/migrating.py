"""Bringing a database to a declared schema, in one transaction and only by what the shape of each table calls for."""

from abc import ABC, abstractmethod

from storage.creating import create_index, one_of
from storage.errors import ConstraintError, UnsupportedDatabaseError
from storage.judge import Shape, differences, missing_indexes, outdated
from storage.port import Transaction
from storage.schema import Column, Schema, Table
from storage.statements import quoted

__all__ = ["Migrator"]


class Migrator(ABC):
    """What is done for a schema, over what an engine reads of its tables and how it makes and amends one."""

    @abstractmethod
    def shapes(self, transaction: Transaction, tables: tuple[Table, ...]) -> dict[str, Shape]:
        """Read the shapes of declared tables by their names, without those of which nothing has the name."""

    @abstractmethod
    def create(self, transaction: Transaction, table: Table) -> None:
        """Make a table, without its indexes."""

    @abstractmethod
    def rebuild(self, transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
        """Let the CHECKs of these columns accept exactly the declared values; everything else stays."""

    def missing_tables(self, transaction: Transaction, schema: Schema) -> tuple[str, ...]:
        """Return the names of the declared tables that do not exist."""
        found = self.shapes(transaction, schema.tables)
        return tuple(table.name for table in schema.tables if table.name not in found)

    def pending(self, transaction: Transaction, schema: Schema) -> tuple[Table, ...]:
        """Judge every table of a schema without writing, and return those that something must be done for.

        Raises:
            UnsupportedDatabaseError: a table has another shape, or rows that its new CHECK would refuse.
        """
        found = self.shapes(transaction, schema.tables)
        return tuple(table for table in schema.tables if _needs_amending(transaction, table, found.get(table.name)))

    def migrate(self, transaction: Transaction, schema: Schema) -> None:
        """Create what is missing and rebuild what is outdated; judged again here, now that nobody else can write.

        Raises:
            UnsupportedDatabaseError: as `pending`; or the rows do not fit a missing index or the rebuilt table.
        """
        pending = self.pending(transaction, schema)
        found = self.shapes(transaction, pending)
        for table in pending:
            try:
                self._amend(transaction, table, found.get(table.name))
            except ConstraintError as exc:
                raise UnsupportedDatabaseError(
                    f"table {table.name}: expected rows that keep its keys and constraints, found some that do not; "
                    "correct them and open the database again, which was left as it was"
                ) from exc

    def _amend(self, transaction: Transaction, table: Table, shape: Shape | None) -> None:
        if shape is None:
            self.create(transaction, table)
        elif columns := outdated(table, shape):
            self.rebuild(transaction, table, columns)
        indexes = table.indexes if shape is None else missing_indexes(table, shape)
        for index in indexes:
            transaction.execute(create_index(table, index))


def _needs_amending(transaction: Transaction, table: Table, shape: Shape | None) -> bool:
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
