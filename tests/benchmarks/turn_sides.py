"""Who is compared at a session's turns; each side admits, claims and settles the same inputs on its own database."""

import itertools
import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any

import storage
from fsm import sessions
from fsm.runtime.keys import RESULT_PREFIX, content_digest, identity_key
from fsm.runtime.machines import ADMISSION_MACHINE
from storage import Database, Row, Transaction
from storage.port import NO_PARAMETERS, Parameters
from storage.statements import sqlite_text
from tests.benchmarks.sides import Arguments, Recorder, Synchronous
from tests.sessions.support import dump
from tests.world import START, ManualClock

PAYLOAD: dict[str, Any] = {"text": "hello", "source": {"platform": "chat", "chat_id": "c1"}}
RESULT: dict[str, Any] = {"text": "good day", "usage": {"input_tokens": 10, "output_tokens": 5}}
Recorded = list[tuple[str, Parameters]]


class ParameterRecorder(Recorder):
    """Keeps the parameters of each statement as well."""

    def __init__(self, inner: Transaction) -> None:
        super().__init__(inner)
        self.recorded: Recorded = []

    def execute(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> list[Row]:
        """Keep text and parameters, then run it."""
        self.recorded.append((sqlite_text(sql), dict(parameters)))
        return super().execute(sql, parameters)


class TurnSide(ABC):
    """One contestant: it runs the turn with this number on session `s`."""

    name: str

    def __init__(self, directory: Path, synchronous: Synchronous, turns: int) -> None:
        self.path = directory / f"{self.name}.db"
        self.synchronous = synchronous
        with closing(self.open()) as db:
            sessions.create_session(db, "s", source="cli")
            self.epoch = sessions.begin_runtime_epoch(db, instance_id="bench")
        self.turns = turns
        self.join()

    def open(self) -> Database:
        """Open the side's database; its clock stands still and its ids are the numbers of the turns."""
        numbers = itertools.count()
        return storage.open_database(
            self.path, clock=ManualClock(), new_id=lambda: f"a{next(numbers)}", synchronous=self.synchronous
        )

    @abstractmethod
    def join(self) -> None:
        """Open what the timed part uses."""

    @abstractmethod
    def leave(self) -> None:
        """Close it."""

    @abstractmethod
    def admit(self, number: int) -> None:
        """Admit the turn's input; timed."""

    @abstractmethod
    def claim(self, number: int) -> None:
        """Claim it; timed."""

    @abstractmethod
    def settle(self, number: int) -> None:
        """Settle it; timed."""

    def rows(self) -> dict[str, list[Row]]:
        """Return everything that is stored, once the timed part is over."""
        with closing(self.open()) as db:
            return dump(db)


class PublicTurns(TurnSide):
    """The public functions."""

    name = "public"

    def join(self) -> None:
        """Open the handle."""
        self._db = self.open()

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def admit(self, number: int) -> None:
        """Call admit_session_input."""
        sessions.admit_session_input(
            self._db, epoch=self.epoch, principal_id="p", session_id="s", request_id=f"r{number}", payload=PAYLOAD
        )

    def claim(self, number: int) -> None:  # noqa: ARG002 # the head of the queue is the one that was just admitted
        """Call claim_session_input."""
        sessions.claim_session_input(self._db, epoch=self.epoch, session_id="s")

    def settle(self, number: int) -> None:
        """Call settle_session_input."""
        sessions.settle_session_input(
            self._db,
            epoch=self.epoch,
            admission_id=f"a{number}",
            generation=number + 1,
            outcome="completed",
            result=RESULT,
        )


class MachineTurns(TurnSide):
    """`machine.fire` inside BEGIN and COMMIT."""

    name = "machine"

    def join(self) -> None:
        """Open the handle and make what the calls are handed."""
        self._db = self.open()
        self._prepared = [arguments(self.epoch, number) for number in range(self.turns)]

    def leave(self) -> None:
        """Close the handle."""
        self._db.close()

    def _fire(self, trigger: str, given: Arguments) -> None:
        self._db.write(lambda tx: ADMISSION_MACHINE.fire(tx, trigger, now=START, **given))

    def admit(self, number: int) -> None:
        """Fire `admit`."""
        self._fire("admit", self._prepared[number][0])

    def claim(self, number: int) -> None:
        """Fire `claim`."""
        self._fire("claim", self._prepared[number][1])

    def settle(self, number: int) -> None:
        """Fire `settle`."""
        self._fire("settle", self._prepared[number][2])


class RawTurns(TurnSide):
    """The statements that the machine runs, on a plain connection, with nothing decided from what they answer."""

    name = "raw"

    def join(self) -> None:
        """Record what the machine runs, then open a connection with the pragmas of the library's own."""
        self._recorded = recorded(self.path.with_suffix(".recorded"), self.turns)
        self._connection = sqlite3.connect(self.path, isolation_level=None, cached_statements=256)
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", f"synchronous={self.synchronous}"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _run(self, statements: Recorded) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for statement, parameters in statements:
            execute(statement, parameters).fetchall()
        execute("COMMIT")

    def admit(self, number: int) -> None:
        """Run what `admit` runs."""
        self._run(self._recorded[number][0])

    def claim(self, number: int) -> None:
        """Run what `claim` runs."""
        self._run(self._recorded[number][1])

    def settle(self, number: int) -> None:
        """Run what `settle` runs."""
        self._run(self._recorded[number][2])


def recorded(path: Path, turns: int) -> list[tuple[Recorded, ...]]:
    """Return what SQLite is given by each call of each turn, recorded while the machine runs them."""

    def fire(db: Database, trigger: str, given: Arguments) -> Recorded:
        with db.transaction() as tx:
            recorder = ParameterRecorder(tx)
            ADMISSION_MACHINE.fire(recorder, trigger, now=START, **given)
        return recorder.recorded

    with closing(storage.open_database(path, clock=ManualClock(), synchronous="normal")) as db:
        sessions.create_session(db, "s", source="cli")
        epoch = sessions.begin_runtime_epoch(db, instance_id="bench")
        triggers = ("admit", "claim", "settle")
        return [
            tuple(fire(db, *each) for each in zip(triggers, arguments(epoch, number), strict=True))
            for number in range(turns)
        ]


def arguments(epoch: int, number: int) -> tuple[Arguments, Arguments, Arguments]:
    """Return what the three triggers of a turn are handed."""
    payload, result = (_json(value) for value in (PAYLOAD, RESULT))
    admission = f"a{number}"
    admit: Arguments = {
        "admission_id": admission,
        "principal_id": "p",
        "session_id": "s",
        "request_id": f"r{number}",
        "intent": "queue",
        "payload_json": payload,
        "payload_digest": content_digest("s", payload, "queue"),
        "lineage_json": '["s"]',
        "tombstone_key": identity_key("p", "s", f"r{number}"),
        "epoch": epoch,
    }
    claim: Arguments = {"session_id": "s", "any_head": 1, "head": None, "epoch": epoch}
    settle: Arguments = {
        "admission_id": admission,
        "outcome": "completed",
        "result_json": result,
        "epoch": epoch,
        "result_key": f"{RESULT_PREFIX}{admission}",
        "generation": number + 1,
    }
    return admit, claim, settle


def _json(value: object) -> str:
    return storage.canonical_json(value, label="x", error=ValueError, maximum_bytes=10_000, ascii_only=False)


__all__ = ["MachineTurns", "PublicTurns", "RawTurns", "TurnSide"]
