"""Driver leases: which process drives a room. Rules: `fsm.lifecycles.driver_lease`."""

import uuid

from fsm.calling import operation
from fsm.driver.machines import LEASE_MACHINE, fire
from fsm.driver.parse import Clock, Location, expiry, opened_at, parse_lease, parse_ttl
from fsm.driver.values import DriverLease, lease_of, name
from fsm.driver.views import LeaseRelease
from fsm.errors import DriverValidationError
from storage.validate import integer

__all__ = ["acquire_lease", "new_process_generation", "release_lease", "renew_lease"]


def new_process_generation() -> str:
    """Return a name for this process start that no other process start has."""
    return f"process:{uuid.uuid4().hex}"


@operation(DriverValidationError)
def acquire_lease(
    db: Location,
    *,
    room_id: object,
    gateway_id: object,
    authority_epoch: object,
    process_generation: object,
    ttl_seconds: object,
    clock: Clock | None = None,
) -> DriverLease:
    """Take the room's lease for `ttl_seconds`, or extend it where this very process holds it.

    A vacant, released or expired lease, and one held under an authority that has been replaced, starts a new term
    (`lease_generation` + 1, `reclaimed`). Calling again with the same process extends the term and never shortens it,
    so that a call whose answer was lost is simply made again.

    Raises DriverValidationError; RoomUnavailableError; StaleLeaseError where the caller is not the room's authority;
    LeaseHeldError where another process holds it.
    """
    arguments: dict[str, str | int] = {
        "room_id": name(room_id, "room_id"),
        "gateway_id": name(gateway_id, "gateway_id"),
        "authority_epoch": integer(authority_epoch, label="authority_epoch", error=DriverValidationError, minimum=1),
        "process_generation": name(process_generation, "process_generation"),
    }
    ttl = parse_ttl(ttl_seconds)
    handle, now = opened_at(db, clock)
    outcome = fire(handle, LEASE_MACHINE, "acquire", lambda: now, expires_at=expiry(now, ttl), **arguments)
    before = outcome.previous
    reclaimed = before is not None and before["lease_generation"] != outcome.stored["lease_generation"]
    return lease_of(outcome.stored, reclaimed=reclaimed)


@operation(DriverValidationError)
def renew_lease(db: Location, lease: DriverLease, *, ttl_seconds: object, clock: Clock | None = None) -> DriverLease:
    """Extend exactly this term to `ttl_seconds` from now; it is never shortened. Make a lost call again.

    Raises DriverValidationError; RoomUnavailableError; StaleLeaseError where the term has ended or another began.
    """
    parsed, ttl = parse_lease(lease), parse_ttl(ttl_seconds)
    handle, now = opened_at(db, clock)
    outcome = fire(handle, LEASE_MACHINE, "renew", lambda: now, expires_at=expiry(now, ttl), **parsed.arguments())
    return lease_of(outcome.stored)


@operation(DriverValidationError)
def release_lease(db: Location, lease: DriverLease, *, clock: Clock | None = None) -> LeaseRelease:
    """Give up exactly this term; an exact retry returns what is stored, with `idempotent: True`.

    Raises DriverValidationError; RoomUnavailableError; StaleLeaseError where the term has ended or another began;
    InvalidTaskTransitionError while a task of the room is running.
    """
    outcome = fire(db, LEASE_MACHINE, "release", clock, **parse_lease(lease).arguments())
    return {"lease": lease_of(outcome.stored), "idempotent": outcome.replayed}
