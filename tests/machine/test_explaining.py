"""What firing would come to is said step by step, and nothing is written for it."""

from typing import Any

import pytest

from fsm import ArgumentError, Finding, Machine
from fsm.driver.machines import TASK_MACHINE
from storage import Database, Value
from tests.machine.parcels import FINISHING, everything, machine, prepare, take
from tests.world import World


def explained(db: Database, parcels: Machine, **changes: Value) -> tuple[Finding, ...]:
    """Explain `finish` with some arguments changed, in a read."""
    return db.read(lambda tx: parcels.explain(tx, "finish", now=3.0, **{**FINISHING, **changes}))


def test_every_step_that_holds_is_named(db: Database) -> None:
    """Of a call that would succeed every step is named in its order, its own code unjudged, and the edge last."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    before = everything(db)
    findings = explained(db, parcels)
    assert [(finding.step, finding.verdict) for finding in findings] == [
        ("Authority depot", "holds"),
        ("Load", "holds"),
        ("Replay", "holds"),
        ("Do note_before", "not judged"),
        ("Fence", "holds"),
        ("Source", "holds"),
        ("Look others", "holds"),
        ("Secret", "holds"),
        ("Do note_inside", "not judged"),
        ("Write", "holds"),
    ]
    assert findings[-1].said == "riding -> delivered"
    assert everything(db) == before


@pytest.mark.parametrize(
    ("changes", "step", "error"),
    [
        ({"epoch": 2}, "Authority depot", "ForeignDepotError"),
        ({"parcel_id": "x"}, "Load", "NotFoundError"),
        ({"generation": 7}, "Fence", "StaleError"),
        ({"code": "wrong"}, "Secret", "ForeignDepotError"),
        ({"outcome": "eaten"}, "Write", ""),
    ],
)
def test_the_step_that_would_refuse_comes_last(db: Database, changes: dict[str, Any], step: str, error: str) -> None:
    """The explanation ends with the first step that would refuse, with its error and what would have to hold."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    last = explained(db, parcels, **changes)[-1]
    assert (last.step, last.verdict, last.error) == (step, "refuses", error)
    assert "expected" in last.said


def test_a_retry_is_explained(db: Database) -> None:
    """Of an exact retry it is said that it would be answered with what is stored."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    db.write(lambda tx: parcels.fire(tx, "finish", now=3.0, **FINISHING))
    assert explained(db, parcels)[-1] == Finding("Replay", "replays")


def test_the_gateways_own_triggers_are_explained(world: World) -> None:
    """Why a task does not start is said in the words of its declaration."""
    world.start("t1")
    task = world.admit("t2", 2)
    arguments = {**task.arguments(), **world.lease.arguments(), "cancel_generation": 0}
    last = world.db.read(lambda tx: TASK_MACHINE.explain(tx, "start", now=world.clock.now, **arguments))[-1]
    assert (last.step, last.error) == ("Look unresolved", "InvalidTaskTransitionError")
    assert "resolve the earlier task" in last.said


def test_a_missing_argument_is_named_as_in_firing(db: Database) -> None:
    """What `fire` would not take is not explained either."""
    with db.transaction() as tx, pytest.raises(ArgumentError, match="needs the arguments"):
        machine().explain(tx, "finish", now=1.0)
