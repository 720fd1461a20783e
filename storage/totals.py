"""Totals: what a row adds to them, how they are summed up anew, and the proof that they are right.

The texts serve every engine; how the rows' changes reach a total while others write is each engine's own affair.
"""

import re

from attrs import frozen

from storage.creating import literal
from storage.port import Transaction, Value
from storage.schema import Schema, Table, Total
from storage.statements import OPAQUE, quoted

__all__ = ["WrongTotal", "is_kept", "read_total", "share", "sum_up", "summing", "words_of", "wrong_totals"]

_WORD = re.compile(rf"{OPAQUE}|[\w$]+|[^\s\w]", re.DOTALL)


@frozen
class WrongTotal:
    """A total that is not the sum of its table's rows; `found` is None where it is missing."""

    table: str
    name: str
    expected: int
    found: Value


def share(total: Total, row: str = "") -> str:
    """Return, as an SQL expression, what one row adds to the total; `row` qualifies its columns, as in `new`."""
    of_row = f"{row}." if row else ""
    value = "1" if total.column is None else f"COALESCE({of_row}{quoted(total.column)}, 0)"
    if total.while_null is None:
        return value
    return f"CASE WHEN {of_row}{quoted(total.while_null)} IS NULL THEN {value} ELSE 0 END"


def summing(table: Table, total: Total) -> str:
    """Return the SELECT that scans the table for what the total must be, in its column `expected`."""
    return f"SELECT COALESCE(SUM({share(total)}), 0) AS expected FROM {quoted(table.name)}"


def read_total(total: Total) -> str:
    """Return the SELECT of the total as it is kept, in its column `total`."""
    return f"SELECT total FROM {quoted(total.kept_in.name)} WHERE name = {literal(total.name)}"


def is_kept(transaction: Transaction, total: Total) -> bool:
    """Tell whether the total has its row."""
    return transaction.table_exists(total.kept_in.name) and bool(transaction.execute(read_total(total)))


def sum_up(transaction: Transaction, table: Table, total: Total) -> None:
    """Store what the rows of the table come to now."""
    place = quoted(total.kept_in.name)
    transaction.execute(f"DELETE FROM {place} WHERE name = :name", {"name": total.name})
    summed = f"SELECT {literal(total.name)}, expected FROM ({summing(table, total)}) AS summed"
    transaction.execute(f"INSERT INTO {place} (name, total) {summed}")


def words_of(text: str) -> list[str]:
    """Return what a statement says, whatever its spacing, case and quoting of names."""
    found = (match[0] for match in _WORD.finditer(text))
    return [each if each[0] == "'" else each.strip('"`[]').lower() for each in found if each[:2] not in {"--", "/*"}]


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
