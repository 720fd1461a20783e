"""Totals on SQLite: three triggers each, so that other programs' statements count as well as the library's own.

Only REPLACE, where it takes the place of a row, escapes them in a program that leaves `recursive_triggers` off:
`storage.totals.wrong_totals` finds that.
"""

from storage.creating import listed, literal
from storage.errors import UnsupportedDatabaseError
from storage.port import Transaction
from storage.schema import Table, Total
from storage.statements import quoted
from storage.totals import share, words_of


def missing_triggers(transaction: Transaction, table: Table, total: Total) -> list[str]:
    """Return the names of the triggers that a total lacks; see `Migrator`."""
    missing = []
    for name, text in _triggers(table, total).items():
        rows = transaction.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name COLLATE NOCASE", {"name": name}
        )
        if not rows:
            missing.append(name)
        elif words_of(str(rows[0]["sql"])) != words_of(text):
            raise UnsupportedDatabaseError(
                f"table {table.name}: expected {name} to be the trigger that keeps the total {total.name}, found "
                "another of that name. The database was left as it was: drop that trigger, and it is made anew"
            )
    return missing


def create_trigger(transaction: Transaction, table: Table, total: Total, name: str) -> None:
    """Make one of the triggers that keep a total."""
    transaction.execute(_triggers(table, total)[name])


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
