"""The engine of `postgresql://` URLs."""

from typing import Final

from storage.engine import Engine, Handle, Options
from storage.errors import StorageError
from storage.postgres.database import PostgresDatabase
from storage.postgres.target import Target, parse_target

__all__ = ["ENGINE"]


class _Postgres:
    def name_of(self, url: str) -> str | None:
        """Return the normal form of a URL."""
        target = parse_target(url)
        return None if target is None else repr(("postgresql", target.conninfo, target.search_path, target.settings))

    def open(self, url: str, options: Options, *, read_only: bool) -> Handle:
        """Open a handle, once a connection has shown that the server can be used."""
        return PostgresDatabase(url, _target(url), options, read_only=read_only)


def _target(url: str) -> Target:
    target = parse_target(url)
    if target is None:
        raise StorageError("db: expected a postgresql:// URL, found one that cannot be read; mend the URL")
    return target


ENGINE: Final[Engine] = _Postgres()
