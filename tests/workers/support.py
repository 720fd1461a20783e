"""A worker's calls, short, and its execution brought into any state through the library alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, evolve

from fsm import workers
from fsm.lifecycles.runtime_tables import EXECUTIONS, RECEIPTS, TURN_LEASES
from fsm.runtime.machines import TURN_LEASE_MACHINE, WORKER_MACHINE
from storage import Database, Row
from tests.sessions.support import Owner

SECRET, OTHER_SECRET = "a secret of its own", "that of another"
STATES = ("none", "registered", "running", "unknown", "terminal")


@define
class Works:
    """What one owner and its workers ask of the library: by default worker `w` of session `s` at generation 0."""

    owner: Owner

    @property
    def db(self) -> Database:
        """The database."""
        return self.owner.db

    def succeed(self) -> "Works":
        """Begin the next epoch; what this one asks is stale from now on."""
        return evolve(self, owner=self.owner.succeed())

    def _named(self, worker: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"epoch": self.owner.epoch, "execution_id": worker, "session_id": "s", "generation": 0, **given}

    def register(self, worker: str = "w", **given: Any) -> workers.WorkerView:
        """Register a worker."""
        proof = {"kind": "cron", "adoption_secret": SECRET}
        return workers.register_worker_execution(self.db, **{**proof, **self._named(worker, given)})

    def adopt(self, worker: str = "w", **given: Any) -> workers.WorkerView:
        """Adopt a worker."""
        return workers.adopt_worker_execution(self.db, **{"adoption_secret": SECRET, **self._named(worker, given)})

    def do(
        self, operation: str, payload: Any = None, sequence: int | None = None, worker: str = "w", **given: Any
    ) -> dict[str, Any]:
        """Report an operation under a sequence number, by default the next one."""
        number = self.next(worker) if sequence is None else sequence
        request = {"operation": operation, "payload": {} if payload is None else payload, "sequence": number}
        return workers.mutate_worker_execution(self.db, **{**request, **self._named(worker, given)})

    def apply(self, handler: Any, sequence: int | None = None, worker: str = "w", **given: Any) -> dict[str, Any]:
        """Report the operation `own`, which the handler carries out."""
        number = self.next(worker) if sequence is None else sequence
        request = {"operation": "own", "payload": {}, "sequence": number, "handlers": {"own": handler}}
        return workers.apply_worker_receipt(self.db, **{**request, **self._named(worker, given)})

    def append(self, *texts: str, **given: Any) -> dict[str, Any]:
        """Append a user's messages."""
        return self.do(
            "transcript.append", {"messages": [{"role": "user", "content": text} for text in texts]}, **given
        )

    def finish(self, **given: Any) -> dict[str, Any]:
        """Report that the worker is done."""
        return self.do("execution.finish", **given)

    def bring(self, state: str) -> "Works":
        """Bring worker `w` into a state, by name, with one receipt where it has run; return whose it is then."""
        return _WAYS[state](self)

    def row(self, worker: str = "w") -> Row | None:
        """Return an execution's row as stored."""
        rows = self.owner.execute(f"SELECT * FROM {EXECUTIONS.name} WHERE execution_id = :id", id=worker)
        return rows[0] if rows else None

    def state(self, worker: str = "w") -> str:
        """Return the state that an execution is in; `new` where there is none."""
        return WORKER_MACHINE.state_of(self.row(worker), now=0.0)

    def next(self, worker: str = "w") -> int:
        """Return the number of a worker's next operation."""
        row = self.row(worker)
        return 1 if row is None else int(row["last_sequence"] or 0) + 1

    def receipts(self, worker: str = "w") -> list[Row]:
        """Return an execution's receipts as stored, in their order."""
        sql = f"SELECT * FROM {RECEIPTS.name} WHERE execution_id = :id ORDER BY sequence"
        return self.owner.execute(sql, id=worker)

    def revision(self, session: str = "s") -> int:
        """Return a session's revision."""
        return int(self.owner.session(session)["runtime_revision"] or 0)

    def lease(self, conversation: str = "s") -> Row | None:
        """Return the row of a conversation's turn as stored."""
        rows = self.owner.execute(f"SELECT * FROM {TURN_LEASES.name} WHERE conversation_id = :id", id=conversation)
        return rows[0] if rows else None

    def turn(self, conversation: str = "s") -> str:
        """Return the state that a conversation's turn is in."""
        return TURN_LEASE_MACHINE.state_of(self.lease(conversation), now=self.owner.clock.now)

    def alter(self, **columns: Any) -> None:
        """Set columns of worker `w` past the library."""
        settings = ", ".join(f"{column} = :{column}" for column in columns)
        self.owner.execute(f"UPDATE {EXECUTIONS.name} SET {settings} WHERE execution_id = 'w'", **columns)

    @contextmanager
    def refuses(self, reason: str) -> Iterator[None]:
        """Expect a refusal for this reason, which leaves every row as it was."""
        with self.owner.refuses(reason):
            yield

    @contextmanager
    def changes_nothing(self) -> Iterator[None]:
        """Expect that every row stays as it was."""
        with self.owner.changes_nothing():
            yield


def _registered(works: Works) -> Works:
    works.register()
    return works


def _running(works: Works) -> Works:
    works.register()
    works.append("hello")
    return works


def _unknown(works: Works) -> Works:
    _running(works)
    successor = works.succeed()
    successor.owner.recover()
    return successor


def _terminal(works: Works) -> Works:
    _running(works).finish()
    return works


_WAYS: dict[str, Callable[[Works], Works]] = {
    "none": lambda works: works,
    "registered": _registered,
    "running": _running,
    "unknown": _unknown,
    "terminal": _terminal,
}
