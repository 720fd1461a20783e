"""Which state a row is in: the states' own terms, compiled."""

from collections.abc import Mapping

from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.structure import NEW
from fsm.lifecycle.terms import Predicate, pinned, predicate
from fsm.machine.record import NO_ROW
from storage import Row, Value

__all__ = ["UNDECLARED", "Projection"]

UNDECLARED = "(undeclared)"
"""What a row is in when no state's terms hold: a value that the declaration lacks was stored past the library."""

_Told = tuple[tuple[str, Predicate | None], ...]
"""States with what tells them apart among those that are asked, in order; None where nothing more is to be asked."""


class Projection:
    """Finds the state of a row of one lifecycle."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle
        self._without = tuple((state.name, predicate(state.terms)) for state in lifecycle.states if not state.row)
        self._column, self._by_value, self._others = _by_stored_value(lifecycle)

    def state_of(self, row: Row | None, joined: Row | None, values: Mapping[str, Value]) -> str:
        """Return the name of the state; `new` where no row and no row-less state is, UNDECLARED where none fits."""
        if row is None:
            found = _first(self._without, joined or NO_ROW, values)
            return found or (UNDECLARED if self._without else NEW.name)
        among = self._others if self._column is None else self._by_value.get(row[self._column], ())
        return _first(among, row, values) or UNDECLARED


def _first(states: _Told, row: Mapping[str, Value], values: Mapping[str, Value]) -> str | None:
    for name, holds in states:
        if holds is None or holds(row, values):
            return name
    return None


def _by_stored_value(lifecycle: Lifecycle) -> tuple[str | None, Mapping[Value, _Told], _Told]:
    """Where a column is pinned by every state, a look-up leaves few predicates, or none: it is asked twice a call."""
    rows = [state for state in lifecycle.states if state.row]
    column = next(iter(lifecycle.stored_values()), None)
    if column is None:
        return None, {}, tuple((state.name, predicate(state.terms)) for state in rows)
    sharing: dict[Value, list[tuple[str, Predicate | None]]] = {}
    for state in rows:
        alone = len(state.terms) == 1
        sharing.setdefault(pinned(state.terms)[column], []).append(
            (state.name, None if alone else predicate(state.terms))
        )
    return column, {value: tuple(told) for value, told in sharing.items()}, ()
