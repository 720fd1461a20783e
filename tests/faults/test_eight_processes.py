"""Eight processes drive the same rooms for a while: one task of a room runs at a time, and is settled once.

CONTENTION_SECONDS says for how long each test lets them; in CI that is twenty seconds on a server, and four on SQLite,
which lets one writer in at a time.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from fsm import errors
from fsm.lifecycles.driver_task import FAILED, RUNNING, SETTLED
from fsm.lifecycles.tables import TASKS
from storage import Row
from tests.engines import Engine
from tests.faults.processes import Child, children
from tests.world import World

pytestmark = [pytest.mark.contention, pytest.mark.engines("sqlite", "postgres", "serializable")]

SECONDS: Final = float(os.environ.get("CONTENTION_SECONDS") or ("20" if os.environ.get("CI") else "4"))
NAMES: Final = tuple(f"rival{number}" for number in range(8))
TWO_AT_ONCE: Final = f"""
    SELECT room_id, COUNT(*) AS running FROM {TASKS.name}
    WHERE status = '{RUNNING.name}' GROUP BY room_id HAVING COUNT(*) > 1
"""


@pytest.fixture
def rivals() -> Iterator[tuple[Child, ...]]:
    """Eight processes."""
    with children("tests.faults.rival", *((name,) for name in NAMES)) as started:
        yield started


def contend(
    rivals: tuple[Child, ...], world: World, rooms: list[str], seconds: float
) -> tuple[list[dict[str, Any]], int]:
    """Let all of them work on the rooms, and look on meanwhile; return what each reports, and how often was looked."""
    for seed, child in enumerate(rivals):
        child.tell(location=world.db.location, rooms=rooms, seed=seed)
    assert [child.hear() for child in rivals] == [{"ready": True}] * len(rivals)
    until, looks = time.monotonic() + seconds, 0
    for child in rivals:
        child.tell(until=until)
    while time.monotonic() < until:
        assert world.db.read(lambda tx: tx.execute(TWO_AT_ONCE)) == []
        looks += 1
        time.sleep(0.001)
    return [child.hear() for child in rivals], looks


@pytest.mark.parametrize("count", [1, 20], ids=["one room", "twenty rooms"])
def test_a_room_runs_one_task_at_a_time_and_settles_it_once(
    engine: Engine, world: World, rivals: tuple[Child, ...], count: int, report: Callable[[str], None]
) -> None:
    """Whoever of eight processes holds a room's lease, dies, comes late, asks for a stop or withdraws: one task of the
    room runs at every instant, each is settled once, by one process, what was acknowledged is stored, and nobody hears
    of anything but the library's own refusals
    """
    rooms = ["room", *(f"room{number}" for number in range(2, count + 1))]
    for room in rooms[1:]:
        world.create_room(room)
    seconds = SECONDS if engine.is_server else min(SECONDS, 4)
    reports, looks = contend(rivals, world, rooms, seconds)
    assert [each["failure"] for each in reports if each["failure"]] == []
    refusals = sum((Counter(each["refusals"]) for each in reports), Counter[str]())
    assert all(issubclass(getattr(errors, name), errors.DriverStateError) for name in refusals)

    ended = {SETTLED.name, FAILED.name}
    rows = [row for row in world.everything()[TASKS.name] if row["status"] in ended]
    acknowledged = [tuple(each) for report in reports for each in report["settled"]]
    assert sorted(acknowledged) == sorted(map(settlement, rows)), "not each settled task was settled once"
    started = Counter(tuple(each) for report in reports for each in report["started"])
    assert max(started.values()) == 1, "a run of a task was started twice"
    assert rows, "nothing was settled"
    assert refusals["LeaseHeldError"], "it was no contest"
    assert looks > 0
    calls = sum(each["calls"] for each in reports)
    report(
        f"{seconds:g} s, {calls / seconds:.0f} calls/s, {len(started) / seconds:.0f} starts/s,"
        f" {len(rows) / seconds:.0f} settlements/s, {looks} looks, refused {refusals.total()}: {dict(refusals)}"
    )


def settlement(row: Row) -> tuple[str, ...]:
    """Return what a process notes of a settlement."""
    return str(row["room_id"]), str(row["task_id"]), str(row["settlement_id"])
