"""One term of a lease, kept alive: renewed in time, and known to be over before any other process can hold it."""

from collections.abc import Callable
from typing import Final, TypeVar

from attrs import frozen

from fsm.cli.refusal import CommandRefusedError
from fsm.driver import DriverLease, renew_lease
from fsm.errors import LifecycleError
from storage import Database, StorageError

__all__ = ["MARGIN_OF_TTL", "LeaseLostError", "Tempo", "Term"]

_Answer = TypeVar("_Answer")

RENEWALS_PER_TTL: Final = 3
MARGIN_OF_TTL: Final = 1 / 6
"""How much of its time a term gives away, so that whatever must end has ended when the stored expiry comes."""
SLICE_SECONDS: Final = 0.05
"""The longest sleep: signals, and the end of the command, are noticed after it."""


class LeaseLostError(CommandRefusedError):
    """The term is over, or can no longer be told from one that is; nothing may be written under it."""


@frozen
class Tempo:
    """The clocks and the sleep of a command: `clock` is what the rows are stamped with, the others only pace it."""

    clock: Callable[[], float]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]

    def pause(self, seconds: float, *, until: Callable[[], bool]) -> None:
        """Sleep in slices, and not beyond the moment at which `until` holds."""
        end = self.monotonic() + seconds
        while not until() and (left := end - self.monotonic()) > 0:
            self.sleep(min(left, SLICE_SECONDS))


class Term:
    """Holds a lease. `taken_at` is what the monotonic clock showed before the lease was asked for."""

    def __init__(self, db: Database, lease: DriverLease, *, taken_at: float, ttl: float, tempo: Tempo) -> None:
        self._db, self._ttl, self._tempo = db, ttl, tempo
        self.lost = False
        self._keep(lease, taken_at)

    def _keep(self, lease: DriverLease, asked_at: float) -> None:
        self.lease = lease
        self.deadline = asked_at + self._ttl * (1 - MARGIN_OF_TTL)
        self._due = asked_at + self._ttl / RENEWALS_PER_TTL

    def renew_when_due(self) -> None:
        """Renew after a third of the time; a storage that fails is tried again. Raises LeaseLostError."""
        now = self._tempo.monotonic()
        if now >= self.deadline:
            raise self.loss("it could not be renewed in time")
        if now >= self._due:
            self._renew(now)

    def _renew(self, now: float) -> None:
        try:
            self._keep(renew_lease(self._db, self.lease, ttl_seconds=self._ttl, clock=self._tempo.clock), now)
        except LifecycleError as error:
            raise self.loss(error) from error
        except StorageError:
            self._due = self._tempo.monotonic() + SLICE_SECONDS

    def insist(self, call: Callable[[], _Answer]) -> _Answer:
        """Make a call that replays, again and again while the storage fails. Raises LeaseLostError."""
        while True:
            try:
                return call()
            except StorageError as error:
                self._tempo.sleep(SLICE_SECONDS)
                if self._tempo.monotonic() >= self.deadline:
                    raise self.loss(error) from error

    def loss(self, reason: object) -> LeaseLostError:
        """Note that the term is over, and return the error that says so."""
        self.lost = True
        return LeaseLostError(f"the lease of room {self.lease.room_id} is lost: {reason}")
