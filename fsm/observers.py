"""Observers: told of each committed transition, after its commit and never inside the transaction."""

import logging
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

from attrs import frozen

from fsm.errors import ArgumentError
from storage import Database, Location, Transaction, Value, resolve

__all__ = ["Observer", "Transition", "listening", "observe", "queue", "unobserve"]

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


Observer = Callable[[Transition], None]
_OBSERVERS: "WeakKeyDictionary[Database, list[Observer]]" = WeakKeyDictionary()


def observe(db: Database | Location, observer: Observer) -> None:
    """Call `observer` once for every transition that this handle commits from now on.

    One that raises changes nothing; what it raised is reported through `logging`. Raises ArgumentError where `db` is no
    handle or location, or the observer no function.
    """
    if not callable(observer):
        raise ArgumentError(f"an observer is a function of one transition, not a {type(observer).__name__}; pass one")
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


def queue(tx: Transaction, transition: Transition) -> None:
    """Tell the observers of the transaction's handle when, and only if, it commits."""
    observers = _OBSERVERS.get(tx.database, [])
    tx.after_commit(lambda: _tell(tuple(observers), transition))


def _tell(observers: tuple[Observer, ...], transition: Transition) -> None:
    for observer in observers:
        try:
            observer(transition)
        except Exception:
            _LOGGER.exception("an observer of %s.%s failed", transition.lifecycle, transition.trigger)
