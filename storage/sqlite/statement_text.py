"""SQL text for SQLite: what creates a declared table, and where the CHECKs stand in what created an existing one."""

import re

from attrs import frozen

from storage.schema import Column, ForeignKey, Index, Table
from storage.statements import OPAQUE

_SEPARATOR = re.compile(rf"(?P<opaque>{OPAQUE})|[(),]", re.DOTALL)
_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"})
_TOKEN = re.compile(rf"(?P<opaque>{OPAQUE})|(?P<word>[^\W\d][\w$]*)|[()]", re.DOTALL)


@frozen
class Check:
    """A CHECK in a CREATE TABLE: where its expression stands, and the names and literals in it."""

    start: int
    end: int
    expression: str
    names: frozenset[str]
    literals: frozenset[str]


@frozen
class Definition:
    """One column or constraint in a CREATE TABLE: its text, the column that it defines, and every name in it.

    Names are in lower case; a constraint of the table defines no column.
    """

    text: str
    column: str | None
    names: frozenset[str]


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


def create_table(table: Table, name: str = "", further: tuple[Definition, ...] = ()) -> str:
    """Return the CREATE TABLE statement of a declared table, maybe under another name and with further definitions."""
    clauses = [_column(column, table) for column in table.columns]
    # Each on a line of its own, which a comment at its end needs.
    clauses += [f"\n{definition.text}\n" for definition in further if definition.column]
    if not table.autoincrement:
        clauses.append(f"PRIMARY KEY ({listed(table.primary_key)})")
    clauses += [f"UNIQUE ({listed(columns)})" for columns in table.unique]
    clauses += [_foreign_key(key) for key in table.foreign_keys]
    clauses += [f"\n{definition.text}\n" for definition in further if not definition.column]
    return f"CREATE TABLE {quoted(name or table.name)} ({', '.join(clauses)})"


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


def definitions(create: str) -> list[Definition]:
    """Return the columns and constraints that a CREATE TABLE statement lists, in its order."""
    found, depth, start = [], 0, 0
    for token in _SEPARATOR.finditer(create):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == "(" and depth == 1:
            start = token.end()
        if (token[0] == "," and depth == 1) or (token[0] == ")" and depth == 0):
            found.append(_definition(create[start : token.start()].strip()))
            start = token.end()
        if token[0] == ")" and depth == 0:
            break
    return found


def _definition(text: str) -> Definition:
    tokens = [token for token in _TOKEN.finditer(text) if not token[0].startswith(("--", "/*"))]
    names = [_unquoted(token[0]).lower() for token in tokens if token["word"] or token["opaque"]]
    constraint = tokens[0]["word"] is not None and tokens[0]["word"].upper() in _CONSTRAINTS
    return Definition(text, None if constraint else names[0], frozenset(names))


def _unquoted(token: str) -> str:
    return token[1:-1].replace(token[0] * 2, token[0]) if token[0] in "'\"`[" else token


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
            text = _unquoted(opaque)
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
