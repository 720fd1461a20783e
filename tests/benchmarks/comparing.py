"""What the comparisons of the runtime's machines with raw SQL share: targets, databases, and the table they print."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from storage import Row
from tests.benchmarks.sides import Synchronous
from tests.benchmarks.test_ratio import filesystem

__all__ = ["compare", "line"]

TARGETS: Final[dict[tuple[str, Synchronous], float]] = {("machine", "normal"): 1.8, ("machine", "full"): 1.4}


class Compared(Protocol):
    """One contestant, on a database of its own."""

    def leave(self) -> None:
        """Close what the timed part used."""

    def rows(self) -> dict[str, list[Row]]:
        """Return everything that is stored, once the timed part is over."""


Contestant = TypeVar("Contestant", bound=Compared)


def compare(
    directory: Path,
    kinds: Sequence[Callable[[Path, Synchronous, int], Contestant]],
    *,
    rounds: Mapping[Synchronous, int],
    warm_up: int,
    lines: Callable[[Sequence[Contestant], int, Synchronous], Iterable[str]],
    heading: str,
    parts: Sequence[str],
) -> dict[str, list[Row]]:
    """Let the sides run, print their table, and return what they have stored, which is the same for all."""
    table: list[str] = []
    stored: list[dict[str, list[Row]]] = []
    for synchronous, number in rounds.items():
        own = directory / synchronous
        own.mkdir()
        sides = [make(own, synchronous, warm_up + number) for make in kinds]
        try:
            table += lines(sides, number, synchronous)
        finally:
            for side in sides:
                side.leave()
        stored = [side.rows() for side in sides]
        assert [each == stored[0] for each in stored] == [True for _ in kinds]
    counted = ", ".join(f"{number} ({synchronous})" for synchronous, number in rounds.items())
    sys.stdout.write(
        f"\n{heading}, each in its own BEGIN IMMEDIATE and COMMIT, on {filesystem(directory)}.\n"
        f"Medians of {counted} rounds in turn as ratio to raw SQL.\n\n" + "\n".join([_titles(parts), *table]) + "\n"
    )
    return stored[0]


def line(name: str, synchronous: Synchronous, ratio: float, parts: Sequence[float], microseconds: float) -> str:
    """Return a line of the table."""
    target = TARGETS.get((name, synchronous))
    wanted = "" if target is None else f"<= {target}  {'met' if ratio <= target else 'MISSED'}"
    cells = "  ".join(f"{each:8.2f}" for each in parts)
    return f"{synchronous:<7} {name:<8} {ratio:6.2f}  {cells}  {microseconds:9.1f}  {wanted}"


def _titles(parts: Sequence[str]) -> str:
    """Return the first line of the table."""
    cells = "  ".join(f"{each:>8}" for each in parts)
    return f"{'sync':<7} {'side':<8} {'ratio':>6}  {cells}  {'µs':>9}  target"
