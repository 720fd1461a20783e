"""The values that a caller holds and hands back."""

from attrs import field, frozen

from fsm.errors import DriverValidationError
from fsm.lifecycles.limits import MAX_IDENTIFIER_CHARS
from storage import Row, Value
from storage.validate import flag, identifier, instance, integer, number

__all__ = ["DriverLease", "TaskAttempt", "TaskIdentity", "identity_of", "lease_of"]


def name(value: object, label: str) -> str:
    """Return an identifier of the driver, stripped; raises DriverValidationError."""
    return identifier(value, label=label, error=DriverValidationError, maximum=MAX_IDENTIFIER_CHARS)


def _each_name(record: object, *labels: str) -> None:
    for label in labels:
        object.__setattr__(record, label, name(getattr(record, label), label))


@frozen
class TaskIdentity:
    """Which room turn a task is; identifiers of at most 128 characters. Raises DriverValidationError."""

    room_id: str
    task_id: str
    thread_id: str
    turn_id: str

    def __attrs_post_init__(self) -> None:
        _each_name(self, "room_id", "task_id", "thread_id", "turn_id")

    def arguments(self) -> dict[str, Value]:
        """Return the arguments by which the declarations know it."""
        return {"room_id": self.room_id, "task_id": self.task_id, "thread_id": self.thread_id, "turn_id": self.turn_id}


@frozen
class DriverLease:
    """One term of one process as the driver of a room, until `expires_at` seconds. Raises DriverValidationError.

    `reclaimed`: another term came before this one, so that the room must be recovered.
    """

    room_id: str
    gateway_id: str
    authority_epoch: int
    process_generation: str
    lease_generation: int
    expires_at: float
    reclaimed: bool = field(default=False)

    def __attrs_post_init__(self) -> None:
        _each_name(self, "room_id", "gateway_id", "process_generation")
        for label in ("authority_epoch", "lease_generation"):
            integer(getattr(self, label), label=label, error=DriverValidationError, minimum=1)
        number(self.expires_at, label="expires_at", error=DriverValidationError)
        flag(self.reclaimed, label="reclaimed", error=DriverValidationError)

    def arguments(self) -> dict[str, Value]:
        """Return the arguments by which the declarations know it."""
        return {
            "room_id": self.room_id,
            "gateway_id": self.gateway_id,
            "authority_epoch": self.authority_epoch,
            "process_generation": self.process_generation,
            "lease_generation": self.lease_generation,
        }


@frozen
class TaskAttempt:
    """One run of a task under one lease: what may settle it, and nothing else may. Raises DriverValidationError."""

    identity: TaskIdentity
    lease: DriverLease
    execution_generation: int
    cancel_generation: int

    def __attrs_post_init__(self) -> None:
        instance(self.identity, TaskIdentity, label="identity", error=DriverValidationError)
        instance(self.lease, DriverLease, label="lease", error=DriverValidationError)
        for label in ("execution_generation", "cancel_generation"):
            integer(getattr(self, label), label=label, error=DriverValidationError, minimum=0)

    def arguments(self) -> dict[str, Value]:
        """Return the arguments by which the declarations know it."""
        return {
            **self.identity.arguments(),
            **self.lease.arguments(),
            "execution_generation": self.execution_generation,
            "cancel_generation": self.cancel_generation,
        }


def identity_of(row: Row) -> TaskIdentity:
    """Return the identity that a row has, whatever it holds: a damaged row must still be listed and cancelled."""
    identity = object.__new__(TaskIdentity)
    for label in ("room_id", "task_id", "thread_id", "turn_id"):
        object.__setattr__(identity, label, row[label])
    return identity


def lease_of(row: Row, *, reclaimed: bool = False) -> DriverLease:
    """Return the lease that a row holds."""
    return DriverLease(
        **{column: row[column] for column in _LEASE_COLUMNS},  # type: ignore[arg-type] # the table's own column types
        reclaimed=reclaimed,
    )


_LEASE_COLUMNS = ("room_id", "gateway_id", "authority_epoch", "process_generation", "lease_generation", "expires_at")
