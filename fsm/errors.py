"""Every error of the library, one family.

`LifecycleError` is the root. Below it a wrong declaration (`DefinitionError`), a refused move (`RefusedError` and the
gateway's own classes) and a lost write (`LostFenceError`) are kept apart. What the database itself reports is the
`StorageError` family of the `storage` package.
"""

from typing import Any, ClassVar, Final, Literal, get_args

__all__ = [
    "REASONS",
    "ArgumentError",
    "AuthorityConflictError",
    "AuthoritySupersededError",
    "DefinitionError",
    "DriverStateError",
    "DriverValidationError",
    "EventConflictError",
    "HostedRoomError",
    "InvalidTaskTransitionError",
    "LeaseHeldError",
    "LifecycleError",
    "LostFenceError",
    "RefusedError",
    "RoomConflictError",
    "RoomHistoryExpiredError",
    "RoomNotFoundError",
    "RoomProbeUnavailableError",
    "RoomUnavailableError",
    "RuntimeReason",
    "RuntimeStoreError",
    "StaleLeaseError",
    "StaleTaskError",
    "TaskConflictError",
]


class LifecycleError(ValueError):
    """Something that a lifecycle refuses; the root of the library's errors.

    A refusal that the machine raises carries its subject: `lifecycle`, `trigger`, `step` and the `state` it found.
    """

    lifecycle: str | None = None
    trigger: str | None = None
    step: str | None = None
    state: str | None = None


class DefinitionError(LifecycleError):
    """A declaration contradicts itself, or the code bound to it does; nothing runs until it is mended."""


class ArgumentError(LifecycleError):
    """A trigger was fired without an argument that its declaration names, or a lifecycle lacks that trigger."""


class RefusedError(LifecycleError):
    """A step of a trigger did not hold; the row is as it was."""


class LostFenceError(RefusedError):
    """The fenced write changed anything but one row; the transaction must be rolled back."""


class DriverStateError(LifecycleError):
    """Root of what the driver's leases and tasks refuse."""


class DriverValidationError(DriverStateError):
    """An argument of a driver call is not what the call takes; the database was not asked."""


class RoomUnavailableError(DriverStateError):
    """The room of a lease or task was never created, or has been disbanded."""


class LeaseHeldError(DriverStateError):
    """The room's lease belongs to another process and has not expired."""


class StaleLeaseError(DriverStateError):
    """The caller's lease, or the room authority it stands on, is no longer the current one."""


class TaskConflictError(DriverStateError):
    """A task is missing, bound to other content, or already ended in another way."""


class StaleTaskError(DriverStateError):
    """The generations that the caller believes in have moved on."""


class InvalidTaskTransitionError(DriverStateError):
    """The task, or the room's queue, is in a state from which this call leads nowhere."""


class HostedRoomError(LifecycleError):
    """Root of what hosted rooms refuse; raised itself for arguments a room call cannot take and for full stores."""


class RoomNotFoundError(HostedRoomError):
    """No live room has this id."""


class RoomHistoryExpiredError(RoomNotFoundError):
    """The room was disbanded and its history pruned; its id stays taken for ever."""

    reason: ClassVar[str] = "room_history_expired"


class RoomConflictError(HostedRoomError):
    """The room id is taken by a room with other content, or by one that was disbanded."""


class RoomProbeUnavailableError(HostedRoomError):
    """A probe could not read the store in its short time, so that it knows neither yes nor no."""


class EventConflictError(HostedRoomError):
    """The event id is taken by an event with other content."""


class AuthorityConflictError(HostedRoomError):
    """The caller is not, or no longer, the gateway that owns the room."""

    reason: ClassVar[str] = "authority_conflict"


class AuthoritySupersededError(AuthorityConflictError):
    """The claim was made, and a later claim has replaced it."""


RuntimeReason = Literal[
    "invalid_params",
    "not_found",
    "stale_epoch",
    "stale_generation",
    "admission_conflict",
    "admission_started",
    "queue_full",
    "session_idle",
    "session_busy",
    "unknown_execution",
    "revision_conflict",
    "permission_denied",
    "storage_unavailable",
]
REASONS: Final[tuple[RuntimeReason, ...]] = get_args(RuntimeReason)
"""Every reason for which sessions and workers refuse, as callers compare it and the wire carries it."""

_MAXIMUM_FIELD, _MAXIMUM_DETAIL = 80, 160


class RuntimeStoreError(LifecycleError):
    """What sessions and workers refuse: `reason` is the code, `field` names what was checked, `detail` says why.

    The last two are one line each, of at most 80 and 160 characters, without what cannot be printed: they may be
    logged and sent as they are. `str()` gives the reason and the whole explanation. Hooks raise it themselves, with the
    reason alone if that says enough.
    """

    def __init__(self, reason: RuntimeReason, *, field: str | None = None, detail: str | None = None) -> None:
        self.reason: RuntimeReason = reason
        self.field = _one_line(field, _MAXIMUM_FIELD)
        self.detail = _one_line(detail, _MAXIMUM_DETAIL)
        super().__init__(reason if detail is None else f"{reason}: {detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.reason, self.args), self.__dict__


def _restored(kind: type[RuntimeStoreError], reason: RuntimeReason, args: tuple[Any, ...]) -> RuntimeStoreError:
    error = kind(reason)
    error.args = args
    return error


def _one_line(value: str | None, maximum: int) -> str | None:
    """Keep what a log line and a frame on the wire can hold, since the text may be a client's."""
    if value is None:
        return None
    words = " ".join(str(value).split())
    return "".join(filter(str.isprintable, words))[:maximum] or None
