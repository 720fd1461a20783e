"""Totals: what a row adds to them, how they are summed up anew, and the proof that they are right.

The texts serve every engine; how the rows' changes reach a total while others write is each engine's own affair.
"""

from attrs import frozen

from storage.port import Transaction, Value
from storage.schema import Schema, Table, Total

__all__ = ["WrongTotal", "read_total", "share", "summing", "wrong_totals"]


@frozen
class WrongTotal:
    """A total that is not the sum of its table's rows; `found` is None where it is missing."""

    table: str
    name: str
    expected: int
    found: Value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def share(total: Total, row: str = "") -> str:
    """Return, as an SQL expression, what one row adds to the total; `row` qualifies its columns, as in `new`."""
    of_row = f"{row}." if row else ""
    value = "1" if total.column is None else f"COALESCE({of_row}{_quoted(total.column)}, 0)"
    if total.while_null is None:
        return value
    return f"CASE WHEN {of_row}{_quoted(total.while_null)} IS NULL THEN {value} ELSE 0 END"


def summing(table: Table, total: Total) -> str:
    """Return the SELECT that scans the table for what the total must be, in its column `expected`."""
    return f"SELECT COALESCE(SUM({share(total)}), 0) AS expected FROM {_quoted(table.name)}"


def read_total(total: Total) -> str:
    """Return the SELECT of the total as it is kept, in its column `total`."""
    name = "'" + total.name.replace("'", "''") + "'"
    return f"SELECT total FROM {_quoted(total.kept_in.name)} WHERE name = {name}"


def wrong_totals(tx: Transaction, schema: Schema) -> tuple[WrongTotal, ...]:
    """Sum up every declared total anew and return those that are kept wrong, or not at all; none means proven right.

    It scans the tables. A table that does not exist counts as empty, and keeps nothing.

    Raises:
        StorageError: as `Transaction.execute`.
    """
    found = []
    for table, total in schema.totals:
        expected = int(tx.execute(summing(table, total))[0]["expected"] or 0) if tx.table_exists(table.name) else 0
        rows = tx.execute(read_total(total)) if tx.table_exists(total.kept_in.name) else []
        kept = rows[0]["total"] if rows else None
        if kept != expected:
            found.append(WrongTotal(table.name, total.name, expected, kept))
    return tuple(found)
