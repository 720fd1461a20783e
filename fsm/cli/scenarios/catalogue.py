"""What a scenario can name: the calls, the value classes and the errors of the library, found in its modules."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Final, Literal, Self

import attrs
from attrs import frozen

import fsm.errors
import storage
from fsm import driver, rooms, sessions, workers
from fsm.schema import RUNTIME_SCHEMA
from storage import Database

__all__ = ["CALLS", "ERRORS", "MODULES", "VALUES", "Call", "hint"]

MODULES: Final[tuple[ModuleType, ...]] = (driver, rooms, sessions, workers)
"""The modules of operations; whatever is public in one that joins them can be named at once."""

Taken = Literal["database", "transaction", "neither"]
_TAKEN: Final[Mapping[str, Taken]] = {"db": "database", "tx": "transaction"}


@frozen
class Call:
    """A public function, which takes everything by name but the database, or the transaction that it is called in.

    One that is `open` takes further arguments of any name.
    """

    name: str
    function: Callable[..., object]
    takes: Taken
    arguments: tuple[str, ...]
    required: tuple[str, ...]
    open: bool

    @classmethod
    def of(cls, name: str, function: Callable[..., object]) -> Self:
        """Return the call of a function, as its signature says."""
        parameters = list(inspect.signature(function).parameters.values())
        takes: Taken = _TAKEN.get(parameters[0].name, "neither") if parameters else "neither"
        rest = parameters if takes == "neither" else parameters[1:]
        named = [each for each in rest if each.kind is not each.VAR_KEYWORD]
        required = tuple(each.name for each in named if each.default is each.empty)
        return cls(name, function, takes, tuple(each.name for each in named), required, len(named) < len(rest))

    def make(self, db: Database, arguments: Mapping[str, object]) -> object:
        """Call the function, in a transaction of its own where it takes one."""
        if self.takes == "transaction":
            db.require(RUNTIME_SCHEMA)
            return db.write(lambda tx: self.function(tx, **arguments))
        return self.function(db, **arguments) if self.takes == "database" else self.function(**arguments)


def _public() -> Iterator[tuple[ModuleType, str, object]]:
    return ((module, name, getattr(module, name)) for module in MODULES for name in module.__all__)


def _calls() -> Iterator[Call]:
    for module, name, value in _public():
        if inspect.isfunction(value):
            yield Call.of(f"{module.__name__.rpartition('.')[2]}.{name}", value)


def _is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, (fsm.errors.LifecycleError, storage.StorageError))


CALLS: Final[Mapping[str, Call]] = {call.name: call for call in _calls()}
"""The public functions by module and name, as in `driver.start_task`."""
VALUES: Final[Mapping[str, type]] = {
    name: value for _, name, value in _public() if inspect.isclass(value) and attrs.has(value)
}
"""The classes of values that a caller holds and hands back."""
ERRORS: Final[Mapping[str, type[Exception]]] = {
    name: getattr(module, name)
    for module in (fsm.errors, storage)
    for name in module.__all__
    if _is_error(getattr(module, name))
}
"""The errors of the library."""


def hint(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return what may have been meant by an unknown name, in words that end a sentence."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known) or 'none'}"
