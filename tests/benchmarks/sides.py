"""Who is compared; each side starts and settles the same tasks on a database of its own."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar, Literal

import psycopg
from attrs import frozen

import storage
from fsm import driver
from fsm.driver import DriverLease, TaskAttempt, TaskIdentity
from fsm.driver.machines import TASK_MACHINE
from storage import Database, Row, Transaction, Value
from storage.port import NO_PARAMETERS, Parameters
from storage.postgres.target import local_settings, parse_target
from storage.statements import server_text, sqlite_text
from tests.engines import Engine
from tests.world import START, ManualClock, World, dump, identity

Synchronous = Literal["full", "normal"]
Arguments = dict[str, Value]

RESULT = {"n": 1}
"""What every task answers; its JSON is short, as the prompt is: bytes cost both sides alike."""


@frozen
class Statement:
    """One text that the machine runs; `clause` says how it locks the rows that it reads."""

    sql: str
    clause: str = ""

    @property
    def on_server(self) -> str:
        """The text as psycopg takes it."""
        return server_text(self.sql) + self.clause


class Recorder(Transaction):
    """Passes everything on to an open transaction and keeps the text of each statement, in order."""

    def __init__(self, inner: Transaction) -> None:
        self.database = inner.database
        self.statements: list[Statement] = []
        self._inner = inner

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> list[Row]:
        """Keep the text, then run it."""
        self.statements.append(Statement(sql))
        return self._inner.execute(sql, parameters)

    def lock(self, sql: str, parameters: Parameters = NO_PARAMETERS, *, shared: bool = False) -> list[Row]:
        """Keep the text, then run it."""
        self.statements.append(Statement(sql, " FOR SHARE" if shared else " FOR NO KEY UPDATE"))
        return self._inner.lock(sql, parameters, shared=shared)

    def lock_name(self, name: str) -> None:
        """Pass it on."""
        self._inner.lock_name(name)

    @property
    def changes(self) -> int:
        """How many rows were changed."""
        return self._inner.changes

    def after_commit(self, action: Callable[[], None]) -> None:
        """Pass it on."""
        self._inner.after_commit(action)

    def doom(self, reason: str) -> None:
        """Pass it on."""
        self._inner.doom(reason)

    def mark(self) -> object:
        """Pass it on."""
        return self._inner.mark()

    def keep(self, mark: object) -> None:
        """Pass it on."""
        self._inner.keep(mark)

    def undo(self, mark: object) -> None:
        """Pass it on."""
        self._inner.undo(mark)

    def table_exists(self, name: str) -> bool:
        """Pass it on."""
        return self._inner.table_exists(name)


class LockingRecorder(Recorder):
    """Records on an engine where the machine must lock rows."""

    locks_rows: ClassVar[bool] = True


class Side(ABC):
    """One contestant: it is given the number of a task, which stands at the head of the queue."""

    name: str

    def __init__(self, engine: Engine, synchronous: Synchronous, tasks: int) -> None:
        self.engine = engine
        self.location = engine.location()
        self.synchronous = synchronous
        with closing(self.open()) as db:
            world = World(db, ManualClock())
            for number in range(tasks):
                world.admit(task_name(number), number + 1)
            self.lease: DriverLease = world.lease
        self.prepared = [self.prepare(number) for number in range(tasks)]
        self.join()

    def open(self) -> Database:
        """Open the side's database with a clock that stands still, so that all sides store the same instants."""
        return storage.open_database(self.location, clock=ManualClock(), synchronous=self.synchronous)

    @abstractmethod
    def prepare(self, number: int) -> Any:
        """Return what the calls for this task are handed; made outside of the timed part."""

    @abstractmethod
    def join(self) -> None:
        """Open what the timed part uses."""

    @abstractmethod
    def leave(self) -> None:
        """Close it."""

    @abstractmethod
    def start(self, number: int) -> None:
        """Start the task; timed."""

    @abstractmethod
    def settle(self, number: int) -> None:
        """Settle the task; timed."""

    def rows(self) -> dict[str, list[Row]]:
        """Return everything that is stored, once the timed part is over."""
        with closing(self.open()) as db:
            return dump(db)


class MachineSide(Side):
    """`machine.fire` inside BEGIN and COMMIT."""

    name = "machine"

    def prepare(self, number: int) -> tuple[Arguments, Arguments]:
        """Return the arguments of both calls."""
        return start_arguments(self.lease, number), settle_arguments(self.lease, number)

    def join(self) -> None:
        """Open the handle."""
        self._db = self.open()

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def start(self, number: int) -> None:
        """Fire `start`."""
        arguments = self.prepared[number][0]
        self._db.write(lambda tx: TASK_MACHINE.fire(tx, "start", now=START, **arguments))

    def settle(self, number: int) -> None:
        """Fire `settle`."""
        arguments = self.prepared[number][1]
        self._db.write(lambda tx: TASK_MACHINE.fire(tx, "settle", now=START, **arguments))


class PublicSide(Side):
    """`driver.start_task` and `driver.settle_task`."""

    name = "public"

    def prepare(self, number: int) -> TaskIdentity:
        """Return the identity; the attempt is what start_task answers."""
        return identity(task_name(number))

    def join(self) -> None:
        """Open the handle."""
        self._db = self.open()
        self._attempt: TaskAttempt | None = None

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def start(self, number: int) -> None:
        """Call start_task."""
        self._attempt = driver.start_task(self._db, self.prepared[number], self.lease, expected_cancel_generation=0)

    def settle(self, number: int) -> None:
        """Call settle_task."""
        assert self._attempt is not None
        driver.settle_task(self._db, self._attempt, settlement_id=f"s{number}", status="settled", result=RESULT)


class StorageSide(Side):
    """The same statements through the storage layer, without a machine: it tells whose the cost is."""

    name = "storage"

    def prepare(self, number: int) -> tuple[Arguments, Arguments]:
        """Return the parameters of both transactions."""
        now: Arguments = {"now": START}
        return now | start_arguments(self.lease, number), now | settle_arguments(self.lease, number)

    def join(self) -> None:
        """Open the handle."""
        self._starting, self._settling = recorded(self.engine.location())
        self._db = self.open()

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def start(self, number: int) -> None:
        """Run what `start` runs."""
        self._db.write(lambda tx: self._run(tx, self._starting, self.prepared[number][0]))

    def settle(self, number: int) -> None:
        """Run what `settle` runs."""
        self._db.write(lambda tx: self._run(tx, self._settling, self.prepared[number][1]))

    def _run(self, tx: Transaction, statements: tuple[Statement, ...], parameters: Arguments) -> None:
        for statement in statements:
            run = tx.lock if statement.clause else tx.execute
            run(statement.sql, parameters)


class RawSide(Side):
    """The statements that the machine runs, on a plain connection, with nothing decided from what they answer."""

    name = "raw"
    begin: str

    def prepare(self, number: int) -> tuple[Arguments, Arguments]:
        """Return the parameters of both transactions."""
        now: Arguments = {"now": START}
        return now | start_arguments(self.lease, number), now | settle_arguments(self.lease, number)

    def join(self) -> None:
        """Open a connection as the library opens its own."""
        recording = recorded(self.engine.location())
        self._starting, self._settling = (tuple(map(self.text, statements)) for statements in recording)
        self._connection = self.connect()

    @abstractmethod
    def text(self, statement: Statement) -> str:
        """Return a statement as the driver takes it."""

    @abstractmethod
    def connect(self) -> Any:
        """Return a connection with the settings of the library's own; it may set `begin`."""

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()

    def start(self, number: int) -> None:
        """Run what `start` runs."""
        self._run(self._starting, self.prepared[number][0])

    def settle(self, number: int) -> None:
        """Run what `settle` runs."""
        self._run(self._settling, self.prepared[number][1])

    def _run(self, statements: tuple[str, ...], parameters: Arguments) -> None:
        execute = self._connection.execute
        execute(self.begin)
        rows: list[Any] = []
        for statement in statements:
            rows = execute(statement, parameters).fetchall()
        if len(rows) != 1:
            raise AssertionError(f"the write changed {len(rows)} rows")
        execute("COMMIT")


class RawSqliteSide(RawSide):
    """The raw side through sqlite3."""

    begin = "BEGIN IMMEDIATE"

    def text(self, statement: Statement) -> str:
        """Return the text as SQLite takes it."""
        return sqlite_text(statement.sql)

    def connect(self) -> sqlite3.Connection:
        """Return a connection with the pragmas of the library's own."""
        connection = sqlite3.connect(self.location, isolation_level=None, cached_statements=256)
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", f"synchronous={self.synchronous}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection


class RawPostgresSide(RawSide):
    """The raw side through psycopg, on one connection that is kept; its rows are tuples, the quickest there are."""

    def text(self, statement: Statement) -> str:
        """Return the text as psycopg takes it."""
        return statement.on_server

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """Return a connection; each transaction begins, in one round trip, with the settings of the library's own."""
        target = parse_target(self.location)
        assert target is not None
        self.begin = f"BEGIN; {local_settings(target, synchronous=self.synchronous)}"
        return psycopg.connect(target.conninfo, autocommit=True, prepare_threshold=None)


def recorded(location: str) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """Return what the engine is given by one start and by one settle, recorded while the machine runs them."""
    found = []
    with closing(storage.open_database(location, clock=ManualClock())) as db:
        world = World(db, ManualClock())
        world.admit(task_name(0))
        for trigger, make in (("start", start_arguments), ("settle", settle_arguments)):
            with db.transaction() as tx:
                recorder = (LockingRecorder if tx.locks_rows else Recorder)(tx)
                TASK_MACHINE.fire(recorder, trigger, now=START, **make(world.lease, 0))
            found.append(tuple(recorder.statements))
    starting, settling = found
    return starting, settling


def task_name(number: int) -> str:
    """Return the task_id of the task with this number; the queue's order is that of the numbers."""
    return f"t{number:06}"


def start_arguments(lease: DriverLease, number: int) -> Arguments:
    """Return what `start` is handed."""
    return {**identity(task_name(number)).arguments(), **lease.arguments(), "cancel_generation": 0}


def settle_arguments(lease: DriverLease, number: int) -> Arguments:
    """Return what `settle` is handed."""
    attempt = TaskAttempt(identity(task_name(number)), lease, 1, 0)
    result = storage.canonical_json(RESULT, label="result", error=ValueError, maximum_bytes=100, ascii_only=True)
    return {**attempt.arguments(), "settlement_id": f"s{number}", "status": "settled", "result_json": result}


__all__ = ["MachineSide", "PublicSide", "RawPostgresSide", "RawSqliteSide", "Side", "StorageSide", "Synchronous"]
