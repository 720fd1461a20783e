"""What a `postgresql://` URL says: where to connect, in which schema to work, how long to wait."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from attrs import evolve, field, frozen
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

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
_DEFAULTS: Final = {"application_name": "gateway-fsm", "connect_timeout": "10", "client_encoding": "UTF8"}


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
        """The schema in which tables are made; None leaves it to the server's default."""
        return self.search_path[0] if self.search_path else None


def parse_target(url: str) -> Target | None:
    """Return what the URL says, None where it is not one that PostgreSQL's own library takes.

    `search_path`, the three timeouts and `pool_size` are taken as parameters of the URL, and all but the last from its
    `options` too, as `-c name=value`.
    """
    base, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in pairs if name in _OWN}
    rest = urlencode([(name, value) for name, value in pairs if name not in _OWN], quote_via=quote)
    try:
        given = {
            name: str(value) for name, value in conninfo_to_dict(f"{base}?{rest}" if rest else base).items() if value
        }
    except ProgrammingError:
        # Its text repeats the URL, and with it a password.
        return None
    kept, found = _options(given.pop("options", ""))
    own = {**found, **own}
    if kept:
        given["options"] = kept
    size = own.pop(_POOL_SIZE, str(POOL_SIZE))
    if not size.isascii() or not size.isdigit() or not int(size):
        return None
    target = Target(
        conninfo=make_conninfo("", **_DEFAULTS | given),
        shown="",
        search_path=tuple(_names(own.pop(_SEARCH_PATH, ""))),
        settings=tuple((SETTINGS | own).items()),
        pool_size=int(size),
    )
    return evolve(target, shown=_shown(given, target.schema))


def _shown(given: Mapping[str, str], schema: str | None) -> str:
    place = f"{given.get('host', '')}:{given.get('port', '')}".rstrip(":")
    return f"postgresql://{place}/{given.get('dbname', '')}" + (f"?{_SEARCH_PATH}={schema}" if schema else "")


def _options(text: str) -> tuple[str, dict[str, str]]:
    """Take the settings that each transaction makes out of command-line options, and return what is left."""
    kept, found = [], {}
    words = iter(text.split())
    for word in words:
        parts = [word, next(words, "")] if word == "-c" else [word]
        name, _, value = parts[-1].removeprefix("-c").removeprefix("--").partition("=")
        if name in _OWN and name != _POOL_SIZE:
            found[name] = value
        else:
            kept += parts
    return " ".join(kept), found


def _names(search_path: str) -> Iterator[str]:
    for name in search_path.split(","):
        bare = name.strip()
        if bare.startswith('"') and bare.endswith('"') and len(bare) > 1:
            yield bare[1:-1].replace('""', '"')
        elif bare:
            yield bare.lower()


def local_settings(target: Target, *, synchronous: str) -> str:
    """Return the statements that make a transaction what it is to be, until it ends."""
    settings = [f"SET LOCAL {name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in target.settings]
    if target.search_path:
        settings.append(f"SET LOCAL search_path = {', '.join(map(quoted, target.search_path))}")
    if synchronous == "normal":
        settings.append("SET LOCAL synchronous_commit = off")
    return "; ".join(settings)
