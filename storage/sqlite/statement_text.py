"""SQL text for SQLite: what creates a declared table, and where the CHECKs stand in what created an existing one."""

import re

from attrs import frozen

from storage.schema import Column, ForeignKey, Index, Table
from storage.statements import OPAQUE

_TOKEN = re.compile(rf"(?P<opaque>{OPAQUE})|(?P<word>[^\W\d][\w$]*)|[()]", re.DOTALL)


@frozen
class Check:
    """A CHECK in a CREATE TABLE: where its expression stands, and the names and literals in it."""

    start: int
    end: int
    expression: str
    names: frozenset[str]
    literals: frozenset[str]


def quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


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


def create_table(table: Table) -> str:
    """Return the CREATE TABLE statement of a declared table."""
    clauses = [_column(column, table) for column in table.columns]
    if not table.autoincrement:
        clauses.append(f"PRIMARY KEY ({listed(table.primary_key)})")
    clauses += [f"UNIQUE ({listed(columns)})" for columns in table.unique]
    clauses += [_foreign_key(key) for key in table.foreign_keys]
    return f"CREATE TABLE {quoted(table.name)} ({', '.join(clauses)})"


def create_index(table: Table, index: Index) -> str:
    """Return the CREATE INDEX statement of a declared index."""
    unique = "UNIQUE " if index.unique else ""
    return f"CREATE {unique}INDEX {quoted(index.name)} ON {quoted(table.name)} ({listed(index.columns)})"


def checks(create: str) -> list[Check]:
    """Find the CHECK expressions in a CREATE TABLE statement, wherever they stand in it."""
    found = []
    tokens = list(_TOKEN.finditer(create))
    for position, token in enumerate(tokens[:-1]):
        if token["word"] and token["word"].upper() == "CHECK" and tokens[position + 1][0] == "(":
            found.append(_check(create, tokens[position + 1 :]))
    return found


def renamed(create: str, name: str, replacements: dict[Check, str]) -> str:
    """Return a CREATE TABLE statement for another name, with expressions of its CHECKs replaced."""
    body = next(token.start() for token in _TOKEN.finditer(create) if token[0] == "(")
    for check in sorted(replacements, key=lambda check: check.start, reverse=True):
        create = create[: check.start] + replacements[check] + create[check.end :]
    return f"CREATE TABLE {quoted(name)} {create[body:]}"


def has_word(create: str, word: str) -> bool:
    """Tell whether a bare word stands in a statement, outside quotes and comments."""
    return any(token["word"] and token["word"].upper() == word for token in _TOKEN.finditer(create))


def _check(create: str, tokens: list[re.Match[str]]) -> Check:
    depth = 0
    names: set[str] = set()
    literals: set[str] = set()
    closing = tokens[0]
    for closing in tokens:
        depth += {"(": 1, ")": -1}.get(closing[0], 0)
        if depth == 0:
            break
        if closing["word"]:
            names.add(closing["word"].lower())
        elif (opaque := closing["opaque"]) and opaque[0] in "'\"`[":
            # SQLite takes a double-quoted name that is no column for a literal, so it counts as both.
            text = opaque[1:-1].replace(opaque[0] * 2, opaque[0])
            (literals if opaque[0] in "'\"" else names).add(text)
            if opaque[0] != "'":
                names.add(text.lower())
    start, end = tokens[0].end(), closing.start()
    return Check(start, end, create[start:end], frozenset(names), frozenset(literals))


def _column(column: Column, table: Table) -> str:
    parts = [quoted(column.name), column.type]
    if not column.nullable:
        parts.append("NOT NULL")
    if table.autoincrement and column.name == table.primary_key[0]:
        parts.append("PRIMARY KEY AUTOINCREMENT")
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
