"""Every error of the library, one family.

`LifecycleError` is the root. Below it a wrong declaration (`DefinitionError`), a refused move (`RefusedError` and the
gateway's own classes) and a lost write (`LostFenceError`) are kept apart. What the database itself reports is the
`StorageError` family of the `storage` package.
"""

from typing import ClassVar

__all__ = [
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
