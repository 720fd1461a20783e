"""The ratio of the library to raw SQL, printed by `make bench`. Only what is stored is asserted: time is not a law."""

import itertools
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Final

import pytest
from attrs import field, frozen

from storage.sqlite.filesystem import filesystem_type
from tests.benchmarks.sides import (
    MachineSide,
    PublicSide,
    RawPostgresSide,
    RawSqliteSide,
    Side,
    StorageSide,
    Synchronous,
)
from tests.engines import Engine, on_server

pytestmark = pytest.mark.benchmark_ratio

WARM_UP: Final = 48
ROUNDS: Final[dict[Synchronous, int]] = {"normal": 600, "full": 300}
ON_FILE: Final[dict[tuple[str, Synchronous], float]] = {
    ("machine", "normal"): 1.6,
    ("machine", "full"): 1.3,
    ("public", "normal"): 2.2,
}
ON_SERVER: Final[dict[tuple[str, Synchronous], float]] = {
    (side, synchronous): 1.4 for side in ("machine", "public") for synchronous in ROUNDS
}


@frozen
class Times:
    """What one side took, in nanoseconds, by round."""

    start: list[int] = field(factory=list)
    settle: list[int] = field(factory=list)

    @property
    def both(self) -> list[int]:
        """Start and settle of a round together."""
        return [sum(pair) for pair in zip(self.start, self.settle, strict=True)]


def race(sides: Sequence[Side], rounds: int) -> dict[str, Times]:
    """Let the sides take turns in each order equally often, so that none runs on what another left in the caches."""
    times = {side.name: Times() for side in sides}
    orders = itertools.cycle(itertools.permutations(sides))
    for number, order in zip(range(WARM_UP + rounds), orders, strict=False):
        for side in order:
            began = time.perf_counter_ns()
            side.start(number)
            started = time.perf_counter_ns()
            side.settle(number)
            ended = time.perf_counter_ns()
            if number >= WARM_UP:
                times[side.name].start.append(started - began)
                times[side.name].settle.append(ended - started)
    return times


@contextmanager
def prepared(engine: Engine, synchronous: Synchronous) -> Iterator[tuple[Side, ...]]:
    """Make a database with the same fresh tasks for each side."""
    tasks = WARM_UP + ROUNDS[synchronous]
    raw = RawPostgresSide if engine.is_server else RawSqliteSide
    sides = tuple(make(engine, synchronous, tasks) for make in (raw, StorageSide, MachineSide, PublicSide))
    try:
        yield sides
    finally:
        for side in sides:
            side.leave()


@contextmanager
def apart(engine: Engine) -> Iterator[None]:
    """Keep the client on one core and the server's processes off it, where they are of this machine and may be moved.

    A request to a process that happens to share the client's core costs a third less: it would be chance that decided.
    """
    usable = os.sched_getaffinity(0)
    ours, others = {min(usable)}, usable - {min(usable)}
    if not engine.is_server or not others:
        yield
        return
    for (process,) in on_server("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"):
        with suppress(ProcessLookupError, PermissionError):
            os.sched_setaffinity(process, others)
    os.sched_setaffinity(0, ours)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def place(engine: Engine, path: Path) -> str:
    """Say where the databases are; memory is refused, for its fsync costs nothing."""
    if engine.is_server:
        return f"PostgreSQL {on_server('SHOW server_version')[0][0]}, fsync {on_server('SHOW fsync')[0][0]}"
    return f"SQLite {sqlite3.sqlite_version}, on {filesystem(path)} ({path.parent})"


def filesystem(path: Path) -> str:
    """Return the type of the filesystem that holds the databases; memory is refused, for its fsync costs nothing."""
    found = filesystem_type(os.path.realpath(path), Path("/proc/self/mounts").read_text(encoding="utf-8"))
    assert found not in {"tmpfs", "ramfs"}, f"{path} is in memory; pass --basetemp with a folder on a disk"
    return found


def lines(
    times: dict[str, Times], synchronous: Synchronous, targets: dict[tuple[str, Synchronous], float]
) -> Iterator[str]:
    """Yield a line of the table for each side."""
    raw = times["raw"]
    for name, taken in times.items():
        ratios = [median(getattr(taken, part)) / median(getattr(raw, part)) for part in ("both", "start", "settle")]
        figures = [f"{median(getattr(taken, part)) / 1000:9.1f}" for part in ("both", "start", "settle")]
        target = targets.get((name, synchronous))
        wanted = "" if target is None else f"<= {target}  {'met' if ratios[0] <= target else 'MISSED'}"
        shown = "  ".join(f"{ratio:6.2f}" for ratio in ratios)
        yield f"{synchronous:<7} {name:<8} {shown}  {''.join(figures)}  {wanted}"


def table(where: str, rows: Sequence[str]) -> str:
    """Return the table with its heading."""
    heading = (
        f"\nStart and settle of a task, each in a transaction of its own, in {where}.\n"
        f"Medians of {ROUNDS['normal']} (normal) and {ROUNDS['full']} (full) rounds in turn"
        f" as ratio to raw SQL, and in µs.\n\n"
        f"{'sync':<7} {'side':<8} {'ratio':>6}  {'start':>6}  {'settle':>6}  {'both µs':>9}{'start':>9}{'settle':>9}"
        "  target\n"
    )
    return heading + "\n".join(rows) + "\n"


def test_the_library_stores_what_raw_sql_stores(engine: Engine, tmp_path: Path) -> None:
    """The machine and the public functions leave the very rows that the same SQL leaves, at a cost that is printed."""
    rows: list[str] = []
    for synchronous in ROUNDS:
        with prepared(engine, synchronous) as sides, apart(engine):
            times = race(sides, ROUNDS[synchronous])
            rows += lines(times, synchronous, ON_SERVER if engine.is_server else ON_FILE)
        raw, *others = (side.rows() for side in sides)
        assert [each == raw for each in others] == [True, True, True]
        assert {row["status"] for row in raw["hosted_room_driver_tasks"]} == {"settled"}
    sys.stdout.write(table(place(engine, tmp_path), rows))
