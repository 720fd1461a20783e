"""The record that a call moves, and the outcome that the caller keeps."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from attrs import frozen

from fsm.errors import ArgumentError, DefinitionError
from storage import Row, Transaction, Value

if TYPE_CHECKING:
    from fsm.machine.machine import Machine

__all__ = ["NO_CONTEXT", "NO_ROW", "Action", "Nulls", "Outcome", "Record", "Swept"]


class Nulls(Mapping[str, Value]):
    """The row that is not there: null in every column, so that terms read it like any other."""

    def __getitem__(self, key: str) -> None:
        return None

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


NO_ROW: Final = Nulls()
NO_CONTEXT: Final[Mapping[str, Any]] = MappingProxyType({})


class Record:
    """One record during one call: its key, state, row and values, in the transaction that the caller holds.

    Made by the machine and dead when the call ends. An action that an operation binds is handed it, reads `row`,
    `values`, `found` and `context`, executes statements on `tx`, and fires what its step declares.
    """

    __slots__ = (
        *("_state", "allowed", "context", "found", "joined"),
        *("lifecycle", "locked", "others", "previous", "row", "tx", "values"),
    )

    def __init__(
        self,
        tx: Transaction,
        lifecycle: str,
        values: dict[str, Value],
        others: Mapping[str, "Machine"],
        context: Mapping[str, Any] = NO_CONTEXT,
    ) -> None:
        self.tx = tx
        self.lifecycle = lifecycle
        self.values = values
        self.found: dict[str, Mapping[str, Any]] = {}
        self.locked: dict[str, list[Row]] = {}
        self.row: Row | None = None
        self.joined: Row | None = None
        self.previous: Row | None = None
        self.allowed: tuple[tuple[str, str], ...] = ()
        self.others = others
        self.context = context
        self._state: str | None = None

    @property
    def state(self) -> str | None:
        """The state that the record is in; None before it is loaded and after the call has failed."""
        return self._state

    @property
    def now(self) -> float:
        """The instant of the call, in seconds."""
        return float(self.values["now"] or 0)

    def fire(self, lifecycle: str, trigger: str, /, **arguments: Value) -> "Outcome":
        """Fire another record's trigger in this transaction, at this call's instant, with this call's context.

        Raises DefinitionError unless the step that runs declares it in `fires`; the key is among the arguments.
        """
        other = self._other(lifecycle, trigger)
        return other.fire(self.tx, trigger, self.context, now=self.now, **arguments)

    def sweep(self, lifecycle: str, trigger: str, /, **arguments: Value) -> "Swept":
        """Sweep another lifecycle's records in this transaction, at this call's instant; declared as for `fire`."""
        return self._other(lifecycle, trigger).sweep(self.tx, trigger, now=self.now, **arguments)

    def _other(self, lifecycle: str, trigger: str) -> "Machine":
        if (lifecycle, trigger) not in self.allowed:
            raise DefinitionError(
                f"lifecycle {self.lifecycle}: its step may not fire {lifecycle}.{trigger}; name it in the step's fires"
            )
        other = self.others.get(lifecycle)
        if other is None:
            raise DefinitionError(
                f"lifecycle {self.lifecycle}: its step fires {lifecycle}.{trigger} before the machines were connected;"
                " call connect with both of them first"
            )
        return other

    def die(self) -> None:
        """Forget everything: what the transaction rolls back must not be read from memory."""
        self.row = self.joined = self.previous = None
        self._state = None
        self.found = {}


Action = Callable[[Record], Mapping[str, Any] | None]
"""What an operation binds to a Do: called with the record, its answer is found by the steps after it."""


class Outcome(NamedTuple):
    """What a call did. `row` is the record as stored now; None where none is.

    `replayed`: an exact retry, nothing was written. `declined`: a step declined, nothing was written. `found` holds
    what the trigger's steps answered, by their names; `previous` is the row before the write.
    """

    source: str
    state: str
    row: Row | None
    replayed: bool = False
    declined: bool = False
    found: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    previous: Row | None = None

    @property
    def stored(self) -> Row:
        """The record's row; raises ArgumentError where no row stands for its state."""
        if self.row is None:
            raise ArgumentError(f"no row stands for the state {self.state}; read `state` instead")
        return self.row


@frozen
class Swept:
    """The records that a sweep moved: (source, dest) with the key of each, in the order of the declaration's edges."""

    moved: tuple[tuple[str, str, Row], ...]

    def __len__(self) -> int:
        return len(self.moved)
