"""The `transitions` machine underneath, without the parts of it that no declaration uses.

Sources, guards, callbacks and their order are the library's own. Left out are its queue, its finalizers, the look-up of
callbacks by name, callbacks of states, and a log line for each step: together they cost as much as all the rest of a
call.
"""

from collections.abc import Callable
from typing import Any, cast

from transitions.core import Event, EventData, Machine, Transition

__all__ = ["Engine"]

_Callback = Callable[[EventData], None]


class _Edge(Transition):
    def execute(self, event_data: EventData) -> bool:
        """Try the guards; then run what belongs before the move, move, and run what belongs after it."""
        for condition in self.conditions:
            if not condition.check(event_data):
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
        event_data = EventData(None, self, self.machine, model, args=args, kwargs=kwargs)
        event_data.state = self.machine.get_model_state(model)
        if self._is_valid_source(event_data.state):
            self._process(event_data)
        return bool(event_data.result)


class Engine(Machine):
    """A machine whose triggers and edges are lean; a model is a record, whose state is `_state`."""

    transition_cls = _Edge
    event_cls = _Trigger
