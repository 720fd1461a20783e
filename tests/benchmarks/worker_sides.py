"""Who is compared at a worker's life; each side registers, reports ten operations and finishes on its own database."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import storage
from fsm import sessions, workers
from fsm.machine import Record
from fsm.runtime.keys import TERMINAL_WORKER_PREFIX
from fsm.runtime.machines import WORKER_MACHINE
from fsm.workers.operations import OPERATIONS
from fsm.workers.receipts import Request
from storage import Database, Row, Transaction
from tests.benchmarks.sides import Arguments, Synchronous
from tests.benchmarks.turn_sides import ParameterRecorder, Recorded
from tests.sessions.support import dump
from tests.world import START, ManualClock

REPORTS: Final = 10
DIGEST: Final = "d" * 64
MESSAGES: Final = [
    {"role": "assistant", "content": "a line of an answer", "finish_reason": "tool_calls"},
    {"role": "tool", "content": "what the tool said", "tool_call_id": "c1"},
]
STEPS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("turn.acquire", {"holder": "w"}),
    *(("transcript.append", {"messages": MESSAGES, "turn_lease_holder": "w"}) for _ in range(REPORTS - 3)),
    ("usage.main", {"input_tokens": 900, "output_tokens": 120, "model": "m", "estimated_cost_usd": 0.01}),
    ("turn.release", {"holder": "w"}),
    ("execution.finish", {}),
)
"""What a worker reports after it was registered: ten operations, and its end."""
CALLS: Final = 1 + len(STEPS)


class WorkerSide(ABC):
    """One contestant: it runs the life of the worker with this number on session `s`, call by call."""

    name: str

    def __init__(self, directory: Path, synchronous: Synchronous, lives: int) -> None:
        self.path = directory / f"{self.name}.db"
        self.synchronous = synchronous
        self.lives = lives
        with closing(self.open()) as db:
            prepare(db)
        self.join()

    def open(self) -> Database:
        """Open the side's database; its clock stands still."""
        return storage.open_database(self.path, clock=ManualClock(), synchronous=self.synchronous)

    @abstractmethod
    def join(self) -> None:
        """Open what the timed part uses, and prepare what it is handed."""

    @abstractmethod
    def leave(self) -> None:
        """Close it."""

    @abstractmethod
    def call(self, number: int, step: int) -> None:
        """Make one call of a life: step 0 registers, the others are those of STEPS; timed."""

    def rows(self) -> dict[str, list[Row]]:
        """Return everything that is stored, once the timed part is over."""
        with closing(self.open()) as db:
            return dump(db)


class PublicWorkers(WorkerSide):
    """The public functions."""

    name = "public"

    def join(self) -> None:
        """Open the handle."""
        self._db = self.open()

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def call(self, number: int, step: int) -> None:
        """Register, or report."""
        named = {"epoch": 1, "execution_id": f"w{number}", "session_id": "s", "generation": 0}
        if step == 0:
            workers.register_worker_execution(self._db, **named, kind="cron", adoption_secret=f"secret {number}")
            return
        operation, payload = STEPS[step - 1]
        workers.mutate_worker_execution(self._db, **named, sequence=step, operation=operation, payload=payload)

    def rows(self) -> dict[str, list[Row]]:
        """Return everything that is stored, but for the digests of secrets, which the others do not compute."""
        stored = super().rows()
        for row in stored["worker_executions"]:
            row["adoption_digest"] = DIGEST
        return stored


class MachineWorkers(WorkerSide):
    """`machine.fire` inside BEGIN and COMMIT."""

    name = "machine"

    def join(self) -> None:
        """Open the handle and make what the calls are handed."""
        self._db = self.open()
        self._prepared = [life(number) for number in range(self.lives)]

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def call(self, number: int, step: int) -> None:
        """Fire the trigger of this step."""
        fire = self._prepared[number][step]
        self._db.write(fire)


class RawWorkers(WorkerSide):
    """The statements that the machine runs, on a plain connection, with nothing decided from what they answer."""

    name = "raw"

    def join(self) -> None:
        """Record what the machine runs, then open a connection with the pragmas of the library's own."""
        self._recorded = recorded(self.path.with_suffix(".recorded"), self.lives)
        self._connection = sqlite3.connect(self.path, isolation_level=None, cached_statements=256)
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", f"synchronous={self.synchronous}"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()

    def call(self, number: int, step: int) -> None:
        """Run what this step runs."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for statement, parameters in self._recorded[number][step]:
            execute(statement, parameters).fetchall()
        execute("COMMIT")


Fire = Callable[[Transaction], object]


def prepare(db: Database) -> None:
    """Make the session and begin the epoch."""
    sessions.create_session(db, "s", source="cli")
    sessions.begin_runtime_epoch(db, instance_id="bench")


def life(number: int) -> list[Fire]:
    """Return what a worker's calls fire, one after the other."""
    return [_registering(f"w{number}"), *(_reporting(f"w{number}", step) for step in range(1, CALLS))]


def _registering(name: str) -> Fire:
    given: Arguments = {"execution_id": name, "session_id": "s", "kind": "cron", "adoption_digest": DIGEST}
    given |= {"tombstone_key": f"{TERMINAL_WORKER_PREFIX}{name}", "epoch": 1, "generation": 0}
    return lambda tx: WORKER_MACHINE.fire(tx, "register", now=START, **given)


def _reporting(name: str, step: int) -> Fire:
    operation, payload = STEPS[step - 1]
    named: dict[str, Any] = {"execution_id": name, "session_id": "s", "sequence": step}
    request = Request.parse(**named, operation=operation, payload=payload, known=OPERATIONS)
    known, trigger = OPERATIONS[operation], "finish" if step == len(STEPS) else "apply"
    parsed = known.parse(request.payload())

    def run(record: Record) -> Any:
        return known.run(record, parsed)

    fences: Arguments = {"epoch": 1, "generation": 0}
    return lambda tx: WORKER_MACHINE.fire(tx, trigger, {"run": run}, now=START, **request.arguments, **fences)


def recorded(path: Path, lives: int) -> list[list[Recorded]]:
    """Return what SQLite is given by each call of each life, recorded while the machine runs them."""

    def record(db: Database, fire: Fire) -> Recorded:
        with db.transaction() as tx:
            recorder = ParameterRecorder(tx)
            fire(recorder)
        return recorder.recorded

    with closing(storage.open_database(path, clock=ManualClock(), synchronous="normal")) as db:
        prepare(db)
        return [[record(db, fire) for fire in life(number)] for number in range(lives)]


__all__ = ["CALLS", "MachineWorkers", "PublicWorkers", "RawWorkers", "WorkerSide"]
