"""Bringing a database to a declared schema, in one transaction and only by what the shape of each table calls for."""

from abc import ABC, abstractmethod
from typing import ClassVar

from storage.creating import create_index, one_of
from storage.errors import ConstraintError, UnsupportedDatabaseError
from storage.judge import Shape, differences, going, lacking, missing_indexes, older, outdated
from storage.port import Transaction
from storage.schema import Column, Schema, Table, Total
from storage.statements import quoted
from storage.totals import is_kept, sum_up

__all__ = ["Migrator"]


class Migrator(ABC):
    """What is done for a schema, over what an engine reads of its tables and how it makes and amends one."""

    remakes: ClassVar[bool] = False
    """Whether tables of the older shapes that a declaration knows are made anew, rather than refused like any other."""

    @abstractmethod
    def shapes(self, transaction: Transaction, tables: tuple[Table, ...]) -> dict[str, Shape]:
        """Read the shapes of declared tables by their names, without those of which nothing has the name."""

    @abstractmethod
    def create(self, transaction: Transaction, table: Table) -> None:
        """Make a table, without its indexes."""

    @abstractmethod
    def rebuild(self, transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
        """Let the CHECKs of these columns accept exactly the declared values; everything else stays."""

    def remake(self, transaction: Transaction, table: Table, shape: Shape) -> None:
        """Give a table the columns that it lacks, or another primary key, where the engine `remakes`."""
        del transaction, shape
        raise UnsupportedDatabaseError(f"table {table.name}: this engine makes no older table anew; move it away")

    def indexes_on(self, transaction: Transaction, table: Table, column: str) -> tuple[str, ...]:
        """Return the names of the indexes that somebody has made on a column, where the engine `remakes`."""
        del transaction, table, column
        return ()

    @abstractmethod
    def missing_triggers(self, transaction: Transaction, table: Table, total: Total) -> list[str]:
        """Return the names of the triggers that a total lacks.

        Raises:
            UnsupportedDatabaseError: a trigger has a declared name and does something else.
        """

    @abstractmethod
    def create_trigger(self, transaction: Transaction, table: Table, total: Total, name: str) -> None:
        """Make one of the triggers that keep a total."""

    def unreadable_tables(self, transaction: Transaction, schema: Schema) -> tuple[str, ...]:
        """Return the names of the declared tables that do not exist, or lack a column; only writers need totals."""
        found = self.shapes(transaction, schema.tables)
        kept = {total.kept_in.name for _, total in schema.totals}
        wanted = (table for table in schema.tables if table.name not in kept)
        return tuple(table.name for table in wanted if table.name not in found or lacking(table, found[table.name]))

    def is_current(self, transaction: Transaction, schema: Schema) -> bool:
        """Judge a schema without writing, and say whether there is nothing to be done for it.

        Raises:
            UnsupportedDatabaseError: as `pending`; or a trigger of a total is another one of that name.
        """
        return not self.pending(transaction, schema) and not self._lost_totals(transaction, schema)

    def pending(self, transaction: Transaction, schema: Schema) -> tuple[Table, ...]:
        """Judge every table of a schema without writing, and return those that something must be done for.

        Raises:
            UnsupportedDatabaseError: a table has another shape, or rows that its new CHECK would refuse.
        """
        found = self.shapes(transaction, schema.tables)
        return tuple(
            table for table in schema.tables if self._needs_amending(transaction, table, found.get(table.name))
        )

    def migrate(self, transaction: Transaction, schema: Schema) -> None:
        """Create what is missing, rebuild what is older and fill it in; judged again here, as nobody else writes now.

        Totals come last: they are summed up over the rows as they are then.

        Raises:
            UnsupportedDatabaseError: as `is_current`; or the rows do not fit a missing index or the rebuilt table.
        """
        amended = self.pending(transaction, schema)
        found = self.shapes(transaction, amended)
        added: set[tuple[str, str]] = set()
        for table in amended:
            try:
                columns = self._amend(transaction, table, found.get(table.name))
            except ConstraintError as exc:
                raise _unfit(table) from exc
            added.update((table.name, column) for column in columns)
        for backfill in schema.backfills if amended else ():
            if backfill.after is None or backfill.after in added:
                transaction.execute(backfill.statement)
        for table, total in self._lost_totals(transaction, schema):
            # Summed up anew, for nobody knows what was written while a trigger was gone.
            for name in self.missing_triggers(transaction, table, total):
                self.create_trigger(transaction, table, total, name)
            sum_up(transaction, table, total)

    def _lost_totals(self, transaction: Transaction, schema: Schema) -> tuple[tuple[Table, Total], ...]:
        """Return the totals that are not kept, or not by all of their triggers."""
        return tuple(
            (table, total)
            for table, total in schema.totals
            if self.missing_triggers(transaction, table, total) or not is_kept(transaction, total)
        )

    def _needs_amending(self, transaction: Transaction, table: Table, shape: Shape | None) -> bool:
        if shape is None:
            return True
        if found := differences(table, shape, remaking=self.remakes):
            raise UnsupportedDatabaseError(
                f"table {table.name}: {'; '.join(found)}. The database was left as it was: "
                "open it with the version that made it, or move the table away so that it is made anew"
            )
        columns, is_older = outdated(table, shape), older(table, shape)
        for column in columns:
            _refuse_other_values(transaction, table, column)
        if is_older:
            _refuse_unfit_rows(transaction, table, shape)
            self._refuse_unfit_indexes(transaction, table, shape)
        return bool(is_older or columns or missing_indexes(table, shape))

    def _refuse_unfit_indexes(self, transaction: Transaction, table: Table, shape: Shape) -> None:
        """Find ahead of any change what would have to go with a column of the older key, and is not ours to drop."""
        for column in going(table, shape):
            if found := self.indexes_on(transaction, table, column):
                raise UnsupportedDatabaseError(
                    f"table {table.name}: expected no index on {column}, which goes with its older key, found "
                    f"{found[0]}; drop it and open the database again, which was left as it was"
                )

    def _amend(self, transaction: Transaction, table: Table, shape: Shape | None) -> tuple[str, ...]:
        """Give a table its shape and return the names of the columns that it lacked."""
        if shape is None:
            self.create(transaction, table)
        elif older(table, shape):
            self.remake(transaction, table, shape)
        elif columns := outdated(table, shape):
            self.rebuild(transaction, table, columns)
        indexes = table.indexes if shape is None else missing_indexes(table, shape)
        for index in indexes:
            transaction.execute(create_index(table, index))
        return () if shape is None else tuple(column.name for column in lacking(table, shape))


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


def _unfit(table: Table) -> UnsupportedDatabaseError:
    return UnsupportedDatabaseError(
        f"table {table.name}: expected rows that keep its keys and constraints, found some that do not; "
        "correct them and open the database again, which was left as it was"
    )
