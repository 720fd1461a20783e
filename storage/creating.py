"""SQL text that makes a declared table, in the few words by which each engine spells it."""

from collections.abc import Mapping

from attrs import field, frozen

from storage.schema import Column, ForeignKey, Index, Table
from storage.statements import quoted

__all__ = ["Dialect", "create_index", "create_table", "listed", "literal", "one_of"]


@frozen
class Dialect:
    """How an engine spells the declared types, and a key whose values it gives out itself.

    `own_key` where such a key is declared within its column, and not among the keys of the table.
    """

    types: Mapping[str, str] = field(factory=dict)
    identity: str = ""
    own_key: bool = False

    def type_of(self, column: Column) -> str:
        """Return the type of a column."""
        return self.types.get(column.type, column.type)


def listed(names: tuple[str, ...]) -> str:
    """Return names as a list of quoted identifiers."""
    return ", ".join(quoted(name) for name in names)


def literal(value: str | int) -> str:
    """Return a value as an SQL literal."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def one_of(column: Column) -> str:
    """Return the condition that a column holds one of its declared values, or NULL where it may."""
    condition = f"{quoted(column.name)} IN ({', '.join(literal(value) for value in column.one_of)})"
    return _or_null(column, condition)


def create_table(
    table: Table, dialect: Dialect, name: str = "", columns: tuple[str, ...] = (), constraints: tuple[str, ...] = ()
) -> str:
    """Return the CREATE TABLE statement of a declared table, maybe under another name and with further definitions."""
    clauses = [_column(column, table, dialect) for column in table.columns]
    # Each on a line of its own, which a comment at its end needs.
    clauses += [f"\n{text}\n" for text in columns]
    if not (table.autoincrement and dialect.own_key):
        clauses.append(f"PRIMARY KEY ({listed(table.primary_key)})")
    clauses += [f"UNIQUE ({listed(columns)})" for columns in table.unique]
    clauses += [_foreign_key(key) for key in table.foreign_keys]
    clauses += [f"\n{text}\n" for text in constraints]
    return f"CREATE TABLE {quoted(name or table.name)} ({', '.join(clauses)})"


def create_index(table: Table, index: Index) -> str:
    """Return the CREATE INDEX statement of a declared index."""
    unique = "UNIQUE " if index.unique else ""
    return f"CREATE {unique}INDEX {quoted(index.name)} ON {quoted(table.name)} ({listed(index.columns)})"


def _column(column: Column, table: Table, dialect: Dialect) -> str:
    parts = [quoted(column.name), dialect.type_of(column)]
    if not column.nullable:
        parts.append("NOT NULL")
    if table.autoincrement and column.name == table.primary_key[0]:
        parts.append(dialect.identity)
    if column.default is not None:
        parts.append(f"DEFAULT {literal(column.default)}")
    if column.minimum is not None:
        parts.append(f"CHECK ({_or_null(column, f'{quoted(column.name)} >= {column.minimum}')})")
    if column.one_of:
        parts.append(f"CHECK ({one_of(column)})")
    return " ".join(parts)


def _or_null(column: Column, condition: str) -> str:
    return f"{quoted(column.name)} IS NULL OR {condition}" if column.nullable else condition


def _foreign_key(key: ForeignKey) -> str:
    return f"FOREIGN KEY ({listed(key.columns)}) REFERENCES {quoted(key.table)} ({listed(key.references)})"
