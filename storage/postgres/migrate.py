"""How PostgreSQL makes and amends a declared table."""

from typing import Final

from storage.creating import create_table, one_of
from storage.judge import Shape
from storage.migrating import Migrator
from storage.port import Transaction
from storage.postgres.shape import DIALECT, checks_of, read_shapes
from storage.postgres.totals import create_trigger, missing_triggers
from storage.schema import Column, Table, Total
from storage.statements import quoted

__all__ = ["MIGRATOR"]


class _Postgres(Migrator):
    def shapes(self, transaction: Transaction, tables: tuple[Table, ...]) -> dict[str, Shape]:
        """Read them from the catalogue, all at once."""
        return read_shapes(transaction, tables)

    def create(self, transaction: Transaction, table: Table) -> None:
        """Make a table."""
        transaction.execute(create_table(table, DIALECT))

    def rebuild(self, transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
        """Put one declared condition in the place of a column's CHECKs; the rows stay where they are."""
        for column in columns:
            for name in checks_of(transaction, table, column):
                transaction.execute(f"ALTER TABLE {quoted(table.name)} DROP CONSTRAINT {quoted(name)}")
            transaction.execute(f"ALTER TABLE {quoted(table.name)} ADD CHECK ({one_of(column)})")

    def missing_triggers(self, transaction: Transaction, table: Table, total: Total) -> list[str]:
        """Compare it with the catalogue's, word by word."""
        return missing_triggers(transaction, table, total)

    def create_trigger(self, transaction: Transaction, table: Table, total: Total, name: str) -> None:
        """Make it, with its function."""
        create_trigger(transaction, table, total, name)


MIGRATOR: Final[Migrator] = _Postgres()
