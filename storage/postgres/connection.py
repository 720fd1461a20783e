"""PostgreSQL connections: how one is opened and checked, what its values and its errors mean."""

import ctypes
import os
import threading
from decimal import Decimal
from typing import Any, Final

import psycopg
from attrs import frozen
from psycopg import errors
from psycopg.adapt import Buffer, Loader
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper
from psycopg_pool import ConnectionPool

from storage.errors import ConstraintError, DatabaseUnavailableError, StorageError, UnsupportedDatabaseError
from storage.postgres.target import Target, local_settings
from storage.validate import INTEGER_MAXIMUM, INTEGER_MINIMUM

__all__ = ["FAILURES", "IDLED", "POOLS", "Connection", "LostRaceError", "connect", "translate"]

Connection = psycopg.Connection[DictRow]

FAILURES: Final = (psycopg.Error, OverflowError, UnicodeError)
"""What psycopg raises, and what adapting a value that no column can hold raises on the way."""

IDLED: Final = errors.IdleInTransactionSessionTimeout
"""What the server says of a transaction that it has ended since nothing was asked of it: it can have no COMMIT."""

POOL_TIMEOUT_SECONDS: Final = 10.0
_OLDEST: Final = 120000


class LostRaceError(DatabaseUnavailableError):
    """The transaction lost against another; nothing of it is stored, and running it again may succeed."""


class _Number(Loader):
    """Sums and averages of integers: as the same Python numbers that the columns hold."""

    def load(self, data: Buffer) -> int | float:
        found = Decimal(bytes(data).decode())
        return int(found) if found.is_finite() and found == found.to_integral_value() else float(found)


class _Truth(Loader):
    """What a condition answers: 1 or 0, as no column stores anything else for it."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _Integer(Int8Dumper):
    """An integer of 64 bits, whatever its value, and a bool as the integer that it is."""

    def dump(self, obj: Any) -> Buffer | None:
        if not INTEGER_MINIMUM <= obj <= INTEGER_MAXIMUM:
            raise OverflowError("an integer of more than 64 bits")
        return super().dump(int(obj))


def connect(target: Target) -> None:
    """Connect once to see that the server is there and is one that this engine can use.

    Raises:
        DatabaseUnavailableError: it cannot be reached, or refuses the connection.
        StorageError: it does not take a setting of the URL.
        UnsupportedDatabaseError: it is older than PostgreSQL 12, or its encoding is not UTF-8.
    """
    try:
        with psycopg.connect(target.conninfo, autocommit=True) as connection:
            connection.execute(f"BEGIN; {local_settings(target)}; ROLLBACK")
            version, encoding = connection.info.server_version, connection.info.parameter_status("server_encoding")
    except psycopg.DataError as exc:
        raise StorageError(
            f"db: expected timeouts such as 2s or 500ms in the URL, found another one ({exc.sqlstate}); mend the URL"
        ) from exc
    except FAILURES as exc:
        raise translate(exc) from exc
    if version < _OLDEST or encoding != "UTF8":
        raise UnsupportedDatabaseError(
            f"expected PostgreSQL 12 or later with a database in UTF-8, found {version // 10000} with {encoding}; "
            "use another server, or create the database with ENCODING 'UTF8'"
        )


class Pools:
    """The pools of this process: handles on one server share theirs, whichever schema each of them works in.

    What a transaction sets ends with it, so that the next one may be of another handle.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._users: dict[str, tuple[ConnectionPool[Connection], int]] = {}
        self._tried: set[tuple[str, tuple[tuple[str, str], ...]]] = set()

    def take(self, target: Target) -> ConnectionPool[Connection]:
        """Return the open pool for a target, one user more.

        Raises as `connect` does, which is asked where the pool is new, or the settings.
        """
        with self._lock:
            wanted = target.pool, target.settings
            if target.pool not in self._users or wanted not in self._tried:
                connect(target)
                self._tried.add(wanted)
            if target.pool not in self._users:
                self._users[target.pool] = _make_pool(target), 0
            pool, users = self._users[target.pool]
            self._users[target.pool] = pool, users + 1
            return pool

    def give_back(self, target: Target, pool: ConnectionPool[Connection]) -> None:
        """Close the pool where this was its last user."""
        with self._lock:
            known, users = self._users.get(target.pool, (None, 0))
            if known is not pool:
                return
            if users > 1:
                self._users[target.pool] = pool, users - 1
                return
            del self._users[target.pool]
        pool.close()

    def forget_inherited(self) -> None:
        """Leave every pool, in a forked child, to the parent, whose connections a farewell of the child would end."""
        if self._process == os.getpid():
            return
        for pool, _ in self._users.values():
            # A reference from Python ends when the interpreter tears its modules down; this one is never given back.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
        self._process = os.getpid()
        # The one that was here may be held by a thread that is not.
        self._lock = threading.Lock()
        self._users = {}
        self._tried = set()


POOLS: Final = Pools()


def _make_pool(target: Target) -> ConnectionPool[Connection]:
    """Return an open pool that makes its connections when they are first needed."""
    return ConnectionPool(
        target.conninfo,
        connection_class=psycopg.Connection[DictRow],
        kwargs={"autocommit": True, "prepare_threshold": None, "row_factory": dict_row},
        min_size=0,
        max_size=target.pool_size,
        open=True,
        configure=_configure,
        timeout=POOL_TIMEOUT_SECONDS,
        # A try that has begun is not given up sooner than a caller; without one, the next caller begins one at once.
        reconnect_timeout=POOL_TIMEOUT_SECONDS,
        name=target.shown,
    )


def _configure(connection: Connection) -> None:
    connection.adapters.register_loader("numeric", _Number)
    connection.adapters.register_loader("bool", _Truth)
    # The type of a parameter must not depend on its value, nor stay open where a statement does not say it.
    connection.adapters.register_dumper(int, _Integer)
    connection.adapters.register_dumper(bool, _Integer)
    connection.adapters.register_dumper(str, StrDumper)


def translate(exc: BaseException) -> StorageError:
    """Return the storage error for what psycopg raised; its text names the code, never a value."""
    code = getattr(exc, "sqlstate", None) or type(exc).__name__
    for meaning in _MEANINGS:
        if isinstance(exc, meaning.classes):
            return meaning.error(meaning.text.format(code=code))
    return StorageError(f"PostgreSQL refused the statement ({code}); the cause has the details")


@frozen
class _Meaning:
    classes: type[BaseException] | tuple[type[BaseException], ...]
    error: type[StorageError]
    text: str


_MEANINGS: Final = (
    _Meaning(
        errors.IntegrityError,
        ConstraintError,
        "the statement breaks a constraint of its table ({code}); nothing of it was stored",
    ),
    _Meaning(
        (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable),
        LostRaceError,
        "other transactions kept the rows of this one locked or changed them ({code}); nothing of it was stored: try "
        "again, and see that no transaction is left open for long",
    ),
    _Meaning(
        errors.QueryCanceled,
        DatabaseUnavailableError,
        "a statement ran longer than statement_timeout allows ({code}); nothing of its transaction was stored: try "
        "again when the server is less busy, or give the URL another statement_timeout",
    ),
    _Meaning(
        IDLED,
        DatabaseUnavailableError,
        "the transaction did nothing for longer than idle_in_transaction_session_timeout allows ({code}); nothing of "
        "it was stored: do not wait or compute inside a transaction, or give the URL another timeout",
    ),
    _Meaning(
        errors.ReadOnlySqlTransaction,
        DatabaseUnavailableError,
        "the server takes no writes now ({code}); nothing of the transaction was stored: see that the URL leads to a "
        "primary server, then try again",
    ),
    _Meaning(
        (errors.DiskFull, errors.OutOfMemory),
        DatabaseUnavailableError,
        "the server lacks disk or memory ({code}); nothing of the transaction was stored: make room, then try again",
    ),
    _Meaning(
        (errors.ProgramLimitExceeded, errors.StatementTooComplex),
        StorageError,
        "the statement is more than PostgreSQL can hold ({code}); nothing of it was stored: the texts of a key may "
        "have about 2,700 bytes together, so shorten ids that nothing compresses",
    ),
    _Meaning(
        psycopg.OperationalError,
        DatabaseUnavailableError,
        "the database server cannot be reached, or has ended the connection ({code}); nothing of the transaction was "
        "stored: see that the server runs and lets this user in, then try again",
    ),
    _Meaning(
        (OverflowError, UnicodeError, psycopg.DataError),
        StorageError,
        "a parameter cannot be stored ({code}); expected 64-bit integers and well-formed text",
    ),
)
"""What the first class that fits means to a caller."""
