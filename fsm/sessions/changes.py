"""One change of a session: what its operation is handed, what it answers, and how the sessions around it are held."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from fsm.errors import RuntimeStoreError
from fsm.lifecycle import DECLINE, Arg, Authority
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import SESSIONS
from fsm.machine.standing import require
from fsm.runtime.keys import RETIRED_SESSION_PREFIX
from fsm.runtime.lineage import chain_from
from fsm.runtime.meta import kept
from storage import Transaction, Value

__all__ = ["Change", "Effect", "Scope", "conflict", "family_of", "hold", "require_unused", "standing"]

_STANDING: Final = Authority("session", SESSIONS, {"id": Arg("session_id")}, DECLINE)
_DELEGATES = f"""
    SELECT id FROM {quoted(SESSIONS.name)} WHERE parent_session_id = :id AND source = 'delegate' ORDER BY id
"""

Scope = Callable[[Transaction, str], list[str]]
"""Which sessions an operation on a session is about."""


@frozen
class Change:
    """What an operation works on: `session_id` is the session that the call named, `row` its row, nulls for none.

    `sessions` are held and are, where the operation asks for it, idle.
    """

    tx: Transaction
    session_id: str
    row: Mapping[str, Value]
    sessions: list[str]
    payload: Mapping[str, Any]
    now: float
    new_id: Callable[[], str]

    @property
    def transcript(self) -> str:
        """The session in which the conversation goes on, where a lineage is held."""
        return self.sessions[-1]


@frozen
class Effect:
    """What an operation did: its part of the result, and the sessions whose revision goes up."""

    result: Mapping[str, Any]
    revised: tuple[str, ...] = field(default=())


def standing(tx: Transaction, session_id: str) -> Mapping[str, Value]:
    """Return a session's row, held until the end of the transaction; nulls where there is none."""
    return require(tx, _STANDING, session_id=session_id)["session"]


def hold(tx: Transaction, scope: Scope, session_id: str) -> list[str]:
    """Hold the rows of the scope's sessions until the end of the transaction, and return them.

    Read, held by id, and read again, until nothing joins that another transaction has added meanwhile.
    """
    held: set[str] = set()
    while True:
        found = scope(tx, session_id)
        joining = sorted(set(found) - held)
        if not joining:
            return found
        for each in joining:
            standing(tx, each)
        held.update(joining)


def family_of(tx: Transaction, session_id: str) -> list[str]:
    """Return the session, what continues it, and the delegates of each with what continues them.

    Raises RuntimeStoreError: not_found; admission_conflict where the links run in a circle.
    """
    family: dict[str, None] = {}
    waiting = [session_id]
    while waiting:
        session = waiting.pop(0)
        if session not in family:
            family[session] = None
            waiting += chain_from(tx, session)[1:]
            waiting += (str(row["id"]) for row in tx.execute(_DELEGATES, {"id": session}))
    return list(family)


def conflict(field: str, said: str) -> RuntimeStoreError:
    """Return the refusal of a session that contradicts what is stored."""
    return RuntimeStoreError("admission_conflict", field=field, detail=said)


def require_unused(tx: Transaction, session_id: str) -> None:
    """Refuse an id that was a deleted session's; raises RuntimeStoreError(admission_conflict)."""
    if kept(tx, f"{RETIRED_SESSION_PREFIX}{session_id}") is not None:
        raise conflict("session_id", "expected an id of no deleted session, found one; use a new id")
