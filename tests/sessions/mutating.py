"""Mutations as a caller makes them who has just read the session, and workers past the library."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from attrs import define, field

from fsm import sessions
from fsm.lifecycles.runtime_tables import EXECUTIONS, META, SESSIONS
from fsm.observers import Event, observe, unobserve
from storage import Database
from tests.sessions.support import Owner

PAYLOADS: dict[str, dict[str, Any]] = {
    "rename": {"title": "other title"},
    "archive": {"archived": True},
    "model": {"model": "large", "provider": "acme"},
    "reset": {},
    "rewind": {"target_message_id": 2},
    "branch": {"title": "branched title"},
    "compress": {"summary": "what was said", "keep_last": 1},
    "delete": {},
    "import": {"sessions": [{"session": {"id": "s"}, "messages": []}]},
}
"""A payload of each operation; the rewound message is the second of the transcript of `s`."""
FENCED = frozenset({"model", "reset", "rewind", "branch", "compress", "delete"})
IDLE = frozenset({"reset", "rewind", "branch", "compress", "delete"})
MOVING = frozenset({"reset", "rewind", "compress"})


@define
class Desk:
    """Mutates what it has read; each call is a request of its own where none is named."""

    owner: Owner
    count: int = field(default=0)

    @property
    def db(self) -> Database:
        """The handle."""
        return self.owner.db

    def arguments(self, operation: str, payload: Any = None, session: str = "s", **changes: Any) -> dict[str, Any]:
        """Return what a call takes that believes what is stored now."""
        self.count += 1
        row = self.session(session)
        return {
            "epoch": self.owner.epoch,
            "principal_id": "p",
            "session_id": session,
            "request_id": f"m{self.count}",
            "expected_revision": row["runtime_revision"] if row else 0,
            "expected_generation": row["runtime_generation"] if row and operation in FENCED else None,
            "operation": operation,
            "payload": PAYLOADS[operation] if payload is None else payload,
            **changes,
        }

    def mutate(self, operation: str, payload: Any = None, session: str = "s", **changes: Any) -> Any:
        """Make the call."""
        return self.call(self.arguments(operation, payload, session, **changes))

    def call(self, arguments: dict[str, Any]) -> Any:
        """Make a call with these very arguments."""
        return sessions.mutate_runtime_session(self.db, **arguments)

    def session(self, name: str = "s") -> dict[str, Any] | None:
        """Return a session's row as stored, or None."""
        rows = self.db.read(lambda tx: tx.execute(f"SELECT * FROM {SESSIONS.name} WHERE id = :id", {"id": name}))
        return dict(rows[0]) if rows else None

    def say(self, *contents: str, session: str = "s") -> list[int]:
        """Add messages and return their ids."""
        said = (sessions.append_message(self.db, session, role="user", content=each) for each in contents)
        return [each["id"] for each in said]

    def said(self, session: str) -> list[Any]:
        """Return the contents of a transcript."""
        return [each["content"] for each in sessions.list_messages(self.db, session)]

    def compressed(self, *, session: str = "s") -> str:
        """Compress a session and return the child."""
        return cast("str", self.mutate("compress", session=session)["child_session_id"])

    def work(self, name: str, status: str, session: str = "s") -> None:
        """Store an execution in a state, past the library."""
        self.owner.execute(
            f"INSERT INTO {EXECUTIONS.name} (execution_id, session_id, kind, owner_epoch, generation, status,"
            " adoption_digest, last_sequence) VALUES (:name, :session, 'compute', 1, 0, :status, 'd', 0)",
            name=name,
            session=session,
            status=status,
        )

    def worker(self, name: str) -> str | None:
        """Return the state of an execution."""
        rows = self.owner.execute(f"SELECT status FROM {EXECUTIONS.name} WHERE execution_id = :name", name=name)
        return cast("str", rows[0]["status"]) if rows else None

    def kept(self, prefix: str) -> dict[str, str]:
        """Return what `state_meta` keeps under keys that begin so."""
        rows = self.db.read(lambda tx: tx.execute(f"SELECT * FROM {META.name}"))
        return {str(row["key"]): str(row["value"]) for row in rows if str(row["key"]).startswith(prefix)}


@contextmanager
def heard(db: Database) -> Iterator[list[Event]]:
    """Collect what observers of the handle are told."""
    events: list[Event] = []
    observe(db, events.append)
    yield events
    unobserve(db, events.append)
