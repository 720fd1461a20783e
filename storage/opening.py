"""Locations and handles: one handle per database in a process, found again by its location."""

import os
import re
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from attrs import define, frozen

from storage.errors import DatabaseUnavailableError, StorageError, UnsupportedDatabaseError
from storage.port import Database, Location, Result, Transaction
from storage.sqlite import connection
from storage.sqlite.database import FORKED_WITHIN, SqliteDatabase
from storage.validate import ErrorOf

Synchronous = Literal["full", "normal"]

_MEMORY = ":memory:"
# Up to the first slash; pathlib leaves one slash of two, and a driver may stand after a plus sign.
_SCHEME = re.compile(r"\s*(?P<name>[^/]*):(?P<slashes>/+)")
_SERVERS = frozenset({"postgresql", "postgres"})


def random_id() -> str:
    """Return a new identifier: 32 hexadecimal digits of a random UUID."""
    return uuid.uuid4().hex


@frozen
class _Options:
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = random_id
    synchronous: Synchronous = "full"


@define(eq=False)
class _Opened:
    database: SqliteDatabase
    options: _Options
    replaced: bool = False


class _Handles:
    """The handles of this process by resolved path, and all of them for the sake of fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_location: dict[tuple[str, bool], _Opened] = {}
        self.all: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()
        self.held: set[str] = set()

    def find(self, path: str, *, read_only: bool) -> _Opened | None:
        """Return what was last opened at a path, after closing what has opened a file that is no longer there.

        Raises:
            DatabaseUnavailableError: a transaction is still open on such a file.
        """
        # Both are looked at: SQLite finds -wal and -shm by name, and two files of one process must not share them.
        for opened in (self.by_location.get((path, False)), self.by_location.get((path, True))):
            if opened is not None and opened.database.replaced:
                opened.replaced = opened.replaced or opened.database.usable
                opened.database.retire()
        return self.by_location.get((path, read_only))

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
    """Open the database at a path, or return the handle that this process already has on it.

    A handle whose file was removed or replaced since is closed, and the file that is there now is opened.

    The directory of a writable database is created where it is missing; a read-only handle creates
    nothing. `:memory:` is a new database each time, with one connection that threads take in turn.

    Args:
        location: a path of a file, or `:memory:`.
        clock: answers the time in seconds since the epoch, wherever a caller passes none.
        new_id: answers a new identifier, each time another.
        synchronous: "full" survives a power cut; "normal" is faster and may undo the last commits in one.
        read_only: whether the handle only reads; it is kept apart from the writable one.

    Raises:
        StorageError: the location or an option is not one, or the database is already open with other options.
        UnsupportedDatabaseError: the file is no SQLite database, there is no engine for the location,
            or the SQLite library is older than 3.35.
        DatabaseUnavailableError: the file cannot be opened, is missing (read-only) or stays locked for 10 seconds,
            or was replaced under a transaction that is still open on it.
    """
    text = _location(location, StorageError)
    options = _Options(clock, new_id, synchronous)
    _check_options(options)
    connection.check_version()
    if text == _MEMORY:
        return _open_memory(options, read_only=read_only)
    path = os.path.realpath(text)
    with _handles.lock:
        found = _handles.find(path, read_only=read_only)
        if found is None or not found.database.usable:
            return _open_file(path, options, read_only=read_only)
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
    text = _location(db, error)
    if text == _MEMORY:
        raise error("db: expected a handle for a database in memory; open it with open_database and pass the handle")
    path = os.path.realpath(text)
    with _handles.lock:
        found = _handles.find(path, read_only=False)
        if found is None or not (found.database.usable or found.replaced):
            return open_database(path)
        return found.database if found.database.usable else _open_file(path, found.options, read_only=False)


def read_snapshot(location: Location, body: Callable[[Transaction], Result]) -> Result:
    """Run `body` on an SQLite file that nobody writes to any more, and return what it returns.

    The file may be anybody's: nothing of it is required or made. It stays as it is to the last byte and to its time of
    change, and nothing is left beside it. The handle that reads it is the call's own.

    Raises:
        StorageError: the location is none, or the engine refuses a statement of `body`.
        UnsupportedDatabaseError: the file is no SQLite database, or the location is a server's.
        DatabaseUnavailableError: the file is missing, cannot be read, or holds a change that was cut off in the middle.
    """
    path = os.path.realpath(_location(location, StorageError))
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
        raise error("db: expected a database handle, or a path as non-empty text without NUL; pass one of these")
    if scheme := _SCHEME.match(text):
        # Whatever stands after it may be a password, so that nothing of it is shown.
        if scheme["name"].lower().split("+")[0] in _SERVERS:
            raise UnsupportedDatabaseError("this version has no PostgreSQL engine; pass the path of an SQLite database")
        if len(scheme["slashes"]) > 1:
            raise error("db: expected the path of an SQLite database, found a URL; pass the path alone")
    return text


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


def _check_options(options: _Options) -> None:
    if not all(map(callable, (options.clock, options.new_id))):
        raise StorageError("clock and new_id: expected functions without arguments; pass such functions")
    if options.synchronous not in ("full", "normal"):
        raise StorageError("synchronous: expected 'full' or 'normal'; pass one of these")


def _open_memory(options: _Options, *, read_only: bool) -> Database:
    if read_only:
        raise StorageError("expected a file for a read-only handle, found :memory:, which would be empty; pass a path")
    database = SqliteDatabase(
        _MEMORY, connection.connect_memory, clock=options.clock, new_id=options.new_id, shared=True
    )
    _handles.all.add(database)
    return database


def _open_file(path: str, options: _Options, *, read_only: bool) -> Database:
    _handles.require_free(path)
    if read_only:
        connect = partial(connection.connect_read_only, path)
    else:
        _make_directory(path)
        connection.warn_of_wal_reset()
        connect = partial(connection.connect_writable, path, options.synchronous)
    database = SqliteDatabase(
        path,
        connect,
        clock=options.clock,
        new_id=options.new_id,
        read_only=read_only,
        prepare=partial(connection.choose_journal, path),
    )
    _handles.by_location[path, read_only] = _Opened(database, options)
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
