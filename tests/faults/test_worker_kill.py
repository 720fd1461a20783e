"""SIGKILL takes a worker at any moment: it says everything once, however often it has to begin again."""

import json
import random
from typing import Any, Final

from fsm import sessions
from storage import Database
from tests.faults.processes import Child
from tests.sessions.support import Owner
from tests.workers.support import Works
from tests.world import ManualClock

KILLS: Final = 6
TOTAL: Final = 150


def test_a_worker_that_is_killed_says_everything_once(db: Database, clock: ManualClock) -> None:
    """Begun again under the next epoch from what was not acknowledged, no line is lost, doubled or out of order."""
    works = Works(Owner.begin(db, clock))
    works.register()
    dice = random.Random(7)  # noqa: S311 # the same dice every time
    heard: dict[int, Any] = {}
    for life in range(KILLS + 1):
        works = works.succeed()
        heard |= live(works, len(heard) + 1, None if life == KILLS else dice.randrange(30))
        check_acknowledged(works, heard)
    assert sorted(heard) == list(range(1, TOTAL + 2))
    assert [each["content"] for each in sessions.list_messages(db, "s")] == [f"line {n}" for n in range(1, TOTAL + 1)]
    assert [row["sequence"] for row in works.receipts()] == list(range(1, TOTAL + 2))
    assert works.state() == "terminal"
    assert works.revision() == TOTAL + 1


def live(works: Works, first: int, kill_after: int | None) -> dict[int, Any]:
    """Run the worker, and kill it once it has acknowledged so many numbers; return what it acknowledged."""
    child = Child("tests.faults.reporter")
    try:
        child.tell(path=works.db.location, epoch=works.owner.epoch, first=first, total=TOTAL)
        heard = [child.hear() for _ in range(kill_after or 0)]
        if kill_after is not None:
            child.kill()
        return {line["number"]: line["answer"] for line in [*heard, *child.rest()] if line is not None}
    finally:
        child.close()


def check_acknowledged(works: Works, heard: dict[int, Any]) -> None:
    """Whatever was acknowledged is stored as it was answered, and at most one number more."""
    stored = {int(row["sequence"] or 0): json.loads(str(row["result_json"])) for row in works.receipts()}
    assert {number: stored[number] for number in heard} == heard
    assert len(stored) - len(heard) in {0, 1}
