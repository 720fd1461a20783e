"""The rows that sessions' and workers' lifecycles stand on, and the refusals that both share.

Locked from the root down: the runtime's epoch, then sessions by id, then the record.
"""

from typing import Final

from attrs import frozen

from fsm.errors import RuntimeReason, RuntimeStoreError
from fsm.lifecycle import Arg, Authority, Check, Of, Refusal, Term, given
from fsm.lifecycles.runtime_tables import RUNTIME_EPOCH, SESSIONS

__all__ = [
    "CONFLICT",
    "CURRENT_SESSION",
    "CURRENT_SESSION_OF_RECORD",
    "DENIED",
    "EPOCH",
    "NOT_FOUND",
    "SESSION",
    "SESSION_OF_RECORD",
    "STALE_EPOCH",
    "STALE_GENERATION",
    "UNKNOWN_EXECUTION",
    "because",
]


@frozen
class _Because:
    """Makes the error of one reason; named so that diagrams show the reason with the class."""

    reason: RuntimeReason
    field: str | None

    @property
    def __name__(self) -> str:
        return f"{RuntimeStoreError.__name__}({self.reason})"

    def __call__(self, message: str) -> RuntimeStoreError:
        return RuntimeStoreError(self.reason, field=self.field, detail=message)


def because(reason: RuntimeReason, remedy: str, *, field: str | None = None) -> Refusal:
    """Return the refusal with this reason code; `field` names what is compared, `remedy` what to do next."""
    return Refusal(_Because(reason, field), remedy)


STALE_EPOCH: Final = because(
    "stale_epoch", "another owner has begun since; only the one that holds the profile may begin anew", field="epoch"
)
STALE_GENERATION: Final = because(
    "stale_generation", "read it again and decide on the state and generation that it has now", field="generation"
)
NOT_FOUND: Final = because("not_found", "create it first, or mend its id")
CONFLICT: Final = because(
    "admission_conflict", "its identity is taken by other content; retry exactly, or use a new id", field="request_id"
)
UNKNOWN_EXECUTION: Final = because(
    "unknown_execution", "resolve or discard what is unknown first; nobody knows how far it came", field="status"
)
DENIED: Final = because("permission_denied", "it belongs to another session, or the secret is another's")

AT_GENERATION: Final = Check(Term("runtime_generation", "=", Arg("generation")), STALE_GENERATION)
"""The session has not been claimed, reset or rewound since the caller's generation."""

_GIVEN: Final = {"id": Arg("session_id")}
_OF_RECORD: Final = {"id": Of("record", "target_session_id")}

EPOCH: Final = Authority(
    "epoch", RUNTIME_EPOCH, {"singleton": 1}, STALE_EPOCH, (Check(given("epoch"), STALE_EPOCH),), shared=True
)
SESSION: Final = Authority("session", SESSIONS, _GIVEN, NOT_FOUND)
CURRENT_SESSION: Final = Authority("session", SESSIONS, _GIVEN, NOT_FOUND, (AT_GENERATION,))
SESSION_OF_RECORD: Final = Authority("session", SESSIONS, _OF_RECORD, NOT_FOUND)
"""The session on whose queue an admission stands: its root, locked ahead of it also where nothing of it is compared."""
CURRENT_SESSION_OF_RECORD: Final = Authority("session", SESSIONS, _OF_RECORD, NOT_FOUND, (AT_GENERATION,))
