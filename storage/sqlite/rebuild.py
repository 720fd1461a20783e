"""A table of an older shape made anew: copied row by row into one that has the shape, which takes its place."""

from collections.abc import Callable, Mapping
from itertools import count

from storage.creating import create_table, listed, literal, one_of
from storage.errors import UnsupportedDatabaseError
from storage.judge import Shape, going, lacking
from storage.port import Transaction
from storage.schema import Column, Table
from storage.sqlite.shape import creating_text, limiting_checks
from storage.sqlite.statement_text import DIALECT, Check, Definition, definitions, renamed
from storage.statements import quoted


def rebuild(transaction: Transaction, table: Table, columns: tuple[Column, ...]) -> None:
    """Let a table differ in the CHECKs of these columns.

    The new one is made from the text of the old one, so that further columns, their types, defaults and constraints
    stay what they are.
    """
    create = creating_text(transaction, table.name) or ""
    stored = _stored_columns(transaction, table.name)
    replacements = _replacements(create, columns, frozenset(name.lower() for name in stored))
    values = {name: quoted(name) for name, writable in stored.items() if writable}
    _replace(transaction, table, lambda name: renamed(create, name, replacements), values)


def remake(transaction: Transaction, table: Table, shape: Shape) -> None:
    """Give a table the columns that it lacks, or another primary key.

    The new one is made as it is declared, with the further columns of the old one behind: all but those of a primary
    key that it has no longer, which named the rows and nothing else.
    """
    given = {column.name: column.added.value for column in lacking(table, shape) if column.added is not None}
    further = _further(transaction, table, shape)
    kept = {definition.column for definition in further}
    values = {name: "NULL" if value is None else literal(value) for name, value in given.items()}
    for name, writable in _stored_columns(transaction, table.name).items():
        declared = any(column.name.lower() == name.lower() for column in table.columns)
        if writable and (declared or name.lower() in kept):
            values[name] = quoted(name)
    columns, constraints = (
        tuple(each.text for each in further if (each.column is None) == constrains) for constrains in (False, True)
    )
    _replace(transaction, table, lambda name: create_table(table, DIALECT, name, columns, constraints), values)


def _further(transaction: Transaction, table: Table, shape: Shape) -> tuple[Definition, ...]:
    """Return what defines the columns that are not declared, and the constraints that speak of one of these."""
    found = definitions(creating_text(transaction, table.name) or "")
    known = {column.name.lower() for column in table.columns} | {name.lower() for name in going(table, shape)}
    columns = tuple(each for each in found if each.column is not None and each.column not in known)
    names = {each.column for each in columns}
    return (*columns, *(each for each in found if each.column is None and each.names & names))


def _stored_columns(transaction: Transaction, name: str) -> dict[str, bool]:
    """Return the names of a table's columns, and whether they are written rather than computed."""
    rows = transaction.execute("SELECT name, hidden FROM pragma_table_xinfo(:name)", {"name": name})
    return {str(row["name"]): row["hidden"] == 0 for row in rows}


def _replace(transaction: Transaction, table: Table, create: Callable[[str], str], values: Mapping[str, str]) -> None:
    """Copy a table into the one that `create` makes under a name, and put that in its place with all that hung on it.

    `values` are the expressions over the old table by the columns of the new one.
    """
    following = _free_name(transaction, table.name)
    attached = transaction.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = :name AND type IN ('index', 'trigger') AND sql IS NOT NULL",
        {"name": table.name},
    )
    transaction.execute(create(following))
    transaction.execute(_copy(table, following, values))
    _compare_counts(transaction, table, following, values)
    _carry_sequence(transaction, table, following)
    transaction.execute(f"DROP TABLE {quoted(table.name)}")
    transaction.execute(f"ALTER TABLE {quoted(following)} RENAME TO {quoted(table.name)}")
    for row in attached:
        transaction.execute(str(row["sql"]))


def _copy(table: Table, following: str, values: Mapping[str, str]) -> str:
    copied = (
        f"INSERT INTO {quoted(following)} ({listed(tuple(values))}) SELECT {', '.join(values.values())}"
        f" FROM {quoted(table.name)}"
    )
    # Without an index the rows come in the order in which they are stored, so that the first is the oldest.
    ignoring = f" NOT INDEXED WHERE 1 ON CONFLICT ({listed(table.primary_key)}) DO NOTHING"
    return copied + ignoring if table.rekeyed else copied


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


def _compare_counts(transaction: Transaction, table: Table, following: str, values: Mapping[str, str]) -> None:
    expected = f"SELECT count(*) FROM {quoted(table.name)}"
    if table.rekeyed:
        key = ", ".join(values[name] for name in table.primary_key)
        expected = f"SELECT count(*) FROM (SELECT DISTINCT {key} FROM {quoted(table.name)})"
    (counts,) = transaction.execute(
        f"SELECT ({expected}) AS before, (SELECT count(*) FROM {quoted(following)}) AS after"
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
