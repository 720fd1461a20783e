"""A session's owner, who brings an admission into any state, and looks at what is stored past the library."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define, evolve

from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import ADMISSIONS, EXECUTIONS, SESSIONS
from fsm.runtime.machines import ADMISSION_MACHINE, WORKER_MACHINE
from fsm.schema import RUNTIME_SCHEMA
from storage import Database, Row
from tests.world import ManualClock

STATES = (
    *("none", "queued", "behind", "started", "unknown", "steering"),
    *("completed", "interrupted", "rejected", "failed", "cancelled", "steered"),
)
"""`behind`: queued behind a turn that runs, which could take it along."""
RESULT = {"n": 1}


@define
class Owner:
    """The owner of one epoch, with short ways to call the library."""

    db: Database
    clock: ManualClock
    epoch: int

    @classmethod
    def begin(cls, db: Database, clock: ManualClock) -> "Owner":
        """Begin an epoch over the session `s`, which is created where it is missing."""
        owner = cls(db, clock, sessions.begin_runtime_epoch(db, instance_id="one"))
        owner.open("s")
        return owner

    def succeed(self) -> "Owner":
        """Begin the next epoch; what this owner holds is stale from now on."""
        return evolve(self, epoch=sessions.begin_runtime_epoch(self.db, instance_id="next"))

    def open(self, session: str, **changes: Any) -> sessions.SessionView:
        """Create a session."""
        return sessions.create_session(self.db, session, **{"source": "cli", **changes})

    def admit(self, request: str = "r1", session: str = "s", **changes: Any) -> sessions.AdmissionView:
        """Admit an input whose id is `a-` and the request's."""
        arguments = {"principal_id": "p", "payload": {"text": f"do {request}"}, **changes}
        return sessions.admit_session_input(
            self.db, epoch=self.epoch, session_id=session, request_id=request, **arguments
        )

    def claim(self, session: str = "s", **changes: Any) -> Any:
        """Claim the head of a session's queue."""
        return sessions.claim_session_input(self.db, epoch=self.epoch, session_id=session, **changes)

    def start(self, request: str = "r1", session: str = "s") -> sessions.AdmissionView:
        """Admit an input to an idle session and claim it."""
        self.admit(request, session)
        claimed: sessions.AdmissionView = self.claim(session)
        assert claimed["request_id"] == request
        return claimed

    def settle(self, admission: Any, outcome: str = "completed", **changes: Any) -> sessions.AdmissionView:
        """Settle a claim by what its view says."""
        arguments = {"generation": admission["generation"], "result": RESULT, **changes}
        return sessions.settle_session_input(
            self.db, epoch=self.epoch, admission_id=admission["admission_id"], outcome=outcome, **arguments
        )

    def cancel(self, admission: Any) -> sessions.AdmissionView:
        """Cancel an input."""
        return sessions.cancel_session_input(self.db, epoch=self.epoch, admission_id=admission["admission_id"])

    def steer(self, admission: Any, generation: int = 1) -> tuple[sessions.AdmissionView, bool]:
        """Hand an input to the claim of a generation."""
        return sessions.steer_session_input(
            self.db, epoch=self.epoch, admission_id=admission["admission_id"], generation=generation
        )

    def resolve(self, admission: Any, **changes: Any) -> sessions.AdmissionView:
        """Resolve an unknown turn by what its view says."""
        arguments = {"generation": admission["generation"], **changes}
        return sessions.resolve_unknown_session_input(
            self.db, epoch=self.epoch, admission_id=admission["admission_id"], **arguments
        )

    def recover(self) -> int:
        """Recover what older epochs left."""
        return sessions.recover_session_inputs(self.db, epoch=self.epoch)

    def register(self, execution: str, session: str = "s", *, kind: str = "compute", generation: int = 1) -> None:
        """Register a worker's execution, as its owner is about to start it."""
        arguments: Row = {"execution_id": execution, "session_id": session, "kind": kind, "generation": generation}
        further: Row = {"epoch": self.epoch, "adoption_digest": "d", "tombstone_key": "none"}
        self.db.write(lambda tx: WORKER_MACHINE.fire(tx, "register", now=1.0, **arguments, **further))

    def adopt(self, execution: str, session: str = "s", *, generation: int = 1) -> None:
        """Let a worker's execution prove itself to this owner."""
        arguments: Row = {"execution_id": execution, "session_id": session, "generation": generation}
        further: Row = {"epoch": self.epoch, "adoption_digest": "d", "reserved": 0}
        self.db.write(lambda tx: WORKER_MACHINE.fire(tx, "adopt", now=1.0, **arguments, **further))

    def workers(self) -> dict[str, str]:
        """Return the status of each execution."""
        rows = self.execute(f"SELECT execution_id, status FROM {EXECUTIONS.name}")
        return {str(row["execution_id"]): str(row["status"]) for row in rows}

    def bring(self, state: str, request: str = "r1") -> "Owner":
        """Bring an admission of session `s` into a state, by name; return who is its session's owner then."""
        return _WAYS[state](self, request)

    def row(self, request: str = "r1", session: str = "s") -> Row | None:
        """Return an admission's row as stored."""
        sql = f"SELECT * FROM {ADMISSIONS.name} WHERE request_id = :request AND target_session_id = :session"
        rows = self.db.read(lambda tx: tx.execute(sql, {"request": request, "session": session}))
        return rows[0] if rows else None

    def state(self, request: str = "r1", session: str = "s") -> str:
        """Return the state that an admission is in; `new` where there is none."""
        return ADMISSION_MACHINE.state_of(self.row(request, session), now=0.0)

    def session(self, name: str = "s") -> Row:
        """Return a session's row as stored."""
        return self.execute(f"SELECT * FROM {SESSIONS.name} WHERE id = :id", id=name)[0]

    def everything(self) -> dict[str, list[Row]]:
        """Return every row of every table of the runtime."""
        return dump(self.db)

    def execute(self, sql: str, **values: Any) -> list[Row]:
        """Change or read the database past the library, as damage or another program would."""
        return self.db.write(lambda tx: tx.execute(sql, values))

    def alter(self, request: str = "r1", **columns: Any) -> None:
        """Set columns of an admission past the library, as a gateway that writes its own rows would."""
        settings = ", ".join(f"{column} = :{column}" for column in columns)
        self.execute(f"UPDATE {ADMISSIONS.name} SET {settings} WHERE request_id = :request", request=request, **columns)

    @contextmanager
    def refuses(self, reason: str) -> Iterator[None]:
        """Expect a refusal for this reason, which leaves every row as it was."""
        before = self.everything()
        with pytest.raises(RuntimeStoreError) as refusal:
            yield
        assert type(refusal.value) is RuntimeStoreError
        assert refusal.value.reason == reason
        assert self.everything() == before

    @contextmanager
    def changes_nothing(self) -> Iterator[None]:
        """Expect that every row stays as it was."""
        before = self.everything()
        yield
        assert self.everything() == before


def dump(db: Database) -> dict[str, list[Row]]:
    """Return every row of every table of the runtime, in the order of their keys."""

    def read(table: Any) -> list[Row]:
        order = ", ".join(map(quoted, table.primary_key))
        return db.read(lambda tx: tx.execute(f"SELECT * FROM {quoted(table.name)} ORDER BY {order}"))

    return {table.name: read(table) for table in RUNTIME_SCHEMA.tables}


def _none(owner: Owner, _: str) -> Owner:
    return owner


def _queued(owner: Owner, request: str) -> Owner:
    owner.admit(request)
    return owner


def _behind(owner: Owner, request: str) -> Owner:
    owner.start("r0")
    owner.admit(request)
    return owner


def _started(owner: Owner, request: str) -> Owner:
    owner.start(request)
    return owner


def _unknown(owner: Owner, request: str) -> Owner:
    owner.start(request)
    successor = owner.succeed()
    successor.recover()
    return successor


def _steering(owner: Owner, request: str) -> Owner:
    owner.start("r0")
    owner.steer(owner.admit(request))
    return owner


def _settled(outcome: str) -> Callable[[Owner, str], Owner]:
    def bring(owner: Owner, request: str) -> Owner:
        owner.settle(owner.start(request), outcome)
        return owner

    return bring


def _cancelled(owner: Owner, request: str) -> Owner:
    owner.cancel(owner.admit(request))
    return owner


def _steered(owner: Owner, request: str) -> Owner:
    running = owner.start("r0")
    taken, _ = owner.steer(owner.admit(request))
    owner.settle(running, transfers={taken["admission_id"]: True})
    return owner


_WAYS: dict[str, Callable[[Owner, str], Owner]] = {
    "none": _none,
    "queued": _queued,
    "behind": _behind,
    "started": _started,
    "unknown": _unknown,
    "steering": _steering,
    **{outcome: _settled(outcome) for outcome in ("completed", "interrupted", "rejected", "failed")},
    "cancelled": _cancelled,
    "steered": _steered,
}
