"""What a scenario can name: the calls, the value classes and the errors of the library, found in its modules."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Final, Self

import attrs
from attrs import frozen

import fsm.errors
import storage
from fsm import driver, rooms
from storage import Database

__all__ = ["CALLS", "ERRORS", "MODULES", "VALUES", "Call", "hint"]

MODULES: Final[tuple[ModuleType, ...]] = (driver, rooms)
"""The modules of operations; whatever is public in one that joins them can be named at once."""


@frozen
class Call:
    """A public function, which takes everything but the database by name."""

    name: str
    function: Callable[..., object]
    takes_database: bool
    arguments: tuple[str, ...]
    required: tuple[str, ...]

    @classmethod
    def of(cls, name: str, function: Callable[..., object]) -> Self:
        """Return the call of a function, as its signature says."""
        parameters = list(inspect.signature(function).parameters.values())
        takes_database = bool(parameters) and parameters[0].name == "db"
        named = parameters[1:] if takes_database else parameters
        required = tuple(each.name for each in named if each.default is each.empty)
        return cls(name, function, takes_database, tuple(each.name for each in named), required)

    def make(self, db: Database, arguments: Mapping[str, object]) -> object:
        """Call the function."""
        return self.function(db, **arguments) if self.takes_database else self.function(**arguments)


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
