"""What others fire on an admission, each fenced by itself: imports, readoption, deletion; and what may fire it."""

from typing import Any

import pytest

from fsm.lifecycles import SESSION_ADMISSION, WORKER_EXECUTION
from fsm.lifecycles.admission_states import FINAL
from fsm.runtime.machines import ADMISSION_MACHINE
from storage import Value
from tests.sessions.support import STATES, Owner

IMPORTED = ("queued", "unknown", *(state.name for state in FINAL))


def fire(owner: Owner, trigger: str, **arguments: Value) -> Any:
    """Fire a trigger in a transaction of its own."""
    return owner.db.write(lambda tx: ADMISSION_MACHINE.fire(tx, trigger, now=1.0, **arguments))


def imported(owner: Owner, state: str, **changes: Value) -> Any:
    """Import an admission of an older gateway."""
    content: dict[str, Value] = {
        **dict.fromkeys(("admission_id", "request_id"), "old"),
        "session_id": "s",
        "principal_id": "p",
        "intent": "queue",
        "lineage_json": '["s"]',
        "payload_json": "{}",
        "payload_digest": "d",
    }
    return fire(owner, "import", **{**content, "epoch": owner.epoch, "state": state, "generation": 7, **changes})


@pytest.mark.parametrize("state", IMPORTED)
def test_an_import_takes_a_declared_state(owner: Owner, state: str) -> None:
    """An older gateway's admission is stored in its state, and its session's generation never goes back."""
    imported(owner, state)
    assert (owner.state("old"), owner.session()["runtime_generation"]) == (state, 7)
    imported(owner, "cancelled", admission_id="older", request_id="older", generation=3)
    imported(owner, "cancelled", admission_id="plain", request_id="plain", generation=None)
    assert owner.session()["runtime_generation"] == 7


@pytest.mark.parametrize("state", ["started", "steering", "nonsense"])
def test_an_import_takes_no_other_state(owner: Owner, state: str) -> None:
    """What runs, or is in transfer, cannot be taken over."""
    with owner.refuses("admission_conflict"):
        imported(owner, state)


def test_an_import_needs_epoch_and_session_and_a_free_place(owner: Owner) -> None:
    """It is refused as any other write is, and overwrites nothing."""
    with owner.refuses("stale_epoch"):
        imported(owner, "queued", epoch=9)
    with owner.refuses("not_found"):
        imported(owner, "queued", session_id="nowhere")
    imported(owner, "queued")
    for changes in ({}, {"request_id": "other"}, {"admission_id": "other"}):
        with owner.refuses("admission_conflict"):
            imported(owner, "queued", **changes)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("state", [state for state in STATES if state != "none"])
def test_an_import_takes_nothing_that_is_there(owner: Owner, state: str) -> None:
    """Whatever state an admission is in, an import of its id, or of its identity, is refused and leaves it."""
    current = owner.bring(state)
    stored = owner.row() or {}
    with current.refuses("admission_conflict"):
        imported(current, "cancelled", admission_id=stored["admission_id"])
    with current.refuses("admission_conflict"):
        imported(current, "cancelled", request_id="r1")


@pytest.mark.parametrize("state", ["started", "unknown"])
@pytest.mark.parametrize("wrong", [{"owner_epoch": 9}, {"generation": 9}])
def test_readoption_is_fenced_by_the_workers_claim(owner: Owner, state: str, wrong: dict[str, Value]) -> None:
    """Only the very claim that the worker works for moves to the new epoch."""
    current = owner.bring(state)
    row = owner.row()
    assert row is not None
    claim = {"admission_id": row["admission_id"], "epoch": 9, "owner_epoch": 1, "generation": 1}
    with current.refuses("stale_generation"):
        fire(current, "readopt", **{**claim, **wrong})
    fire(current, "readopt", **claim)
    assert (owner.state(), (owner.row() or {})["owner_epoch"]) == ("started", 9)


@pytest.mark.parametrize("state", [state for state in STATES if state not in {"none", "started", "unknown"}])
def test_only_what_runs_is_readopted(owner: Owner, state: str) -> None:
    """A claim that has ended, or was never made, does not begin by readoption."""
    current = owner.bring(state)
    row = owner.row()
    assert row is not None
    claim = {"owner_epoch": row["owner_epoch"], "generation": row["generation"] or 1}
    with current.refuses("stale_generation"):
        fire(current, "readopt", admission_id=row["admission_id"], epoch=9, **claim)


@pytest.mark.parametrize("state", [state for state in STATES if state != "none"])
def test_only_what_has_ended_is_deleted(owner: Owner, state: str) -> None:
    """An input that has not ended keeps its session."""
    current = owner.bring(state)
    row = owner.row()
    assert row is not None
    if state in {each.name for each in FINAL}:
        assert fire(current, "delete", admission_id=row["admission_id"]).row is None
        return
    with current.refuses("session_busy"):
        fire(current, "delete", admission_id=row["admission_id"])


TURNS = tuple(("session_turn_lease", trigger) for trigger in ("acquire", "renew", "release"))


def test_what_sets_off_what_is_pinned() -> None:
    """Effects across lifecycles are these and no others: an accidental one changes a line that a reviewer sees."""
    fired = {
        (trigger.name, step.name): step.fires
        for lifecycle in (SESSION_ADMISSION, WORKER_EXECUTION)
        for trigger in lifecycle.triggers
        for step in trigger.dos()
        if step.fires
    }
    assert fired == {
        ("settle", "retire_workers"): (("worker_execution", "retire"),),
        ("settle", "end_steering"): (("session_admission", "deliver"), ("session_admission", "leave_out")),
        ("resolve", "retire_workers"): (("worker_execution", "retire"),),
        ("resolve", "interrupt_steering"): (("session_admission", "leave_out"),),
        ("apply", "run_operation"): TURNS,
        ("finish", "run_operation"): TURNS,
        ("adopt", "readopt_admission"): (("session_admission", "readopt"), ("session_admission", "rebind")),
    }
