"""What a worker's life costs, as a ratio to raw SQL. Printed by `make bench`; only what is stored is asserted."""

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from tests.benchmarks.comparing import compare, line
from tests.benchmarks.sides import Synchronous
from tests.benchmarks.worker_sides import CALLS, MachineWorkers, PublicWorkers, RawWorkers, WorkerSide

pytestmark = pytest.mark.benchmark_ratio

WARM_UP: Final = 12
ROUNDS: Final[dict[Synchronous, int]] = {"normal": 150, "full": 60}
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


def lines(sides: Sequence[WorkerSide], rounds: int, synchronous: Synchronous) -> Iterator[str]:
    """Yield a line of the table for each side."""
    times = race(sides, rounds)

    def taken(name: str, first: int = 0, last: int = CALLS) -> float:
        # The sum of each call's own median: one call of twelve that another process held up must not count for all.
        return sum(median(life[step] for life in times[name]) for step in range(first, last))

    for name in times:
        parts = [taken(name, *part) / taken("raw", *part) for part in PARTS.values()]
        yield line(name, synchronous, taken(name) / taken("raw"), parts, taken(name) / 1000)


def test_a_life_stores_what_raw_sql_stores(tmp_path: Path) -> None:
    """The machine and the public functions leave the very rows that the same SQL leaves, at a cost that is printed."""
    kinds = (RawWorkers, MachineWorkers, PublicWorkers)
    heading, parts = "Register, ten operations and finish", [*PARTS]
    rows = compare(tmp_path, kinds, rounds=ROUNDS, warm_up=WARM_UP, lines=lines, heading=heading, parts=parts)
    assert {row["status"] for row in rows["worker_executions"]} == {"terminal"}
