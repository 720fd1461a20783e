"""SQL text that created an existing SQLite table: where its CHECKs stand in it."""

import re

from attrs import frozen

from storage.creating import Dialect
from storage.statements import OPAQUE, quoted

DIALECT = Dialect(identity="PRIMARY KEY AUTOINCREMENT", own_key=True)

_TOKEN = re.compile(rf"(?P<opaque>{OPAQUE})|(?P<word>[^\W\d][\w$]*)|[()]", re.DOTALL)


@frozen
class Check:
    """A CHECK in a CREATE TABLE: where its expression stands, and the names and literals in it."""

    start: int
    end: int
    expression: str
    names: frozenset[str]
    literals: frozenset[str]


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
