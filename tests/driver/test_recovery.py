"""Recovery, damaged rows and pruning."""

import hashlib
from typing import Any

import pytest

from fsm import driver
from fsm.driver import StaleTaskError, TaskConflictError
from tests.world import World, identity

GENERATIONS: dict[str, Any] = {"expected_execution_generation": 1, "expected_cancel_generation": 0}
DAY = 24 * 60 * 60.0


def test_recovery_marks_only_the_work_of_other_leases(world: World) -> None:
    """A new lease holder finds the running work of an older lease uncertain, requeues nothing, and may call again."""
    world.lose("t1")
    world.admit("t2")
    recovered = driver.recover_room(world.db, world.lease)
    assert recovered == {"queued": [identity("t2")], "indeterminate": [identity("t1")]}
    before = world.everything()
    assert driver.recover_room(world.db, world.lease) == recovered
    assert world.everything() == before


def test_own_running_work_is_not_lost(world: World) -> None:
    """Recovering a room leaves the running work of the very same lease alone."""
    world.start()
    assert driver.recover_room(world.db, world.lease) == {"queued": [], "indeterminate": []}
    assert (world.row() or {})["status"] == "running"


@pytest.mark.parametrize("column", ["run_gateway_id", "run_process_generation", "run_lease_generation"])
def test_a_running_task_without_its_run_is_recovered(world: World, column: str) -> None:
    """A running row whose run columns are null belongs to no lease and no longer blocks its room."""
    world.start()
    world.execute(f"UPDATE hosted_room_driver_tasks SET {column} = NULL")
    assert driver.recover_room(world.db, world.lease)["indeterminate"] == [identity()]


def test_a_damaged_row_does_not_stop_recovery(world: World) -> None:
    """Recovery decodes nothing, so that one bad row stops neither it nor the others."""
    world.start("t1")
    world.execute("UPDATE hosted_room_driver_tasks SET payload_json = '{'")
    assert driver.recover_room(world.db, world.take_over())["indeterminate"] == [identity("t1")]


@pytest.mark.parametrize("call", ["requeue_indeterminate", "requeue_deferred", "requeue_not_admitted"])
def test_a_requeue_replays_until_the_task_runs_again(world: World, call: str) -> None:
    """An exact retry of a requeue is answered with what is stored, and is stale once the task has run again."""
    if call == "requeue_not_admitted":
        attempt = world.start()
        again: Any = lambda: driver.requeue_not_admitted_task(world.db, attempt)  # noqa: E731 # one of three calls
    else:
        world.bring("indeterminate" if call == "requeue_indeterminate" else "deferred")
        function: Any = getattr(driver, f"{call}_task")
        again = lambda: function(world.db, identity(), world.lease, **GENERATIONS)  # noqa: E731 # one of three calls
    assert again()["idempotent"] is False
    before = world.everything()
    assert again()["idempotent"] is True
    assert world.everything() == before
    driver.start_task(world.db, identity(), world.lease, expected_cancel_generation=0)
    with pytest.raises(StaleTaskError):
        again()


def test_a_requeued_task_keeps_nothing_of_its_run(world: World) -> None:
    """Back in the queue a task has its generations and no trace of the run, the deferral or its result."""
    world.bring("deferred")
    driver.requeue_deferred_task(world.db, identity(), world.lease, **GENERATIONS)
    row = world.row() or {}
    cleared = ("run_gateway_id", "run_process_generation", "run_lease_generation", "result_json", "started_at")
    assert [row[column] for column in (*cleared, "terminal_at", "indeterminate_at")] == [None] * 7
    assert (row["status"], row["execution_generation"], row["cancel_generation"]) == ("queued", 1, 0)


def test_a_deferral_names_its_reason(world: World) -> None:
    """A deferred task says why and that it may be retried; another reason is no retry of it."""
    world.bring("deferred")
    assert driver.get_task(world.db, identity())["result"] == {"reason": "later", "retryable": True}
    with pytest.raises(StaleTaskError):
        driver.defer_indeterminate_task(world.db, identity(), world.lease, **GENERATIONS, reason="never")


DAMAGE = {
    "no JSON": "payload_json = '{'",
    "another payload": 'payload_json = \'{"prompt":"x","source_event_seq":1,"target_profile":"p"}\'',
    "no object": "payload_json = '[]'",
    "another payload under its own digest": "payload_json = '[]', payload_digest = '"
    + hashlib.sha256(b"[]").hexdigest()
    + "'",
    "another digest": "payload_digest = 'x'",
    "another sequence": "source_event_seq = 7",
    "NaN": "payload_json = 'NaN'",
    "nested too deep": "payload_json = '" + "[" * 100_000 + "'",
    "a damaged result": "result_json = '{'",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_task_is_listed_and_cancelled(world: World, kind: str) -> None:
    """A damaged row is listed with its identity and `corrupt`, hides no other row, and can be cancelled at once."""
    world.admit("bad")
    world.execute(f"UPDATE hosted_room_driver_tasks SET {DAMAGE[kind]}")
    world.admit("good", 9)
    bad, good = sorted(driver.list_tasks(world.db, room_id="room"), key=lambda view: "corrupt" not in view)
    assert (bad["identity"], bad["status"], bad["cancel_generation"]) == (identity("bad"), "queued", 0)
    assert bad["corrupt"]
    assert (bad["payload"], bad["result"]) == (None, None)
    assert "corrupt" not in good
    with pytest.raises(TaskConflictError, match="cancel the task"):
        driver.get_task(world.db, identity("bad"))
    view = driver.cancel_task(world.db, identity("bad"), cancel_id="c1", expected_cancel_generation=0)
    assert (view["status"], "corrupt" in view) == ("cancelled", True)


def test_a_damaged_task_is_not_started(world: World) -> None:
    """Starting a task whose payload is damaged is refused and leaves it queued."""
    world.admit()
    world.execute("UPDATE hosted_room_driver_tasks SET payload_json = '{'")
    before = world.everything()
    with pytest.raises(TaskConflictError):
        driver.start_task(world.db, identity(), world.lease, expected_cancel_generation=0)
    assert world.everything() == before


def test_a_damaged_task_at_work_is_cancelled_in_two_phases(world: World) -> None:
    """A running task that was damaged can be stopped and its stop acknowledged."""
    world.start()
    world.execute("UPDATE hosted_room_driver_tasks SET payload_json = '{'")
    view = driver.begin_task_cancel(world.db, identity(), cancel_id="c1", expected_cancel_generation=0)
    assert (view["status"], "corrupt" in view) == ("stopping", True)
    view = driver.complete_task_cancel(world.db, identity(), cancel_id="c1", expected_cancel_generation=1)
    assert (view["status"], "corrupt" in view) == ("cancelled", True)


@pytest.mark.parametrize("name", ["bad id!", "x" * 200, ""])
def test_a_task_with_a_damaged_identity_is_listed(world: World, name: str) -> None:
    """An identifier that no call would have taken does not stop a listing or a recovery."""
    world.start()
    world.execute("UPDATE hosted_room_driver_tasks SET thread_id = :name", name=name)
    assert [view["identity"].thread_id for view in driver.list_tasks(world.db, room_id="room")] == [name]
    assert driver.recover_room(world.db, world.take_over())["indeterminate"][0].thread_id == name


# --- pruning


def _publish(world: World, *names: str) -> None:
    world.execute("CREATE TABLE IF NOT EXISTS hosted_room_policy_publications (room_id TEXT, task_id TEXT, kind TEXT)")
    for name in names:
        world.execute("INSERT INTO hosted_room_policy_publications VALUES ('room', :name, 'turn.cancelled')", name=name)


def _cancelled_tasks(world: World, count: int) -> list[str]:
    names = [f"t{number}" for number in range(count)]
    for name in names:
        world.clock.advance(1)
        world.bring("cancelled", name)
    return names


def _left(world: World) -> list[str]:
    return sorted(view["identity"].task_id for view in driver.list_tasks(world.db, room_id="room"))


def test_pruning_without_publications_deletes_nothing(world: World) -> None:
    """Without the gateway's table nothing is known to be published."""
    _cancelled_tasks(world, 3)
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retain=0) == 0


def test_pruning_keeps_what_is_not_published(world: World) -> None:
    """Only ended tasks whose outcome is published go, and another kind of publication does not count."""
    _cancelled_tasks(world, 3)
    world.admit("waiting")
    _publish(world, "t1", "waiting")
    world.execute("INSERT INTO hosted_room_policy_publications VALUES ('room', 't2', 'turn.started')")
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retain=0) == 1
    assert _left(world) == ["t0", "t2", "waiting"]


def test_pruning_keeps_the_newest(world: World) -> None:
    """Beyond the newest `retain` the oldest go, however young."""
    _publish(world, *_cancelled_tasks(world, 5))
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retain=2) == 3
    assert _left(world) == ["t3", "t4"]


def test_pruning_ends_the_retention_exactly(world: World) -> None:
    """A task goes at the instant at which its retention is over, and not before."""
    _publish(world, *_cancelled_tasks(world, 1))
    world.clock.advance(DAY - 0.001)
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retention_seconds=DAY) == 0
    world.clock.advance(0.001)
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retention_seconds=DAY) == 1


def test_pruning_takes_the_oldest_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more are due than one call deletes, the oldest go first, so that none stays for ever."""
    monkeypatch.setattr("fsm.driver.reading.MAX_TASK_PRUNE_BATCH", 2)
    _publish(world, *_cancelled_tasks(world, 5))
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retain=0) == 2
    assert _left(world) == ["t2", "t3", "t4"]
    assert [driver.prune_published_terminal_tasks(world.db, room_id="room", retain=0) for _ in range(3)] == [2, 1, 0]


def test_a_damaged_task_is_pruned(world: World) -> None:
    """Damage does not keep an ended and published task for ever."""
    _publish(world, *_cancelled_tasks(world, 1))
    world.execute("UPDATE hosted_room_driver_tasks SET payload_json = '{'")
    assert driver.prune_published_terminal_tasks(world.db, room_id="room", retain=0) == 1
