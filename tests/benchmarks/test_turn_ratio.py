"""What a session's turn costs, as a ratio to raw SQL, and whether a claim costs more where much has ended.

Printed by `make bench`. Only what is stored is asserted: time is not a law.
"""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

import pytest

import storage
from fsm import sessions
from storage import Database
from tests.benchmarks.comparing import compare, line
from tests.benchmarks.sides import Synchronous
from tests.benchmarks.turn_sides import MachineTurns, PublicTurns, RawTurns, TurnSide
from tests.world import ManualClock

pytestmark = pytest.mark.benchmark_ratio

PARTS: Final = ("admit", "claim", "settle")
WARM_UP: Final = 48
ROUNDS: Final[dict[Synchronous, int]] = {"normal": 600, "full": 300}
ENDED: Final = (10, 100_000)
FLAT: Final = 1.3

Times = dict[str, list[int]]


def race(sides: Sequence[TurnSide], rounds: int) -> dict[str, Times]:
    """Let the sides take turns in each order equally often, so that none runs on what another left in the caches."""
    times: dict[str, Times] = {side.name: {part: [] for part in PARTS} for side in sides}
    orders = itertools.cycle(itertools.permutations(sides))
    for number, order in zip(range(WARM_UP + rounds), orders, strict=False):
        for side, part in itertools.product(order, PARTS):
            began = time.perf_counter_ns()
            getattr(side, part)(number)
            taken = time.perf_counter_ns() - began
            if number >= WARM_UP:
                times[side.name][part].append(taken)
    return times


def whole(times: Times) -> float:
    """Return the median of a whole turn, in nanoseconds."""
    return median(map(sum, zip(*times.values(), strict=True)))


def lines(sides: Sequence[TurnSide], rounds: int, synchronous: Synchronous) -> Iterator[str]:
    """Yield a line of the table for each side."""
    times = race(sides, rounds)
    raw = times["raw"]
    for name, taken in times.items():
        parts = [median(taken[part]) / median(raw[part]) for part in PARTS]
        yield line(name, synchronous, whole(taken) / whole(raw), parts, whole(taken) / 1000)


def test_a_turn_stores_what_raw_sql_stores(tmp_path: Path) -> None:
    """The machine and the public functions leave the very rows that the same SQL leaves, at a cost that is printed."""
    kinds = (RawTurns, MachineTurns, PublicTurns)
    heading = "Admit, claim and settle"
    rows = compare(tmp_path, kinds, rounds=ROUNDS, warm_up=WARM_UP, lines=lines, heading=heading, parts=PARTS)
    assert {row["outcome"] for row in rows["session_admissions"]} == {"completed"}


def crowded(directory: Path, ended: int) -> Database:
    """Open a database whose session has had so many inputs that ended."""
    numbers = itertools.count()
    db = storage.open_database(
        directory / f"{ended}.db", clock=ManualClock(), new_id=lambda: f"a{next(numbers)}", synchronous="normal"
    )
    sessions.create_session(db, "s", source="cli")
    sessions.begin_runtime_epoch(db, instance_id="bench")
    with db.transaction() as tx:
        tx.execute(
            """
            WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :ended)
            INSERT INTO session_admissions (admission_id, request_id, principal_id, target_session_id, lineage_json,
                payload_json, payload_digest, intent, status, outcome, owner_epoch, generation)
            SELECT 'old' || n, 'old' || n, 'p', 's', '["s"]', '{"text":"hello"}', 'd', 'queue', 'terminal', 'completed',
                1, 0 FROM numbers
            """,
            {"ended": ended},
        )
    return db


def turn(db: Database, number: int) -> tuple[int, int]:
    """Run one turn; return what its claim and its settlement took, in nanoseconds."""
    sessions.admit_session_input(db, epoch=1, principal_id="p", session_id="s", request_id=f"r{number}", payload={})
    began = time.perf_counter_ns()
    claimed = sessions.claim_session_input(db, epoch=1, session_id="s")
    claimed_at = time.perf_counter_ns()
    assert claimed
    sessions.settle_session_input(
        db, epoch=1, admission_id=claimed["admission_id"], generation=number + 1, outcome="completed"
    )
    return claimed_at - began, time.perf_counter_ns() - claimed_at


def test_a_claim_costs_the_same_however_much_has_ended(tmp_path: Path) -> None:
    """With 10 and with 100,000 ended inputs in a session the same is claimed, at a cost that is printed."""
    few, many = (crowded(tmp_path, ended) for ended in ENDED)
    with closing(few), closing(many):
        pairs = [(turn(few, number), turn(many, number)) for number in range(WARM_UP + ROUNDS["normal"])][WARM_UP:]
    claims, settlements = (
        median(pair[1][part] for pair in pairs) / median(pair[0][part] for pair in pairs) for part in (0, 1)
    )
    verdict = "met" if claims <= FLAT else "MISSED"
    sys.stdout.write(
        f"\nWith {ENDED[1]:,} ended inputs in a session, against {ENDED[0]}: claim {claims:.2f} (<= {FLAT}, {verdict}),"
        f" settle {settlements:.2f}.\n"
    )
