"""The `transitions` machine underneath, without the parts of it that no declaration uses.

Sources, guards, callbacks and their order are the library's own. Left out are its queue, its preparations and its
finalizers, the look-up of callbacks by name, callbacks of states, and a log line for each step: together they cost as
much as all the rest of a call.
"""

from collections.abc import Callable
from typing import Any, cast

from transitions.core import Event, EventData, Machine, Transition

__all__ = ["Engine"]

_Callback = Callable[[EventData], None]
_Guard = Callable[[EventData], bool]


class _Edge(Transition):
    def execute(self, event_data: EventData) -> bool:
        """Try the guards; then run what belongs before the move, move, and run what belongs after it."""
        for condition in self.conditions:
            if not cast("_Guard", condition.func)(event_data):
                return False
        for callback in self.before:
            cast("_Callback", callback)(event_data)
        event_data.model._state = self.dest  # type: ignore[attr-defined]  # noqa: SLF001 # the record's state, which the machine alone sets
        for callback in self.after:
            cast("_Callback", callback)(event_data)
        return True


class _Trigger(Event):
    def trigger(self, model: object, *args: Any, **kwargs: Any) -> bool:
        """Refuse a wrong source with MachineError; say whether an edge was taken."""
        name: str = model._state  # type: ignore[attr-defined]  # noqa: SLF001 # the record's state, as above
        state = self.machine.states[name]
        if name not in self.transitions:
            return self._is_valid_source(state)
        event_data = EventData(state, self, self.machine, model, args=args, kwargs=kwargs)
        for edge in self.transitions[name]:
            event_data.transition = edge
            if edge.execute(event_data):
                event_data.result = True
                return True
        return False


class Engine(Machine):
    """A machine whose triggers and edges are lean; a model is a record, whose state is `_state`."""

    transition_cls = _Edge
    event_cls = _Trigger
