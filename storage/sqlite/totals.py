"""Totals on SQLite: three triggers each, so that other programs' statements count as well as the library's own.

Only REPLACE, where it takes the place of a row, escapes them in a program that leaves `recursive_triggers` off:
`storage.totals.wrong_totals` finds that.
"""

import re

from storage.errors import UnsupportedDatabaseError
from storage.port import Transaction
from storage.schema import Schema, Table, Total
from storage.sqlite.statement_text import listed, literal, quoted
from storage.statements import OPAQUE
from storage.totals import read_total, share, summing

_TOKEN = re.compile(rf"{OPAQUE}|[\w$]+|[^\s\w]", re.DOTALL)


def pending_totals(transaction: Transaction, schema: Schema) -> tuple[tuple[Table, Total], ...]:
    """Return the declared totals that are not kept, or not by all of their triggers, without writing.

    Raises:
        UnsupportedDatabaseError: a trigger has a declared name and does something else.
    """
    return tuple((table, total) for table, total in schema.totals if not _is_kept(transaction, table, total))


def keep(transaction: Transaction, table: Table, total: Total) -> None:
    """Create what is missing of a total and sum it up anew: nobody knows what was written while a trigger was gone."""
    for trigger in _missing_triggers(transaction, table, total):
        transaction.execute(_triggers(table, total)[trigger])
    place, summed = quoted(total.kept_in.name), f"SELECT :name, expected FROM ({summing(table, total)})"
    transaction.execute(f"DELETE FROM {place} WHERE name = :name", {"name": total.name})
    transaction.execute(f"INSERT INTO {place} (name, total) {summed}", {"name": total.name})


def _is_kept(transaction: Transaction, table: Table, total: Total) -> bool:
    missing = _missing_triggers(transaction, table, total)
    return not missing and transaction.table_exists(total.kept_in.name) and bool(transaction.execute(read_total(total)))


def _missing_triggers(transaction: Transaction, table: Table, total: Total) -> list[str]:
    missing = []
    for name, text in _triggers(table, total).items():
        rows = transaction.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name COLLATE NOCASE", {"name": name}
        )
        if not rows:
            missing.append(name)
        elif _tokens(str(rows[0]["sql"])) != _tokens(text):
            raise UnsupportedDatabaseError(
                f"table {table.name}: expected {name} to be the trigger that keeps the total {total.name}, found "
                "another of that name. The database was left as it was: drop that trigger, and it is made anew"
            )
    return missing


def _tokens(text: str) -> list[str]:
    """Return what a statement says, whatever its spacing, case and quoting of names."""
    found = (match[0] for match in _TOKEN.finditer(text))
    return [each if each[0] == "'" else each.strip('"`[]').lower() for each in found if each[:2] not in {"--", "/*"}]


def _triggers(table: Table, total: Total) -> dict[str, str]:
    """Return the triggers by name; what adds nothing writes nothing, so that most writes stay one statement."""
    old, new = share(total, "OLD"), share(total, "NEW")
    of_columns = f" OF {listed(total.columns)}" if total.columns else ""
    ways = {
        "insert": ("INSERT", f"{new} <> 0", f"+ {new}"),
        "update": (f"UPDATE{of_columns}", f"{new} <> {old}", f"+ {new} - {old}"),
        "delete": ("DELETE", f"{old} <> 0", f"- {old}"),
    }
    return {
        f"{table.name}_{total.name}_{way}": (
            f"CREATE TRIGGER {quoted(f'{table.name}_{total.name}_{way}')} AFTER {event} ON {quoted(table.name)}"
            f" WHEN {when} BEGIN UPDATE {quoted(total.kept_in.name)} SET total = total {change}"
            f" WHERE name = {literal(total.name)}; END"
        )
        for way, (event, when, change) in ways.items()
    }
