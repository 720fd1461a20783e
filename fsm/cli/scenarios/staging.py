"""A scenario at work: its steps called one after the other, under a clock and ids of its own."""

import itertools
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from attrs import define, field, frozen

from fsm.cli.scenarios.comparing import Difference, differences, plain
from fsm.cli.scenarios.notation import NotationError, value_of
from fsm.cli.scenarios.script import Raises, Returns, Step, mistake
from fsm.errors import LifecycleError
from storage import Database, StorageError, WalResetWarning, open_database

__all__ = ["Outcome", "Stage", "staged"]


@define
class _Clock:
    """Shows the instant of the step that is on."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@frozen
class Outcome:
    """What became of a step; `result` counts where there is no error, `expected` where the step expects a result."""

    step: Step
    expected: Any = None
    result: Any = None
    error: Exception | None = None
    differences: tuple[Difference, ...] = ()

    def facts(self) -> dict[str, object]:
        """Return it for programs."""
        step = self.step
        facts: dict[str, object] = {"line": step.line, "at": step.at, "call": step.call.name}
        if self.error is None:
            facts["result"] = self.result
        else:
            facts |= {"error": type(self.error).__name__, "message": str(self.error)}
        if self.differences:
            facts["differences"] = [each.facts() for each in self.differences]
        return facts


@define
class Stage:
    """A database with a clock of its own, and what the steps so far have saved."""

    db: Database
    clock: _Clock
    saved: dict[str, object] = field(factory=dict)

    def play(self, step: Step) -> Outcome:
        """Make the call of a step; raises typer.BadParameter where it refers to what is not there."""
        self.clock.now = step.at
        try:
            expected = self._expected(step)
            return self._outcome(step, expected)
        except NotationError as error:
            raise mistake(step.line, error) from error

    def _expected(self, step: Step) -> Any:
        if not isinstance(step.expected, Returns):
            return None
        try:
            return plain(value_of(step.expected.term, self.saved))
        except LifecycleError as error:
            raise NotationError(f"expect: {error}") from error

    def _outcome(self, step: Step, expected: Any) -> Outcome:
        try:
            arguments = {name: value_of(term, self.saved) for name, term in step.arguments.items()}
            result = step.call.make(self.db, arguments)
        except (LifecycleError, StorageError) as error:
            return Outcome(step, expected, None, error, tuple(_of_raising(step, error)))
        if step.saved_as is not None:
            self.saved[step.saved_as] = result
        found = plain(result)
        if isinstance(step.expected, Returns):
            return Outcome(step, expected, found, None, tuple(differences(expected, found)))
        return Outcome(step, expected, found, None, tuple(_of_raising(step, None)))


def _of_raising(step: Step, error: Exception | None) -> Iterator[Difference]:
    raised = None if error is None else type(error)
    expected = step.expected.error if isinstance(step.expected, Raises) else None
    if raised is not expected:
        yield Difference("raises", *(None if each is None else each.__name__ for each in (expected, raised)))
    elif isinstance(step.expected, Raises) and step.expected.reason is not None:
        reason = getattr(error, "reason", None)
        if reason != step.expected.reason:
            yield Difference("raises.reason", step.expected.reason, reason)


@contextmanager
def staged(location: str) -> Iterator[Stage]:
    """Open a database whose clock stands where the steps put it, and whose new ids are id-1, id-2, and so on."""
    clock, numbers = _Clock(), itertools.count(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WalResetWarning)
        handle = open_database(location, clock=clock, new_id=lambda: f"id-{next(numbers)}")
    with closing(handle) as db:
        yield Stage(db, clock)
