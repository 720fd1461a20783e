"""One text of a statement for every engine: what it may be, and how each engine spells it."""

import re
from collections.abc import Callable
from typing import Generic, TypeVar

from storage.errors import StorageError

Translated = TypeVar("Translated")

# Quoted text and comments are matched first so that nothing inside them is taken for SQL.
OPAQUE = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)"""

_OPAQUE = re.compile(OPAQUE, re.DOTALL)
_SECOND = re.compile(r";\s*[^\s;]")
_PLACEHOLDER = re.compile(rf"(?:{OPAQUE})|::|:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|%", re.DOTALL)
_SPELLED_OTHERWISE = re.compile(
    rf"(?P<opaque>{OPAQUE})|\bIS\s+(?P<equal>NOT\s+)?DISTINCT\s+FROM\b"
    r"|\bOCTET_LENGTH\s*\((?P<measured>[\w\s.\"]+)\)",
    re.IGNORECASE | re.DOTALL,
)
_OPAQUE_OR_WORD = re.compile(rf"(?:{OPAQUE})|(?P<word>[A-Za-z_][A-Za-z0-9_]*)", re.DOTALL)

_CONTROL = frozenset(
    {
        *("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"),
        *("SET", "RESET", "DISCARD", "LOAD", "LISTEN", "UNLISTEN", "PRAGMA", "ATTACH", "DETACH", "VACUUM"),
        # PREPARE TRANSACTION takes the transaction out of the hands of whoever commits it.
        *("PREPARE", "EXECUTE", "DEALLOCATE"),
    }
)
_READING = frozenset({"SELECT", "WITH", "VALUES", "EXPLAIN"})
# INTO, UPDATE and DELETE are reserved words: no bare name can be one, and no writing statement lacks all three.
_WRITING = frozenset({"INTO", "UPDATE", "DELETE"})

_MAXIMUM_TEXTS = 4096


def quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def words(sql: str) -> list[str]:
    """Return the bare words of a statement in upper case, without quoted text and comments."""
    return [match["word"].upper() for match in _OPAQUE_OR_WORD.finditer(sql) if match["word"]]


def refuse_control(sql: str) -> None:
    """Refuse what would end the transaction or change the connection.

    Raises:
        StorageError: the first word of the statement is a control word, or there is none; or the text holds NUL.
    """
    if "\0" in sql:
        raise StorageError("expected one SQL statement, found a text with NUL in it; take that out")
    first = next(iter(words(sql)), "")
    if not first:
        raise StorageError("expected one SQL statement, found none; pass the text of a statement")
    if first in _CONTROL:
        raise StorageError(
            f"expected a statement that reads or writes rows, found {first}; "
            "a transaction must not commit or be reconfigured from within: end its body, or raise to roll back"
        )


def refuse_several(sql: str) -> None:
    """Refuse a text of several statements, for drivers that would run them all.

    Raises:
        StorageError: something follows a semicolon.
    """
    if _SECOND.search(_OPAQUE.sub("x", sql)):
        raise StorageError("expected one SQL statement, found several; pass them one by one")


def refuse_write(sql: str) -> None:
    """Refuse everything but reading.

    Raises:
        StorageError: the statement is not a query.
    """
    refuse_control(sql)
    if not reads(sql):
        raise StorageError("expected a query, found a statement that writes; use Database.write for it")


def reads(sql: str) -> bool:
    """Tell whether a statement is a query, which changes nothing however often it is run."""
    found = words(sql)
    return found[0] in _READING and (found[0] == "EXPLAIN" or _WRITING.isdisjoint(found))


def sqlite_text(sql: str) -> str:
    """Spell `IS [NOT] DISTINCT FROM` and `octet_length(column)` as SQLite has them, outside quotes and comments."""
    return _SPELLED_OTHERWISE.sub(_for_sqlite, sql)


def _for_sqlite(match: re.Match[str]) -> str:
    if match["opaque"]:
        return match["opaque"]
    if match["measured"]:
        # Only SQLite 3.43 has the function; a text's length in characters ends at its first NUL.
        return f"length(CAST({match['measured']} AS BLOB))"
    return "IS" if match["equal"] else "IS NOT"


def server_text(sql: str) -> str:
    """Spell `:name` as psycopg's `%(name)s`, outside quotes and comments; a percent sign anywhere stands twice."""

    def spelled(match: re.Match[str]) -> str:
        if match["name"]:
            return f"%({match['name']})s"
        return "%%" if match[0] == "%" else match[0].replace("%", "%%")

    return _PLACEHOLDER.sub(spelled, sql)


class Texts(dict[str, Translated], Generic[Translated]):
    """What an engine runs for a text, worked out and judged once: after that a plain dictionary lookup."""

    def __init__(self, judge: Callable[[str], None], translate: Callable[[str], Translated]) -> None:
        super().__init__()
        self._judge = judge
        self._translate = translate

    def __missing__(self, sql: str) -> Translated:
        self._judge(sql)
        if len(self) >= _MAXIMUM_TEXTS:
            # Texts built from values would fill the memory; starting over costs less than counting uses.
            self.clear()
        translated = self[sql] = self._translate(sql)
        return translated
