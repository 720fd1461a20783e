"""Locations and handles: one handle per database in a process, found again by its location."""

import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from attrs import frozen

from storage.errors import DatabaseUnavailableError, StorageError, UnsupportedDatabaseError
from storage.port import Database, Location
from storage.sqlite import connection
from storage.sqlite.database import SqliteDatabase

Synchronous = Literal["full", "normal"]

_MEMORY = ":memory:"
_SERVER_SCHEMES = ("postgresql://", "postgres://")


def random_id() -> str:
    """Return a new identifier: 32 hexadecimal digits of a random UUID."""
    return uuid.uuid4().hex


@frozen
class _Options:
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = random_id
    synchronous: Synchronous = "full"


@frozen
class _Opened:
    database: SqliteDatabase
    options: _Options


class _Handles:
    """The handles of this process by resolved path, and all of them for the sake of fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_location: dict[tuple[str, bool], _Opened] = {}
        self.all: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()

    def find(self, key: tuple[str, bool]) -> _Opened | None:
        """Return what is open at a location; a closed handle counts as none."""
        found = self.by_location.get(key)
        return found if found is not None and found.database.usable else None

    def forget_inherited(self) -> None:
        """Make the handles usable in a forked child."""
        self.lock = threading.RLock()
        for database in list(self.all):
            database.forget_inherited()


_handles = _Handles()
os.register_at_fork(after_in_child=_handles.forget_inherited)


def open_database(
    location: Location,
    *,
    clock: Callable[[], float] = time.time,
    new_id: Callable[[], str] = random_id,
    synchronous: Synchronous = "full",
    read_only: bool = False,
) -> Database:
    """Open the database at a path, or return the handle that this process already has on it.

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
        DatabaseUnavailableError: the file cannot be opened, is missing (read-only) or stays locked for 10 seconds.
    """
    text = _location(location, StorageError)
    options = _Options(clock, new_id, synchronous)
    _check_options(options)
    connection.check_version()
    if text == _MEMORY:
        return _open_memory(options, read_only=read_only)
    path = os.path.realpath(text)
    with _handles.lock:
        found = _handles.find((path, read_only))
        if found is None:
            return _open_file(path, options, read_only=read_only)
        if found.options != options:
            raise StorageError(
                f"{path}: expected the options that this process opened it with, found others; "
                "pass the same clock, new_id and synchronous, or close the open handle first"
            )
        return found.database


def resolve(db: Database | Location, *, error: type[Exception]) -> Database:
    """Return a handle as it is, and for a location the handle that is open on it, opening it where none is.

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
        found = _handles.find((path, False))
        return found.database if found is not None else open_database(path)


def _location(value: object, error: type[Exception]) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text or not _encodable(text):
        raise error("db: expected a database handle, or a path as non-empty text without NUL; pass one of these")
    if text.startswith(_SERVER_SCHEMES):
        raise UnsupportedDatabaseError("this version has no PostgreSQL engine; pass the path of an SQLite database")
    return text


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
    if read_only:
        connect = partial(connection.connect_read_only, path)
    else:
        _make_directory(path)
        connection.warn_of_wal_reset()
        connect = partial(connection.connect_writable, path, options.synchronous)
    database = SqliteDatabase(path, connect, clock=options.clock, new_id=options.new_id, read_only=read_only)
    _handles.by_location[path, read_only] = _Opened(database, options)
    _handles.all.add(database)
    return database


def _make_directory(path: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise DatabaseUnavailableError(
            f"{path}: its directory cannot be made; check that the path is right and may be written to"
        ) from exc
