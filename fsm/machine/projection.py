"""Which state a row is in: the states' own terms, compiled."""

from collections.abc import Mapping

from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.structure import NEW
from fsm.lifecycle.terms import Conditions, Predicate, Term, predicate
from fsm.machine.record import NO_ROW
from storage import Row, Value

__all__ = ["UNDECLARED", "Projection"]

UNDECLARED = "(undeclared)"
"""What a row is in when no state's terms hold: a value that the declaration lacks was stored past the library."""


class Projection:
    """Finds the state of a row of one lifecycle."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle
        self._with_row = tuple((state.name, predicate(state.terms)) for state in lifecycle.states if state.row)
        self._without = tuple((state.name, predicate(state.terms)) for state in lifecycle.states if not state.row)
        self._column, self._by_value = _single_column(lifecycle)

    def state_of(self, row: Row | None, joined: Row | None, values: Mapping[str, Value]) -> str:
        """Return the name of the state; `new` where no row and no row-less state is, UNDECLARED where none fits."""
        if row is None:
            found = _first(self._without, joined or NO_ROW, values)
            return found or (UNDECLARED if self._without else NEW.name)
        if self._column is not None:
            return self._by_value.get(row[self._column], UNDECLARED)
        return _first(self._with_row, row, values) or UNDECLARED


def _first(
    states: tuple[tuple[str, Predicate], ...], row: Mapping[str, Value], values: Mapping[str, Value]
) -> str | None:
    return next((name for name, holds in states if holds(row, values)), None)


def _single_column(lifecycle: Lifecycle) -> tuple[str | None, Mapping[Value, str]]:
    """Where one column alone decides, a look-up replaces the predicates: it is asked twice a call."""
    rows = [state for state in lifecycle.states if state.row]
    columns = lifecycle.stored_values()
    if len(columns) != 1 or any(len(state.terms) != 1 for state in rows):
        return None, {}
    (column,) = columns
    return column, {_constant(state.terms): state.name for state in rows}


def _constant(terms: Conditions) -> Value:
    (term,) = terms
    assert isinstance(term, Term)  # noqa: S101 # stored_values has read a Term here
    return None if isinstance(term.right, tuple) else term.right  # type: ignore[return-value] # and a constant
