"""Locations and handles: one handle per database in a process, found again by its location."""

import os
import re
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import define, frozen

from storage.engine import Engine, Handle, Options, Synchronous, random_id
from storage.errors import DatabaseUnavailableError, StorageError, UnsupportedDatabaseError
from storage.port import Database, Location, Parameters, Result, Transaction
from storage.sqlite import connection
from storage.sqlite.database import FORKED_WITHIN, SqliteDatabase, look
from storage.validate import ErrorOf

_MEMORY = ":memory:"
# Up to the first slash; pathlib leaves one slash of two, and a driver may stand after a plus sign.
_SCHEME = re.compile(r"\s*(?P<name>[^/]*):(?P<slashes>/+)")
_ENGINES = {"postgresql": "postgres"}
"""Schemes whose engine has another name; every other scheme names its module in this package."""


@frozen
class _Place:
    """What a location means: a name that all its spellings share, and how a handle on it is opened.

    A file may be looked for, and looked at by a handle of its own; for what is on a server there is only one way in.
    """

    name: str
    open: Callable[[Options, bool], Handle]
    is_missing: Callable[[], bool] = lambda: False
    beside: Callable[[float], SqliteDatabase | None] = lambda _: None


@define(eq=False)
class _Opened:
    database: Handle
    options: Options
    replaced: bool = False


class _Handles:
    """The handles of this process by the name of their place, and all of them for the sake of fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_location: dict[tuple[str, bool], _Opened] = {}
        self.all: weakref.WeakSet[Handle] = weakref.WeakSet()
        self.held: set[str] = set()

    def find(self, name: str, *, read_only: bool) -> _Opened | None:
        """Return what was last opened at a place, after closing what has opened a file that is no longer there.

        Raises:
            DatabaseUnavailableError: a transaction is still open on such a file.
        """
        # Both are looked at: SQLite finds -wal and -shm by name, and two files of one process must not share them.
        for opened in (self.by_location.get((name, False)), self.by_location.get((name, True))):
            if opened is not None and opened.database.replaced:
                opened.replaced = opened.replaced or opened.database.usable
                opened.database.retire()
        return self.by_location.get((name, read_only))

    def open(self, place: _Place, options: Options, *, read_only: bool) -> Handle:
        """Open a handle and remember it."""
        database = place.open(options, read_only)
        self.by_location[place.name, read_only] = _Opened(database, options)
        self.all.add(database)
        return database

    def close_before_fork(self) -> None:
        """Close every idle connection ahead of a fork."""
        for database in list(self.all):
            database.close_before_fork()

    def forget_inherited(self) -> None:
        """Make the handles usable in a forked child, but for files on which the parent was in a transaction."""
        self.lock = threading.RLock()
        for database in list(self.all):
            if database.forget_inherited():
                self.held.add(database.location)

    def require_free(self, path: str) -> None:
        """Refuse a file whose locks this process has inherited.

        Raises:
            DatabaseUnavailableError: it was forked while a transaction was open on the file.
        """
        if path in self.held:
            raise DatabaseUnavailableError(FORKED_WITHIN)


_handles = _Handles()
os.register_at_fork(before=_handles.close_before_fork, after_in_child=_handles.forget_inherited)


def open_database(
    location: Location,
    *,
    clock: Callable[[], float] = time.time,
    new_id: Callable[[], str] = random_id,
    synchronous: Synchronous = "full",
    read_only: bool = False,
) -> Database:
    """Open the database at a location, or return the handle that this process already has on it.

    A handle whose file was removed or replaced since is closed, and the file that is there now is opened.

    The directory of a writable database is created where it is missing; a read-only handle creates
    nothing. `:memory:` is a new database each time, with one connection that threads take in turn.
    A `postgresql://` URL may name, beside what PostgreSQL's own library takes, the schema
    (`search_path`, made where it is missing), `pool_size` (10 connections), and how long a
    transaction waits: `lock_timeout` (2s, five times), `statement_timeout` (30s) and
    `idle_in_transaction_session_timeout` (60s).

    Args:
        location: a path of a file, `:memory:`, or the URL of a database on a server.
        clock: answers the time in seconds since the epoch, wherever a caller passes none.
        new_id: answers a new identifier, each time another.
        synchronous: "full" survives a power cut; "normal" is faster and may undo the last commits in one.
        read_only: whether the handle only reads; it is kept apart from the writable one.

    Raises:
        StorageError: the location or an option is not one, or the database is already open with other options.
        UnsupportedDatabaseError: the file is no SQLite database, the engine of the location is not installed,
            or the SQLite library is older than 3.35, or the server older than PostgreSQL 12.
        DatabaseUnavailableError: the file cannot be opened, is missing (read-only) or stays locked for 10 seconds,
            or was replaced under a transaction that is still open on it; or the server cannot be reached.
    """
    text = _location(location, StorageError)
    options = Options(clock, new_id, synchronous)
    _check_options(options)
    if text == _MEMORY:
        return _open_memory(options, read_only=read_only)
    place = _place(text, StorageError)
    with _handles.lock:
        found = _handles.find(place.name, read_only=read_only)
        if found is None or not found.database.usable:
            return _handles.open(place, options, read_only=read_only)
        if found.options != options:
            raise StorageError(
                "db: expected the options that this process opened the location with, found others; "
                "pass the same clock, new_id and synchronous, or close the open handle first"
            )
        return found.database


def resolve(db: Database | Location, *, error: ErrorOf) -> Database:
    """Return a handle as it is, and for a location the handle that is open on it, opening it where none is.

    Where the file was removed or replaced since, the file that is there now is opened with the same options.

    Raises:
        error: `db` is neither a handle nor a location; `:memory:` is none here, for it would be another
            database in every call.
        StorageError: as `open_database` raises.
    """
    if isinstance(db, Database):
        return db
    place = _named(db, error)
    with _handles.lock:
        found = _handles.find(place.name, read_only=False)
        if found is None or not (found.database.usable or found.replaced):
            return _handles.open(place, Options(), read_only=False)
        return found.database if found.database.usable else _handles.open(place, found.options, read_only=False)


def probe(
    db: Database | Location,
    table: str,
    sql: str,
    parameters: Parameters,
    *,
    timeout_seconds: float,
    error: ErrorOf,
) -> bool:
    """Tell at once whether a query finds a row, as `Database.probe` does; False where there is no database either.

    A location is looked at without being opened for anything else: what follows finds it as it was.

    Raises:
        error: `db` is neither a handle nor a location; `:memory:` is none here.
        StorageError: as `Database.probe` raises.
    """
    if isinstance(db, Database):
        return db.probe(table, sql, parameters, timeout_seconds=timeout_seconds)
    place = _named(db, error)
    if place.is_missing():
        return False
    with _handles.lock:
        _handles.find(place.name, read_only=False)
        beside = place.beside(timeout_seconds)
    if beside is None:
        return resolve(db, error=error).probe(table, sql, parameters, timeout_seconds=timeout_seconds)
    return look(beside, table, sql, parameters)


def clock_of(db: Database | Location, *, error: ErrorOf) -> Callable[[], float]:
    """Return the clock of a handle, and for a location that of the handle which is open on it, else the default.

    Nothing is opened.

    Raises:
        error: `db` is neither a handle nor a location; `:memory:` is none here.
    """
    if isinstance(db, Database):
        return db.clock
    with _handles.lock:
        opened = _handles.by_location.get((_named(db, error).name, False))
    return Options().clock if opened is None else opened.options.clock


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError as exc:
        # Not chained: the system's error carries the path.
        reason = exc.strerror
    raise DatabaseUnavailableError(f"db: the database cannot be looked for ({reason}); check that the path is right")


def _named(value: object, error: ErrorOf) -> _Place:
    text = _location(value, error)
    if text == _MEMORY:
        raise error("db: expected a handle for a database in memory; open it with open_database and pass the handle")
    return _place(text, error)


def read_snapshot(location: Location, body: Callable[[Transaction], Result]) -> Result:
    """Run `body` on an SQLite file that nobody writes to any more, and return what it returns.

    The file may be anybody's: nothing of it is required or made. It stays as it is to the last byte and to its time of
    change, and nothing is left beside it. The handle that reads it is the call's own.

    Raises:
        StorageError: the location is none, or the engine refuses a statement of `body`.
        UnsupportedDatabaseError: the file is no SQLite database, or the location is a server's.
        DatabaseUnavailableError: the file is missing, cannot be read, or holds a change that was cut off in the middle.
    """
    text = _location(location, StorageError)
    if (scheme := _SCHEME.match(text)) is not None and (len(scheme["slashes"]) > 1 or _engine(scheme["name"])):
        raise UnsupportedDatabaseError("expected the path of an SQLite file, found a URL; pass the path alone")
    path = os.path.realpath(text)
    connection.check_version()
    with _handles.lock:
        _handles.require_free(path)
        left_behind = connection.lacks_shared_memory(path)
        connect = partial(connection.connect_snapshot, path)
        handle = SqliteDatabase(path, connect, clock=time.time, new_id=random_id, read_only=True)
        _handles.all.add(handle)
    try:
        return handle.read(body)
    finally:
        handle.close()
        if left_behind:
            connection.drop_shared_memory(path)


def _location(value: object, error: ErrorOf) -> str:
    text = _path_text(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text or not _encodable(text):
        raise error("db: expected a database handle, a path or a URL as non-empty text without NUL; pass one of these")
    return text


def _place(text: str, error: ErrorOf) -> _Place:
    scheme = _SCHEME.match(text)
    engine = None if scheme is None else _engine(scheme["name"])
    if scheme is None or (engine is None and len(scheme["slashes"]) == 1):
        path = os.path.realpath(text)
        return _Place(path, partial(_open_file, path), lambda: not _is_file(path), partial(_open_beside, path))
    # pathlib makes one slash of two; a third begins the path of a URL without a host.
    url = f"{scheme['name'].lower()}:{scheme['slashes'].rjust(2, '/')}{text[scheme.end() :].strip()}"
    name = None if engine is None else engine.name_of(url)
    if engine is None or name is None:
        # Whatever stands in a URL may be a password, so that nothing of it is shown.
        raise error(
            "db: expected a path, or a URL such as postgresql://user@host/database, found a URL that cannot be read; "
            "mend it, or pass a path alone"
        )
    return _Place(name, lambda options, read_only: engine.open(url, options, read_only=read_only))


def _engine(scheme: str) -> Engine | None:
    """Return the engine that a scheme names: `ENGINE` of the module `storage.<scheme>`, None where there is none.

    Raises:
        UnsupportedDatabaseError: what the engine needs is not installed.
    """
    name = _ENGINES.get(scheme.lower(), scheme.lower())
    if not name.isidentifier() or find_spec(f"{__package__}.{name}") is None:
        return None
    try:
        engine: Engine | None = getattr(import_module(f"{__package__}.{name}"), "ENGINE", None)
    except ModuleNotFoundError as exc:
        raise UnsupportedDatabaseError(
            f"the engine for this URL needs the package {exc.name}, found none installed; "
            f"run: pip install 'gateway-fsm[{name}]'"
        ) from exc
    return engine


def _path_text(value: os.PathLike[Any]) -> object:
    try:
        return os.fspath(value)
    except TypeError:
        return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_options(options: Options) -> None:
    if not all(map(callable, (options.clock, options.new_id))):
        raise StorageError("clock and new_id: expected functions without arguments; pass such functions")
    if options.synchronous not in ("full", "normal"):
        raise StorageError("synchronous: expected 'full' or 'normal'; pass one of these")


def _open_memory(options: Options, *, read_only: bool) -> Database:
    if read_only:
        raise StorageError("expected a file for a read-only handle, found :memory:, which would be empty; pass a path")
    connection.check_version()
    database = SqliteDatabase(
        _MEMORY, connection.connect_memory, clock=options.clock, new_id=options.new_id, shared=True
    )
    _handles.all.add(database)
    return database


def _open_file(path: str, options: Options, read_only: bool) -> Handle:  # noqa: FBT001 # as every place is opened
    connection.check_version()
    _handles.require_free(path)
    if read_only:
        connect = partial(connection.connect_read_only, path)
    else:
        _make_directory(path)
        connection.warn_of_wal_reset()
        connect = partial(connection.connect_writable, path, options.synchronous)
    return SqliteDatabase(
        path,
        connect,
        clock=options.clock,
        new_id=options.new_id,
        read_only=read_only,
        prepare=partial(connection.choose_journal, path),
        beside=partial(_open_beside, path),
    )


def _open_beside(path: str, timeout_seconds: float) -> SqliteDatabase:
    """Open one more handle on a file, which nobody finds by the location; a fork must know of it all the same."""
    _handles.require_free(path)
    connect = partial(connection.connect_read_only, path, timeout_seconds)
    database = SqliteDatabase(path, connect, clock=time.time, new_id=random_id, read_only=True)
    _handles.all.add(database)
    return database


def _make_directory(path: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        # Not chained: the system's error carries the path.
        reason = exc.strerror
    else:
        return
    raise DatabaseUnavailableError(
        f"db: the directory of the database cannot be made ({reason}); "
        "check that the path is right and may be written to"
    )
