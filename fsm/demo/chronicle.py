"""What the processes of the demo told, in the order in which it reached the demo."""

import threading
from collections.abc import Callable
from typing import Any

from attrs import frozen

from fsm.cli.refusal import CommandRefusedError
from fsm.observers import Transition

__all__ = ["Chronicle", "Told"]


@frozen
class Told:
    """One line of one process: a committed transition, or a notice."""

    process: str
    facts: dict[str, Any]

    @property
    def task_id(self) -> str | None:
        """The task that it is about."""
        found = self.facts.get("key", self.facts).get("task_id")
        return None if found is None else str(found)

    def is_step(self, lifecycle: str, trigger: str) -> bool:
        """Say whether it is a transition by this trigger."""
        return (self.facts.get("lifecycle"), self.facts.get("trigger")) == (lifecycle, trigger)

    def is_notice(self, name: str) -> bool:
        """Say whether it is the notice of this name."""
        return bool(self.facts.get("notice") == name)


class Chronicle:
    """Collects what is told, from several threads, and lets one wait for something to be told."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._changed = threading.Condition()

    def add(self, process: str, facts: dict[str, Any]) -> None:
        """Note what a process told."""
        with self._changed:
            self._told.append(Told(process, facts))
            self._changed.notify_all()

    def observer(self, process: str) -> Callable[[Transition], None]:
        """Return an observer that notes the transitions of this very process."""
        return lambda step: self.add(
            process,
            {
                "lifecycle": step.lifecycle,
                "key": dict(step.key),
                "trigger": step.trigger,
                "source": step.source,
                "dest": step.dest,
                "at": step.at,
            },
        )

    def told(self) -> tuple[Told, ...]:
        """Return everything that was told so far."""
        with self._changed:
            return tuple(self._told)

    def wait_for(self, what: str, matches: Callable[[Told], bool], timeout: float) -> Told:
        """Return the first thing told that matches, now or within `timeout` seconds."""
        with self._changed:
            found = self._changed.wait_for(lambda: next(filter(matches, self._told), None), timeout)
        if found is None:
            raise CommandRefusedError(f"the demo waited {timeout:g} s in vain for this: {what}")
        return found
