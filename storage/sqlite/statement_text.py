"""SQL text that created an existing SQLite table: where its CHECKs stand in it."""

import re

from attrs import frozen

from storage.creating import Dialect
from storage.statements import OPAQUE, quoted

DIALECT = Dialect(identity="PRIMARY KEY AUTOINCREMENT", own_key=True)

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
