"""Stateful tests that must not only break no law, but have met everything that can happen."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from fsm.lifecycle.declaration import Lifecycle
from tests.engines import Engine

__all__ = ["declared_edges", "hold", "never_seen"]

ROUNDS: Final = 24
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
    laws = settings(max_examples=on_server if engine.is_server else examples, stateful_step_count=steps, database=None)
    for number in range(1 if engine.is_server else ROUNDS):
        made = partial(machine, engine)
        # Where nothing is left to chance, as in CI, rounds of one seed would be the same round.
        run_state_machine_as_test(seed(number)(made) if laws.derandomize else made, settings=laws)  # type: ignore[arg-type] # any factory will do
        if engine.is_server or not lacking():
            return
    missed = sorted(lacking(), key=str)
    assert missed == [], f"what could happen and never did: {missed}"


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
