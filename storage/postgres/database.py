"""The PostgreSQL engine: a pool of connections, explicit transactions, lost races run again."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from storage.engine import Handle, Options
from storage.errors import OUTCOME_UNKNOWN, DatabaseUnavailableError, OutcomeUnknownError, StorageError
from storage.port import Parameters, Result, Transaction
from storage.postgres.connection import FAILURES, IDLED, POOLS, Connection, LostRaceError, translate
from storage.postgres.migrate import MIGRATOR
from storage.postgres.target import Target, local_settings
from storage.postgres.transaction import READING, WRITING, PostgresTransaction
from storage.schema import Schema
from storage.statements import Texts, quoted
from storage.transacting import CLOSED, DOOMED, NESTED, READ_ONLY, finds, missing

__all__ = ["PostgresDatabase"]

_MIGRATING = "storage schema"
_ATTEMPTS = 50
_LONGEST_PAUSE_SECONDS = 0.25
_LOCK_WAITS = 5
_LOCK_NOT_AVAILABLE = "55P03"
_CONNECTIONS_TRIED = 3
"""Beyond as many as may have died in the pool."""


def pause(attempt: int) -> None:
    """Wait a little before a lost race is run again: longer each time, and never as long as the others wait."""
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.002 * 2**attempt)))  # noqa: S311 # not a secret


class PostgresDatabase(Handle):
    """The port's Database over a pool of connections to one schema."""

    def __init__(
        self,
        location: str,
        target: Target,
        options: Options,
        *,
        read_only: bool = False,
        pause: Callable[[int], None] = pause,
    ) -> None:
        self.location = location
        self.clock = options.clock
        self.new_id = options.new_id
        self.read_only = read_only
        self._target = target
        self._pause = pause
        self._closed = False
        self._required: set[Schema] = set()
        settings = local_settings(target, synchronous=options.synchronous)
        self._begin_write = f"BEGIN; {settings}"
        self._begin_migrating = f"BEGIN ISOLATION LEVEL READ COMMITTED; {settings}"
        self._begin_read = f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {settings}"
        self._start(POOLS.take(target))

    def _start(self, pool: ConnectionPool[Connection] | None) -> None:
        self._taken = pool
        self._local = threading.local()
        self._open: set[PostgresTransaction] = set()

    def write(self, body: Callable[[Transaction], Result]) -> Result:
        """Run `body` between BEGIN and COMMIT, again where it lost against another transaction; see the port."""
        return self._again(lambda: self._written(self._begin_write, body))

    def read(self, body: Callable[[Transaction], Result]) -> Result:
        """Run `body` on one snapshot, again where it lost against a lock; see the port."""
        return self._again(lambda: self._seen(body))

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a write transaction for a `with` block; see the port."""
        return self._writing(self._begin_write)

    def require(self, schema: Schema) -> None:
        """Make sure of the tables of `schema`; see the port."""
        self._check_usable()
        if schema in self._required:
            return
        if not self.read(lambda tx: MIGRATOR.is_current(tx, schema)):
            self._amend(schema)
        self._required.add(schema)

    def probe(self, table: str, sql: str, parameters: Parameters, *, timeout_seconds: float) -> bool:
        """Look in a transaction of its own, whatever this thread is doing; see the port."""
        self._check_usable()
        milliseconds = max(1, round(timeout_seconds * 1000))
        limits = f"SET LOCAL lock_timeout = {milliseconds}; SET LOCAL statement_timeout = {milliseconds}"
        connection = _ready(self._pool, f"{self._begin_read}; {limits}", timeout_seconds)
        transaction = PostgresTransaction(self, connection, READING)
        try:
            return finds(transaction, table, sql, parameters)
        finally:
            _roll_back(connection, transaction)
            self._pool.putconn(connection)

    def close(self) -> None:
        """Close the handle; see the port."""
        if not self._closed:
            self._closed = True
            if self._taken is not None:
                POOLS.give_back(self._target, self._taken)

    @property
    def usable(self) -> bool:
        """Whether the handle is open."""
        return not self._closed

    def forget_inherited(self) -> bool:
        """Leave the pool to the parent, and take another."""
        POOLS.forget_inherited()
        for transaction in self._open:
            transaction.inherited = True
            transaction.end()
        # Taken again when it is needed: the time of a fork is none for meeting a server.
        self._start(None)
        return False

    @property
    def _pool(self) -> ConnectionPool[Connection]:
        if self._taken is None:
            self._taken = POOLS.take(self._target)
        return self._taken

    def _amend(self, schema: Schema) -> None:
        if self.read_only:
            if absent := self.read(lambda tx: MIGRATOR.unreadable_tables(tx, schema)):
                raise missing(schema, absent)
            return

        def body(transaction: Transaction) -> None:
            transaction.lock_name(_MIGRATING)
            MIGRATOR.migrate(transaction, schema)

        if self._target.schema is not None:
            self._migrating(self._make_schema)
        self._migrating(body)

    def _migrating(self, body: Callable[[Transaction], None]) -> None:
        # Whatever the server's default: what others have made must be seen by whoever has waited for them.
        self._again(lambda: self._written(self._begin_migrating, body))

    def _make_schema(self, transaction: Transaction) -> None:
        name = self._target.schema or ""
        transaction.execute("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))", {"name": _MIGRATING})
        # Asked first, since who may use a schema need not be allowed to make one.
        if not transaction.execute("SELECT 1 AS found FROM pg_namespace WHERE nspname = :name", {"name": name}):
            transaction.execute(f"CREATE SCHEMA {quoted(name)}")

    def _again(self, attempt: Callable[[], Result]) -> Result:
        lock_waits = 0
        for number in range(_ATTEMPTS):
            try:
                return attempt()
            except LostRaceError as lost:
                lock_waits += getattr(lost.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE
                if lock_waits >= _LOCK_WAITS or number == _ATTEMPTS - 1:
                    raise
            self._pause(number)
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _written(self, statement: str, body: Callable[[Transaction], Result]) -> Result:
        with self._writing(statement) as transaction:
            return body(transaction)

    def _seen(self, body: Callable[[Transaction], Result]) -> Result:
        with self._begun(self._begin_read, READING) as (connection, transaction):
            try:
                return body(transaction)
            finally:
                _roll_back(connection, transaction)

    def _check_usable(self) -> None:
        if self._closed:
            raise StorageError(CLOSED)

    @contextmanager
    def _begun(self, statement: str, texts: Texts[str]) -> Iterator[tuple[Connection, PostgresTransaction]]:
        """Take a connection out of the pool and begin; a thread may have one transaction at a time."""
        self._check_usable()
        if self._local.__dict__.get("transaction") is not None:
            raise StorageError(NESTED)
        pool, process = self._pool, os.getpid()
        connection = _ready(pool, statement)
        transaction = self._local.transaction = PostgresTransaction(self, connection, texts)
        self._open.add(transaction)
        try:
            yield connection, transaction
        finally:
            # A forked child that comes here has neither the connection nor its pool.
            if process == os.getpid():
                self._local.transaction = None
                self._open.discard(transaction)
                pool.putconn(connection)

    @contextmanager
    def _writing(self, statement: str) -> Iterator[Transaction]:
        if self.read_only:
            raise StorageError(READ_ONLY)
        with self._begun(statement, WRITING) as (connection, transaction):
            try:
                yield transaction
            except BaseException as failure:
                _roll_back(connection, transaction)
                # An error that the body made of a lost race says less than the race; its cause stays the server's.
                if transaction.lost_race not in (None, failure) and isinstance(failure, Exception):
                    raise transaction.lost_race from transaction.lost_race.__cause__
                raise
            _commit(connection, transaction)
        transaction.run_actions()


def _commit(connection: Connection, transaction: PostgresTransaction) -> None:
    if transaction.lost_race is not None or transaction.doomed:
        _roll_back(connection, transaction)
        raise transaction.lost_race or StorageError(f"{transaction.doomed}; {DOOMED}")
    _ = transaction.connection
    transaction.end()
    try:
        answer = connection.execute("COMMIT").statusmessage
    except FAILURES as exc:
        if connection.closed and not isinstance(exc, IDLED):
            raise OutcomeUnknownError(OUTCOME_UNKNOWN) from exc
        # The server has said that it has not committed.
        raise translate(exc) from exc
    except BaseException:
        connection.close()
        raise
    if answer != "COMMIT":
        raise StorageError(f"a statement of the transaction failed and its error was caught; {DOOMED}")


def _roll_back(connection: Connection, transaction: PostgresTransaction) -> None:
    if transaction.inherited:
        return
    transaction.end()
    try:
        connection.execute("ROLLBACK")
    except FAILURES:
        # The server rolls back what it loses; a connection that is closed goes to no other thread.
        connection.close()


def _ready(pool: ConnectionPool[Connection], statement: str, timeout_seconds: float | None = None) -> Connection:
    """Take a connection on which BEGIN has succeeded: one that turns out to be dead has cost nothing yet.

    After a restart of the server every idle one is dead. The pool's own check would pause ever longer between them.
    """
    for remaining in reversed(range(pool.max_size + _CONNECTIONS_TRIED)):
        connection = _taken(pool, timeout_seconds)
        try:
            connection.execute(statement)
        except FAILURES as exc:
            pool.putconn(connection)
            if not (connection.closed and remaining):
                raise translate(exc) from exc
        except BaseException:
            connection.close()
            pool.putconn(connection)
            raise
        else:
            return connection
    raise AssertionError  # pragma: no cover - the last one is returned or refused


def _taken(pool: ConnectionPool[Connection], timeout_seconds: float | None) -> Connection:
    try:
        return pool.getconn(timeout_seconds)
    except (PoolTimeout, TooManyRequests) as exc:
        raise DatabaseUnavailableError(
            f"all {pool.max_size} connections of this handle are in use, or the server is not there or lets no further "
            "one in; see that it runs, end transactions sooner, or give the URL a larger pool_size, then try again"
        ) from exc
    except PoolClosed as exc:
        raise StorageError(CLOSED) from exc
    except FAILURES as exc:
        raise translate(exc) from exc
