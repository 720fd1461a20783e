"""Stateful tests that must not only break no law, but have met everything that can happen."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from fsm.lifecycle.declaration import Lifecycle
from tests.engines import Engine

__all__ = ["declared_edges", "hold", "never_seen"]

ROUNDS: Final = 6
"""What is drawn depends on what else was imported, so that what is rare may need another round."""

EdgeName = tuple[str, str, str]


def hold(
    machine: Callable[[Engine], RuleBasedStateMachine],
    engine: Engine,
    lacking: Callable[[], Collection[object]],
    *,
    examples: int,
    on_server: int,
    steps: int,
) -> None:
    """Run the machine; then nothing is lacking of what it was to meet.

    On a server, where steps are slow, fewer examples are run, and nothing is asked of what they meet.
    """
    made = partial(machine, engine)
    laws = settings(max_examples=on_server if engine.is_server else examples, stateful_step_count=steps, database=None)
    run_state_machine_as_test(made, settings=laws)  # type: ignore[arg-type] # any factory will do
    if engine.is_server:
        return
    for _ in range(ROUNDS - 1):
        if not lacking():
            return
        run_state_machine_as_test(made, settings=laws)  # type: ignore[arg-type] # as above
    assert sorted(lacking(), key=str) == []


def never_seen(expected: Collection[str], seen: Mapping[str, int]) -> set[str]:
    """Return what has not happened once."""
    return {what for what in expected if not seen.get(what)}


def declared_edges(lifecycle: Lifecycle, *, but: Collection[str] = ()) -> set[EdgeName]:
    """Return (trigger, source, dest) of each edge, but for those of some triggers."""
    return {
        (trigger.name, edge.source.name, edge.dest.name)
        for trigger in lifecycle.triggers
        for edge in trigger.edges
        if trigger.name not in but
    }
