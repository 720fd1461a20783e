"""Recovery: what became unknown, how it is resolved, and how it goes on where its worker proves itself."""

from collections.abc import Callable

import pytest

from tests.sessions.support import Owner
from tests.sessions.test_turns import stored_result

# --- resolving


def test_a_resolved_turn_is_interrupted(owner: Owner) -> None:
    """Its workers end with it, the session's revision moves by one, and the queue goes on."""
    claimed = owner.start()
    owner.register("w")
    owner.admit("r2")
    successor = owner.succeed()
    successor.recover()
    resolved = successor.resolve(claimed)
    assert (resolved["status"], resolved["outcome"], resolved["generation"]) == ("terminal", "interrupted", 1)
    assert successor.workers() == {"w": "terminal"}
    assert successor.session()["runtime_revision"] == 1
    assert stored_result(owner, resolved) is None
    assert successor.claim()["request_id"] == "r2"


def test_a_resolution_is_replayed(owner: Owner) -> None:
    """The exact retry returns what is stored, of whichever later epoch it comes, and no hook runs."""
    claimed = owner.start()
    successor = owner.succeed()
    successor.recover()
    resolved = successor.resolve(claimed)
    later = successor.succeed()
    fail: Callable[..., object] = lambda *_: pytest.fail("a hook ran")  # noqa: E731 # a hook
    with owner.changes_nothing():
        assert later.resolve(claimed, terminal_write=fail, captured=("failed", {})) == resolved
    with owner.refuses("stale_generation"):
        later.resolve(claimed, generation=2)


@pytest.mark.parametrize(
    ("captured", "outcome"),
    [("completed", "completed"), ("interrupted", "interrupted"), ("failed", "failed")],
)
def test_what_this_epochs_owner_captured_counts(owner: Owner, captured: str, outcome: str) -> None:
    """A captured end is stored with its result where the row is of this very epoch, and its retry replays."""
    claimed = owner.start()
    owner.alter(status="unknown")
    resolved = owner.resolve(claimed, captured=(captured, {"text": "done"}))
    assert (resolved["outcome"], stored_result(owner, resolved)) == (outcome, {"text": "done"})
    with owner.changes_nothing():
        assert owner.resolve(claimed, captured=(captured, {"text": "done"})) == resolved


def test_what_another_epochs_owner_captured_does_not_count(owner: Owner) -> None:
    """An invalid captured end is refused, of whichever epoch; a valid one of another epoch is not used."""
    claimed = owner.start()
    successor = owner.succeed()
    successor.recover()
    with successor.refuses("invalid_params"):
        successor.resolve(claimed, captured=("rejected", {}))
    resolved = successor.resolve(claimed, captured=("completed", {"text": "late"}))
    assert (resolved["outcome"], stored_result(owner, resolved)) == ("interrupted", None)


# --- recovering


def test_recovery_loses_what_older_epochs_started(owner: Owner) -> None:
    """Started turns become unknown, their workers before them; nothing of this epoch and nothing queued is touched."""
    for session in ("t", "u"):
        owner.open(session)
    for session in ("s", "t"):
        owner.start(session=session)
    owner.register("w")
    owner.register("c", "t", kind="child")
    owner.execute("INSERT INTO worker_receipts VALUES ('c', 1, 'd', '{\"messages\":[]}')")
    successor = owner.succeed()
    successor.start("mine", "u")
    successor.admit("waiting", "u")
    assert successor.recover() == 2
    assert [owner.state(session=session) for session in ("s", "t")] == ["unknown", "unknown"]
    assert (owner.state("mine", "u"), owner.state("waiting", "u")) == ("started", "queued")
    assert owner.workers() == {"w": "unknown", "c": "terminal"}
    assert owner.everything()["worker_receipts"][0]["result_json"] == '{"retired":true}'
    with owner.changes_nothing():
        assert successor.recover() == 0


def test_a_child_does_not_outlive_its_owner_though_it_was_lost_before(owner: Owner) -> None:
    """A child that an earlier recovery left unknown ends with the next one; others wait for their proof."""
    owner.register("c", kind="child", generation=0)
    owner.execute("UPDATE worker_executions SET status = 'unknown'")
    successor = owner.succeed()
    successor.recover()
    assert owner.workers() == {"c": "terminal"}


def test_a_lost_turn_goes_on_where_its_worker_proves_itself(owner: Owner) -> None:
    """Adopting the worker brings the claim to the new epoch, and its owner settles it under its own generation."""
    claimed = owner.start()
    owner.register("w")
    successor = owner.succeed()
    successor.recover()
    successor.adopt("w")
    assert (owner.state(), owner.workers()) == ("started", {"w": "running"})
    assert successor.settle(claimed)["outcome"] == "completed"


def test_adopting_before_recovery_takes_along_what_steers(owner: Owner) -> None:
    """What steers towards a claim that is adopted before a recovery moves with it, and is delivered with it."""
    claimed = owner.start("r0")
    owner.register("w")
    taken, _ = owner.steer(owner.admit("r1"))
    successor = owner.succeed()
    successor.adopt("w")
    assert successor.recover() == 0
    row = owner.row("r1")
    assert row is not None
    assert (owner.state("r1"), row["owner_epoch"]) == ("steering", 2)
    successor.settle(claimed, transfers={taken["admission_id"]: True})
    assert owner.state("r1") == "steered"


def test_a_turn_is_adopted_through_its_lineage(owner: Owner) -> None:
    """A worker that a compression moved to a child adopts the claim that stands on the first session."""
    owner.open("s2", parent_session_id="s")
    owner.start()
    owner.alter(lineage_json='["s","s2"]')
    owner.execute("UPDATE sessions SET runtime_generation = 1 WHERE id = 's2'")
    owner.register("w", "s2")
    successor = owner.succeed()
    successor.recover()
    successor.adopt("w", "s2")
    assert owner.state() == "started"


def test_two_turns_under_one_claim_are_not_adopted(owner: Owner) -> None:
    """Where two admissions could be the worker's, neither moves, nor does the worker."""
    owner.start()
    owner.register("w")
    owner.open("t")
    owner.start("r2", "t")
    owner.alter("r2", lineage_json='["t","s"]')
    successor = owner.succeed()
    successor.recover()
    with successor.refuses("admission_conflict"):
        successor.adopt("w")


def test_an_effect_is_handed_a_copy_of_the_row(owner: Owner) -> None:
    """Whatever a hook does to the row that it is handed, the turn's own workers end and nothing else moves."""
    claimed = owner.start()
    owner.register("w")
    successor = owner.succeed()
    successor.recover()
    successor.resolve(claimed, terminal_write=lambda _, row: row.update(generation=9, target_session_id="t"))
    assert (successor.workers(), successor.session()["runtime_revision"]) == ({"w": "terminal"}, 1)
