"""What a worker's life costs, as a ratio to raw SQL. Printed by `make bench`; only what is stored is asserted."""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from tests.benchmarks.sides import Synchronous
from tests.benchmarks.test_ratio import filesystem
from tests.benchmarks.worker_sides import CALLS, MachineWorkers, PublicWorkers, RawWorkers, WorkerSide

pytestmark = pytest.mark.benchmark_ratio

WARM_UP: Final = 12
ROUNDS: Final[dict[Synchronous, int]] = {"normal": 150, "full": 60}
TARGETS: Final[dict[tuple[str, Synchronous], float]] = {("machine", "normal"): 1.8, ("machine", "full"): 1.4}
PARTS: Final = {"register": (0, 1), "reports": (1, CALLS - 1), "finish": (CALLS - 1, CALLS)}

Times = dict[str, list[list[int]]]


def race(sides: Sequence[WorkerSide], rounds: int) -> Times:
    """Let the sides take turns at each call, in each order equally often; return what each call took, by life."""
    times: Times = {side.name: [] for side in sides}
    orders = itertools.cycle(itertools.permutations(sides))
    for number in range(WARM_UP + rounds):
        lives: dict[str, list[int]] = {side.name: [] for side in sides}
        for step, order in zip(range(CALLS), orders, strict=False):
            for side in order:
                began = time.perf_counter_ns()
                side.call(number, step)
                lives[side.name].append(time.perf_counter_ns() - began)
        if number >= WARM_UP:
            for name, taken in lives.items():
                times[name].append(taken)
    return times


@contextmanager
def prepared(directory: Path, synchronous: Synchronous) -> Iterator[tuple[WorkerSide, ...]]:
    """Make a database with the same session for each side."""
    lives = WARM_UP + ROUNDS[synchronous]
    sides = tuple(make(directory, synchronous, lives) for make in (RawWorkers, MachineWorkers, PublicWorkers))
    try:
        yield sides
    finally:
        for side in sides:
            side.leave()


def lines(times: Times, synchronous: Synchronous) -> Iterator[str]:
    """Yield a line of the table for each side."""

    def taken(name: str, first: int, last: int) -> float:
        # The sum of each call's own median: one call of twelve that another process held up must not count for all.
        return sum(median(life[step] for life in times[name]) for step in range(first, last))

    for name in times:
        ratio = taken(name, 0, CALLS) / taken("raw", 0, CALLS)
        parts = "  ".join(f"{taken(name, *part) / taken('raw', *part):8.2f}" for part in PARTS.values())
        target = TARGETS.get((name, synchronous))
        wanted = "" if target is None else f"<= {target}  {'met' if ratio <= target else 'MISSED'}"
        yield f"{synchronous:<7} {name:<8} {ratio:6.2f}  {parts}  {taken(name, 0, CALLS) / 1000:9.1f}  {wanted}"


def test_a_life_stores_what_raw_sql_stores(tmp_path: Path) -> None:
    """The machine and the public functions leave the very rows that the same SQL leaves, at a cost that is printed."""
    rows: list[str] = []
    for synchronous in ROUNDS:
        directory = tmp_path / synchronous
        directory.mkdir()
        with prepared(directory, synchronous) as sides:
            rows += lines(race(sides, ROUNDS[synchronous]), synchronous)
        raw, *others = (side.rows() for side in sides)
        assert [each == raw for each in others] == [True, True]
        assert {row["status"] for row in raw["worker_executions"]} == {"terminal"}
    heading = (
        f"\nRegister, ten operations and finish, each in its own BEGIN IMMEDIATE and COMMIT, on {filesystem(tmp_path)}."
        f"\nMedians of {ROUNDS['normal']} (normal) and {ROUNDS['full']} (full) lives in turn as ratio to raw SQL.\n\n"
        f"{'sync':<7} {'side':<8} {'ratio':>6}  {'register':>8}  {'reports':>8}  {'finish':>8}  {'µs':>9}  target\n"
    )
    sys.stdout.write(heading + "\n".join(rows) + "\n")
