"""The mutations of a session, as a table: what each is about, what it asks for, and what it does."""

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from fsm.runtime.lineage import lineage_of
from fsm.sessions.changes import Change, Effect, Scope, family_of
from fsm.sessions.deletion import delete, lineages_of_family
from fsm.sessions.editing import archive, rename, set_model
from fsm.sessions.restoring import import_sessions
from fsm.sessions.transcripts import branch, compress, discard_unknown, reset, rewind
from storage import Transaction

__all__ = ["IMPORT", "OPERATIONS", "Operation"]

IMPORT: Final = "import"
"""The one operation that asks for no session."""


def _itself(_tx: Transaction, session_id: str) -> list[str]:
    return [session_id]


@frozen
class Operation:
    """One mutation.

    `scope` names the sessions that it holds and that must be idle where it is `idle`; `taken` those of which a live
    guard is asked. A `fenced` one needs the generation that the caller believes in, one that `moves` raises it. `first`
    comes ahead of the question whether the sessions are idle.
    """

    effect: Callable[[Change], Effect]
    scope: Scope = _itself
    taken: Scope = _itself
    fenced: bool = False
    idle: bool = False
    idle_to_prepare: bool = False
    moves: bool = False
    first: Callable[[Change], None] | None = None

    @property
    def alone(self) -> bool:
        """Whether it is about no session but the one that the call names."""
        return self.scope is _itself


OPERATIONS: Final[Mapping[str, Operation]] = {
    "rename": Operation(rename),
    "archive": Operation(archive),
    "model": Operation(set_model, fenced=True),
    "reset": Operation(reset, lineage_of, fenced=True, idle=True, moves=True, first=discard_unknown),
    "rewind": Operation(rewind, lineage_of, fenced=True, idle=True, moves=True),
    "branch": Operation(branch, lineage_of, fenced=True, idle=True, idle_to_prepare=True),
    "compress": Operation(compress, lineage_of, fenced=True, idle=True, moves=True),
    "delete": Operation(delete, lineages_of_family, family_of, fenced=True, idle=True),
    IMPORT: Operation(import_sessions),
}
"""Every operation by its name; what its payload holds stands in `fsm.sessions.payloads`."""
