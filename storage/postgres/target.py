"""What a `postgresql://` URL says: where to connect, in which schema to work, how long to wait."""

import re
from collections.abc import Mapping
from string import ascii_uppercase
from typing import Final
from urllib.parse import unquote

from attrs import evolve, field, frozen
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from storage.statements import quoted

__all__ = ["Target", "parse_target"]

SETTINGS: Final = {
    "lock_timeout": "2s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
}
"""What each transaction sets for itself, unless the URL says otherwise: how long one wait, one statement, one pause
between statements may last."""
POOL_SIZE: Final = 10
_SEARCH_PATH: Final = "search_path"
_POOL_SIZE: Final = "pool_size"
_OWN: Final = frozenset({*SETTINGS, _SEARCH_PATH, _POOL_SIZE})
_OWN_SCHEMA: Final = "$user"
_DEFAULTS: Final = {"application_name": "gateway-fsm", "connect_timeout": "10"}
_FIXED: Final = {"client_encoding": "UTF8"}
_PLACES: Final = frozenset({b"host", b"port", b"user", b"dbname"})
_LONGEST_NAME: Final = 63
_LOWER: Final = {ord(letter): letter.lower() for letter in ascii_uppercase}

# A question mark in a password is part of it.
_URL: Final = re.compile(r"(?P<base>[^:]+://(?:[^/@]*@)?[^?]*)(?:\?(?P<query>.*))?", re.DOTALL)
_SIZE: Final = re.compile(r"[1-9][0-9]{0,4}")
_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SETTING: Final = re.compile(r"(?:-c|--)(?P<name>[A-Za-z_-]+)=(?P<value>.*)", re.DOTALL)
_NAME: Final = re.compile(r"""\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<bare>[^\s,"]+))\s*(?:(?P<more>,)|\Z)""")


@frozen
class Target:
    """A server, a database on it and a schema in that. `shown` may be printed: it holds no password."""

    conninfo: str = field(repr=False)
    shown: str
    search_path: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    pool_size: int

    @property
    def pool(self) -> str:
        """What tells the pool that it shares with others; it may hold a secret."""
        return f"{self.pool_size} {self.conninfo}"

    @property
    def schema(self) -> str | None:
        """The schema in which tables are made; None leaves it to the server, as `"$user"` does."""
        return self.search_path[0] if self.search_path and self.search_path[0] != _OWN_SCHEMA else None


def parse_target(url: str) -> Target | None:
    """Return what the URL says, None where it is not one that PostgreSQL's own library takes.

    `search_path`, the three timeouts and `pool_size` are taken as parameters of the URL, and all but the last from its
    `options` too, as `-c name=value`.
    """
    try:
        theirs, own = _parted(url)
        given = {name: str(value) for name, value in conninfo_to_dict(theirs).items() if value}
        kept, found = _options(given.pop("options", ""))
        own = found | own
        path = _names(own.pop(_SEARCH_PATH, ""))
        size = _size(own.pop(_POOL_SIZE, str(POOL_SIZE)))
    except (ProgrammingError, ValueError):
        # Its text repeats the URL, and with it a password.
        return None
    if kept:
        given["options"] = kept
    # A service file names places of its own, which what is written out would override.
    places = {} if "service" in given else _places()
    conninfo = make_conninfo("", **_DEFAULTS | places | given | _FIXED)
    target = Target(conninfo, "", path, tuple((SETTINGS | own).items()), size)
    return evolve(target, shown=_shown(given, target.schema))


def _parted(url: str) -> tuple[str, dict[str, str]]:
    """Part a URL into what the library takes, to the letter, and the parameters that are this engine's own.

    Raises:
        ValueError: a parameter cannot be decoded, or holds NUL.
    """
    found = _URL.fullmatch(url)
    if found is None or not found["query"]:
        return url, {}
    theirs, own = [], {}
    for parameter in found["query"].split("&"):
        name, equals, value = parameter.partition("=")
        if equals and unquote(name) in _OWN:
            own[unquote(name)] = _text(unquote(value, errors="strict"))
        else:
            theirs.append(parameter)
    return found["base"] + ("?" + "&".join(theirs) if theirs else ""), own


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("NUL")
    return value


def _size(text: str) -> int:
    if not _SIZE.fullmatch(text):
        raise ValueError("no size of a pool")
    return int(text)


def _places() -> dict[str, str]:
    """Return what the library would add, so that one database has one name."""
    return {
        option.keyword.decode(): option.val.decode()
        for option in Conninfo.get_defaults()
        if option.keyword in _PLACES and option.val
    }


def _shown(given: Mapping[str, str], schema: str | None) -> str:
    place = f"{given.get('host', '')}:{given.get('port', '')}".rstrip(":")
    return f"postgresql://{place}/{given.get('dbname', '')}" + (f"?{_SEARCH_PATH}={schema}" if schema else "")


def _options(text: str) -> tuple[str, dict[str, str]]:
    """Take the settings that each transaction makes out of command-line options, and return what is left."""
    kept, found = list[str](), {}
    words = iter(_WORD.findall(text))
    for word in words:
        parts = [word, next(words, "")] if word == "-c" else [word]
        setting = _SETTING.fullmatch("".join(parts))
        name = "" if setting is None else setting["name"].replace("-", "_").lower()
        if setting is not None and name in _OWN and name != _POOL_SIZE:
            found[name] = _ESCAPED.sub(r"\1", setting["value"])
        else:
            kept += parts
    return " ".join(kept), found


def _names(search_path: str) -> tuple[str, ...]:
    """Read names as the server does: quoted ones to the letter, the others in lower case.

    Raises:
        ValueError: it is no list of names, or one is longer than a name can be.
    """
    if not search_path.strip():
        return ()
    names, end, more = list[str](), 0, True
    while more:
        found = _NAME.match(search_path, end)
        if found is None:
            raise ValueError("no list of names")
        quoted_name, bare = found["quoted"], found["bare"]
        names.append(bare.translate(_LOWER) if quoted_name is None else quoted_name.replace('""', '"'))
        end, more = found.end(), bool(found["more"])
    if not all(0 < len(name.encode()) <= _LONGEST_NAME for name in names):
        raise ValueError("no name")
    return tuple(names)


def local_settings(target: Target, *, synchronous: str = "full") -> str:
    """Return the statements that make a transaction what it is to be, until it ends."""
    settings = [f"SET LOCAL {name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in target.settings]
    if target.search_path:
        settings.append(f"SET LOCAL search_path = {', '.join(map(quoted, target.search_path))}")
    if synchronous == "normal":
        settings.append("SET LOCAL synchronous_commit = off")
    return "; ".join(settings)
