"""A lease that a command takes for one decision and gives back."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fsm.cli.options import ASK_SECONDS
from fsm.cli.terms import Tempo
from fsm.driver import DriverLease, acquire_lease, release_lease
from fsm.errors import LeaseHeldError, LifecycleError
from fsm.rooms import room_state
from storage import Database, StorageError

__all__ = ["borrowed_lease"]

TTL_SECONDS: Final = 10.0


@contextmanager
def borrowed_lease(
    db: Database, room_id: str, process_generation: str, *, wait: float, tempo: Tempo
) -> Iterator[DriverLease]:
    """Hold the room's lease for the time of a block; wait at most `wait` seconds for a driver to let go of it."""
    lease = _acquired(db, room_id, process_generation, wait, tempo)
    try:
        yield lease
    finally:
        # What was decided is stored; a lease that cannot be given back ends by itself a few seconds later.
        with suppress(LifecycleError, StorageError):
            release_lease(db, lease)


def _acquired(db: Database, room_id: str, process_generation: str, wait: float, tempo: Tempo) -> DriverLease:
    end = tempo.monotonic() + wait
    while True:
        room = room_state(db, room_id=room_id)
        try:
            return acquire_lease(
                db,
                room_id=room_id,
                gateway_id=room["authority_gateway_id"],
                authority_epoch=room["authority_epoch"],
                process_generation=process_generation,
                ttl_seconds=TTL_SECONDS,
            )
        except LeaseHeldError:
            if tempo.monotonic() >= end:
                raise
            tempo.sleep(ASK_SECONDS)
