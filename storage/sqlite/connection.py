"""SQLite connections: how one is opened and configured, and what its errors mean."""

import logging
import os
import sqlite3
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from storage.errors import (
    ConstraintError,
    DatabaseUnavailableError,
    StorageError,
    UnsupportedDatabaseError,
    WalResetWarning,
)
from storage.sqlite.filesystem import is_shared

logger = logging.getLogger("storage")

BUSY_TIMEOUT_SECONDS = 10.0
_RETRY_SECONDS = 0.02
_CACHED_STATEMENTS = 256
_OLDEST = (3, 35, 0)
_WAL_RESET_FIRST, _WAL_RESET_LAST = (3, 7, 0), (3, 51, 2)
_WAL_RESET_REPAIRED = frozenset({(3, 44, 6), (3, 50, 7)})

# What sqlite3 raises, and what binding a value that no column can hold raises on the way.
FAILURES = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeEncodeError)

_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
    }
)
_UNSUPPORTED = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT})

_warned_versions: set[str] = set()
_warned_locations: set[str] = set()


def primary_code(exc: BaseException) -> int:
    """Return SQLite's primary result code of an error, 0 where it has none."""
    code: int = getattr(exc, "sqlite_errorcode", 0)
    return code & 0xFF


def translate(exc: BaseException) -> StorageError:
    """Return the storage error for what sqlite3 raised; its text names the code, never a value."""
    code = primary_code(exc)
    name = getattr(exc, "sqlite_errorname", type(exc).__name__)
    if code == sqlite3.SQLITE_CONSTRAINT or isinstance(exc, sqlite3.IntegrityError):
        return ConstraintError(f"the statement breaks a constraint of its table ({name}); nothing of it was stored")
    if code in _UNAVAILABLE:
        return DatabaseUnavailableError(
            f"the database cannot be used now ({name}); see that its file and directory exist, are writable and "
            "have room, and that no other process holds it locked, then try again"
        )
    if code in _UNSUPPORTED:
        return UnsupportedDatabaseError(
            f"expected a sound SQLite database, found something else ({name}); choose another file or restore a backup"
        )
    if isinstance(exc, OverflowError | UnicodeEncodeError):
        return StorageError(f"a parameter cannot be stored ({name}); expected 64-bit integers and well-formed text")
    return StorageError(f"SQLite refused the statement ({name}); the cause has the details")


def is_undecodable(exc: BaseException) -> bool:
    """Tell whether sqlite3 met text that is not UTF-8, which it says in words only."""
    return (
        isinstance(exc, sqlite3.OperationalError)
        and not hasattr(exc, "sqlite_errorcode")
        and str(exc).startswith("Could not decode to UTF-8")
    )


def tolerate(connection: sqlite3.Connection) -> None:
    """Let text that is not UTF-8 come back with its stray bytes as lone surrogates, from now on.

    Not done from the start: a function in Python for every text costs more than many a query.
    """
    connection.text_factory = _decode


def empty_log(connection: sqlite3.Connection) -> bool:
    """Move what the write-ahead log holds into the database file and empty it, both by way of the files that are open.

    For a connection that is closed next, which SQLite does without it once the file has left its path. A
    log left there would be taken for that of the file which came in its place.

    Returns:
        False where somebody else reads or writes the file now; True too where the connection is closed.
    """
    try:
        connection.execute("PRAGMA busy_timeout=0")
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
    except sqlite3.ProgrammingError:
        return True
    except FAILURES:
        return False


def check_version(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> None:
    """Refuse a library that lacks what this package needs.

    Raises:
        UnsupportedDatabaseError: SQLite is older than 3.35.
    """
    if version < _OLDEST:
        raise UnsupportedDatabaseError(
            f"expected SQLite 3.35 or later, found {_dotted(version)}; use a Python built with a newer SQLite"
        )


def warn_of_wal_reset(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> None:
    """Warn, once per process, that this SQLite version can lose commits in WAL mode."""
    text = _dotted(version)
    if not _WAL_RESET_FIRST <= version <= _WAL_RESET_LAST or version in _WAL_RESET_REPAIRED or text in _warned_versions:
        return
    _warned_versions.add(text)
    warnings.warn(
        f"SQLite {text} can lose commits when several connections write and checkpoint one WAL at once; "
        "use a Python whose SQLite is 3.51.3 or later, 3.50.7 or 3.44.6",
        WalResetWarning,
        stacklevel=3,
    )


def connect_memory() -> sqlite3.Connection:
    """Open a database of its own in memory."""
    return _configured(_connect(":memory:", uri=False), "full")


def connect_writable(path: str, synchronous: str) -> sqlite3.Connection:
    """Open a file for writing, creating it where it is missing; nothing is written to one that is there.

    Raises:
        DatabaseUnavailableError: the file cannot be opened.
        UnsupportedDatabaseError: the file is not an SQLite database.
    """
    connection = _connect(f"file:{quote(path)}?mode=rwc", uri=True)
    try:
        # SQLite reads the file only now; a file that is no database is to be refused here.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        return _configured(connection, synchronous)
    except FAILURES as exc:
        connection.close()
        raise translate(exc) from exc


def choose_journal(path: str, connection: sqlite3.Connection, sleep: Callable[[float], None] = time.sleep) -> None:
    """Bring the file into WAL mode, where its filesystem allows, ahead of a connection's first write.

    Not when it is opened: the switch changes the file, which a database of an unknown shape must be spared.

    Raises:
        DatabaseUnavailableError: the file stays locked for 10 seconds, or cannot be written.
    """
    try:
        wanted = "delete" if is_shared(path) else "wal"
        found = _switch_journal(connection, wanted, sleep)
        if wanted == "wal" and found != "wal":
            _switch_journal(connection, "delete", sleep)
    except FAILURES as exc:
        raise translate(exc) from exc
    if found != "wal":
        _report_fallback(path)


def connect_read_only(path: str, timeout_seconds: float | None = None) -> sqlite3.Connection:
    """Open an existing file for reading; nothing is created in place of a missing one.

    A lock is waited for as long as `timeout_seconds`, by default 10, here and in every statement.

    Found by experiment: beside a WAL database that nobody has open, a `mode=ro` connection makes the
    `-wal` and `-shm` files and leaves them there when it closes, while a writable connection takes
    them away again and, there being nothing to checkpoint, does not touch the main file. Where a
    `-wal` or `-journal` is left over from a crash it is the other way round: a writable connection
    would fold it into the main file, `mode=ro` leaves both as they are. So a file without either is
    opened writable with `query_only`, one with either is opened with `mode=ro`; the main file does
    not change and no file is left behind. A WAL database in a directory that cannot be written to
    cannot be read so.

    Raises:
        DatabaseUnavailableError: the file is missing or cannot be read now.
        UnsupportedDatabaseError: the file is not an SQLite database.
    """
    at_rest = not any(Path(path + suffix).exists() for suffix in ("-wal", "-journal"))
    if at_rest and Path(path).exists() and not os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK):
        raise DatabaseUnavailableError(
            "reading this database would leave files of another user beside it, which lock its owner out; "
            "read it as a user who may write the file"
        )
    return _reading(f"file:{quote(path)}?mode={'rw' if at_rest else 'ro'}", timeout_seconds)


def _reading(target: str, timeout_seconds: float | None = None) -> sqlite3.Connection:
    connection = _connect(target, uri=True, timeout_seconds=timeout_seconds)
    try:
        connection.execute("PRAGMA query_only=ON")
        # SQLite reads the file only now; a file that is no database is to be refused here.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        return _configured(connection, "full")
    except FAILURES as exc:
        connection.close()
        raise translate(exc) from exc


def connect_snapshot(path: str) -> sqlite3.Connection:
    """Open a file that nobody writes to any more, for reading.

    Where this user may write neither to the file nor beside it, SQLite is told that it cannot change, which
    spares it files of its own. That takes no locks, and letting go of the file would let go of this
    process's other locks on it; but what cannot be written is locked by nobody here.

    Raises:
        DatabaseUnavailableError: the file is missing or cannot be read now.
        UnsupportedDatabaseError: the file is not an SQLite database.
    """
    at_rest = Path(path).exists() and not any(Path(path + suffix).exists() for suffix in ("-wal", "-journal"))
    if not at_rest or (os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK)):
        return connect_read_only(path)
    return _reading(f"file:{quote(path)}?mode=ro&immutable=1")


def lacks_shared_memory(path: str) -> bool:
    """Tell whether a write-ahead log was copied here without its shared memory, which reading it makes and leaves."""
    return Path(f"{path}-wal").exists() and not Path(f"{path}-shm").exists()


def drop_shared_memory(path: str) -> None:
    """Remove the shared memory of a log that nobody writes to."""
    with suppress(OSError):
        Path(f"{path}-shm").unlink(missing_ok=True)


def _connect(target: str, *, uri: bool, timeout_seconds: float | None = None) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            target,
            uri=uri,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
            timeout=BUSY_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
        )
    except FAILURES as exc:
        raise translate(exc) from exc


def _configured(connection: sqlite3.Connection, synchronous: str) -> sqlite3.Connection:
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA synchronous={'NORMAL' if synchronous == 'normal' else 'FULL'}")
    return connection


def _switch_journal(connection: sqlite3.Connection, mode: str, sleep: Callable[[float], None]) -> str:
    """Ask for a journal mode until the file is free for the switch, and return the one that holds."""
    # SQLite waits for some of the locks that this takes and not for others, so all the waiting is done here.
    connection.execute("PRAGMA busy_timeout=0")
    for _ in range(int(BUSY_TIMEOUT_SECONDS / _RETRY_SECONDS)):
        try:
            found = _set_journal(connection, mode)
        except sqlite3.OperationalError as exc:
            if primary_code(exc) not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise
            sleep(_RETRY_SECONDS)
        else:
            break
    else:
        found = _set_journal(connection, mode)
    connection.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_SECONDS * 1000)}")
    return found


def _set_journal(connection: sqlite3.Connection, mode: str) -> str:
    return mode if _journal(connection, "") == mode else _journal(connection, f"={mode}")


def _journal(connection: sqlite3.Connection, assignment: str) -> str:
    return str(connection.execute(f"PRAGMA journal_mode{assignment}").fetchall()[0][0]).lower()


def _report_fallback(path: str) -> None:
    if path in _warned_locations:
        return
    _warned_locations.add(path)
    logger.warning(
        "%s: its filesystem is shared or has no write-ahead log; SQLite falls back to a rollback journal, "
        "where readers block writers and locks may not hold between machines: "
        "put the database on a local disk, or use PostgreSQL",
        path,
    )


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
