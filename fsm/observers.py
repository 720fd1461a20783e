"""Observers: told of each committed transition, after its commit and never inside the transaction.

They are told too of sessions that a commit has deleted or archived, which no lifecycle moves.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from attrs import frozen

from fsm.errors import ArgumentError
from storage import Database, Location, Transaction, Value, resolve

__all__ = ["Event", "Observer", "SessionGoneEvent", "Transition", "listening", "observe", "queue", "unobserve"]

_LOGGER = logging.getLogger("fsm")


@frozen
class Transition:
    """One committed change of one record, at the call's instant `at` in seconds."""

    lifecycle: str
    key: Mapping[str, Value]
    trigger: str
    source: str
    dest: str
    at: Value

    @property
    def name(self) -> str:
        """What happened, as a log line names it."""
        return f"{self.lifecycle}.{self.trigger}"


@frozen
class SessionGoneEvent:
    """Sessions that one commit has deleted, or put into the archive, at the call's instant `at` in seconds.

    `primary` is the session that the call named; it is among `session_ids`, as whatever was taken along with it is. An
    exact retry of the call, and archiving what is in the archive already, tells nobody.
    """

    session_ids: tuple[str, ...]
    reason: Literal["delete", "archive"]
    primary: str
    at: float

    @property
    def name(self) -> str:
        """What happened, as a log line names it."""
        return f"session.{self.reason}"


Event: TypeAlias = Transition | SessionGoneEvent
Observer: TypeAlias = Callable[[Any], None]
"""Takes each `Event`; what never meets one of the two kinds need not be typed for it."""
_OBSERVERS: "WeakKeyDictionary[Database, list[Observer]]" = WeakKeyDictionary()


def observe(db: Database | Location, observer: Observer) -> None:
    """Call `observer` once for every event that this handle commits from now on: a Transition or a SessionGoneEvent.

    One that raises changes nothing; what it raised is reported through `logging`. Raises ArgumentError where `db` is no
    handle or location, or the observer no function.
    """
    if not callable(observer):
        raise ArgumentError(f"an observer is a function of one event, not a {type(observer).__name__}; pass one")
    _OBSERVERS.setdefault(resolve(db, error=ArgumentError), []).append(observer)


def unobserve(db: Database | Location, observer: Observer) -> None:
    """Stop calling the observer; nothing happens where it was not known."""
    handle = resolve(db, error=ArgumentError)
    listed = _OBSERVERS.get(handle, [])
    if observer in listed:
        listed.remove(observer)
    if not listed:
        _OBSERVERS.pop(handle, None)


def listening(tx: Transaction) -> bool:
    """Say whether anybody observes the transaction's handle."""
    return bool(_OBSERVERS) and bool(_OBSERVERS.get(tx.database))


def queue(tx: Transaction, event: Event) -> None:
    """Tell the observers of the transaction's handle when, and only if, it commits."""
    observers = _OBSERVERS.get(tx.database, [])
    tx.after_commit(lambda: _tell(tuple(observers), event))


def _tell(observers: tuple[Observer, ...], event: Event) -> None:
    for observer in observers:
        try:
            observer(event)
        except Exception:
            _LOGGER.exception("an observer of %s failed", event.name)
