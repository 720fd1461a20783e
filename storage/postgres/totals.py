"""Totals on PostgreSQL: one trigger each, so that other programs' statements count as well as the library's own.

The row of a total is locked by the first change that moves it, until the end of its transaction: transactions that move
one total come one after the other.
"""

from typing import Final

from storage.creating import listed, literal
from storage.errors import UnsupportedDatabaseError
from storage.port import Transaction
from storage.schema import Table, Total
from storage.statements import quoted
from storage.totals import share, words_of

__all__ = ["create_trigger", "missing_triggers"]

_KEPT: Final = """
    SELECT function.prosrc AS body,
        entry.tgtype = 29 AND entry.tgenabled = 'O' AND entry.tgqual IS NULL AND function.proname = :name AS fits
    FROM pg_trigger AS entry JOIN pg_class AS class ON class.oid = entry.tgrelid
    JOIN pg_proc AS function ON function.oid = entry.tgfoid
    WHERE class.relnamespace = current_schema()::regnamespace AND class.relname = :table
        AND entry.tgname = :name AND NOT entry.tgisinternal
"""
"""Type 29 is a trigger for each row, after its insertion, update or deletion."""


def missing_triggers(transaction: Transaction, table: Table, total: Total) -> list[str]:
    """Return the names of the triggers that a total lacks; see `Migrator`."""
    name = f"{table.name}_{total.name}"
    rows = transaction.execute(_KEPT, {"name": name, "table": table.name})
    if not rows:
        return [name]
    body = _body(transaction, total) if rows[0]["fits"] else ""
    if words_of(str(rows[0]["body"])) != words_of(body):
        raise UnsupportedDatabaseError(
            f"table {table.name}: expected {name} to be the trigger that keeps the total {total.name}, found "
            "another of that name. The database was left as it was: drop that trigger, and it is made anew"
        )
    return []


def create_trigger(transaction: Transaction, table: Table, total: Total, name: str) -> None:
    """Make the trigger that keeps a total, and the function that it runs."""
    body = literal(_body(transaction, total))
    transaction.execute(f"CREATE OR REPLACE FUNCTION {quoted(name)}() RETURNS trigger LANGUAGE plpgsql AS {body}")
    of_columns = f" OF {listed(total.columns)}" if total.columns else ""
    transaction.execute(
        f"CREATE TRIGGER {quoted(name)} AFTER INSERT OR DELETE OR UPDATE{of_columns} ON {quoted(table.name)}"
        f" FOR EACH ROW EXECUTE FUNCTION {quoted(name)}()"
    )


def _body(transaction: Transaction, total: Total) -> str:
    """Return what the function does; it names the schema, which whoever writes the rows need not have in mind."""
    (row,) = transaction.execute("SELECT current_schema() AS schema")
    place = f"{quoted(str(row['schema']))}.{quoted(total.kept_in.name)}"
    old, new = share(total, "OLD"), share(total, "NEW")
    return f"""
    DECLARE change bigint;
    BEGIN
        CASE TG_OP
            WHEN 'INSERT' THEN change := {new};
            WHEN 'DELETE' THEN change := - ({old});
            ELSE change := ({new}) - ({old});
        END CASE;
        IF change <> 0 THEN
            UPDATE {place} SET total = total + change WHERE name = {literal(total.name)};
        END IF;
        RETURN NULL;
    END
    """
