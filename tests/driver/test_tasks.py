"""Tasks on their way: what the matrix of states cannot show."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fsm import driver, rooms, to_json
from fsm.driver import (
    DriverValidationError,
    InvalidTaskTransitionError,
    StaleLeaseError,
    StaleTaskError,
    TaskAttempt,
    TaskConflictError,
)
from tests.world import World, identity, other_lease, payload

SETTLEMENT: dict[str, Any] = {"settlement_id": "s1", "status": "failed", "result": {"n": 1}}


def test_tasks_run_in_the_order_of_their_events(world: World) -> None:
    """The event that asked for a task decides its turn: not its id, and not when it was admitted."""
    for name, sequence in (("a", 3), ("b", 1), ("c", 2)):
        world.admit(name, sequence)
    assert [task["identity"].task_id for task in driver.list_tasks(world.db, room_id="room")] == ["b", "c", "a"]
    with pytest.raises(InvalidTaskTransitionError):
        driver.start_task(world.db, identity("a"), world.lease, expected_cancel_generation=0)
    assert (
        driver.start_task(world.db, identity("b"), world.lease, expected_cancel_generation=0).execution_generation == 1
    )


@pytest.mark.parametrize("state", ["running", "indeterminate", "stopping"])
def test_unresolved_work_blocks_a_later_start(world: World, state: str) -> None:
    """While earlier work is running, uncertain or being stopped, nothing else starts in the room."""
    world.bring(state, "a")
    world.admit("b")
    with pytest.raises(InvalidTaskTransitionError, match="unresolved"):
        driver.start_task(world.db, identity("b"), world.lease, expected_cancel_generation=0)


@pytest.mark.parametrize("state", ["settled", "failed", "cancelled", "deferred"])
def test_resolved_work_lets_the_room_go_on(world: World, state: str) -> None:
    """Ended and deferred work does not hold up the room."""
    world.bring(state, "a")
    world.admit("b")
    assert driver.start_task(world.db, identity("b"), world.lease, expected_cancel_generation=0).identity == identity(
        "b"
    )


@pytest.mark.parametrize("status", ["settled", "failed"])
def test_a_settlement_stores_its_result(world: World, status: str) -> None:
    """A settlement stores its id, status and result, and a view shows them as JSON values."""
    view = driver.settle_task(
        world.db, world.start(), settlement_id=" s1 ", status=status, result={"text": "é", "n": [1, 2.5, None]}
    )
    assert (view["status"], view["settlement_id"], view["settlement_status"]) == (status, "s1", status)
    assert view["result"] == {"text": "é", "n": [1, 2.5, None]}
    assert driver.get_task(world.db, identity()) == {**view, "idempotent": False}
    assert to_json(view)["identity"] == {
        "room_id": "room",
        "task_id": "t1",
        "thread_id": "thread",
        "turn_id": "turn-t1",
    }
    stored = world.row() or {}
    assert stored["result_json"] == '{"n":[1,2.5,null],"text":"\\u00e9"}'


def test_a_settlement_replays_after_the_lease_moved_on(world: World) -> None:
    """An exact retry of a settlement succeeds under a lease that is long gone; anything else conflicts."""
    attempt = world.start()
    first = driver.settle_task(world.db, attempt, **SETTLEMENT)
    world.take_over()
    again = driver.settle_task(world.db, attempt, **SETTLEMENT)
    assert again == {**first, "idempotent": True}
    for change in ({"settlement_id": "s2"}, {"status": "settled"}, {"result": {"n": 2}}):
        with pytest.raises(TaskConflictError):
            driver.settle_task(world.db, attempt, **{**SETTLEMENT, **change})


def test_a_finish_is_fenced_by_the_run_and_not_by_the_state(world: World) -> None:
    """A driver taken for dead cannot settle the run of its successor, though the task is running again."""
    older = world.lose()
    generations = {"expected_execution_generation": 1, "expected_cancel_generation": 0}
    driver.requeue_indeterminate_task(world.db, identity(), world.lease, **generations)  # type: ignore[arg-type] # two integers
    newer = driver.start_task(world.db, identity(), world.lease, expected_cancel_generation=0)
    assert newer.execution_generation == 2
    with pytest.raises(StaleLeaseError):
        driver.settle_task(world.db, older, **SETTLEMENT)
    with pytest.raises(StaleTaskError):
        driver.settle_task(world.db, TaskAttempt(identity(), world.lease, 1, 0), **SETTLEMENT)
    assert driver.settle_task(world.db, newer, **SETTLEMENT)["status"] == "failed"


@pytest.mark.parametrize("call", ["settle", "requeue"])
def test_a_finish_is_fenced_by_the_lease_that_began_the_run(world: World, call: str) -> None:
    """Who takes a room over may know the generations of the run that it found, and still cannot end it as its own."""
    world.start()
    found = TaskAttempt(identity(), world.take_over(), 1, 0)
    calls = {
        "settle": lambda: driver.settle_task(world.db, found, **SETTLEMENT),
        "requeue": lambda: driver.requeue_not_admitted_task(world.db, found),
    }
    before = world.row()
    with pytest.raises(StaleTaskError):
        calls[call]()
    assert world.row() == before


@pytest.mark.parametrize(
    ("column", "other"), [("run_gateway_id", "other"), ("run_process_generation", "other"), ("run_lease_generation", 9)]
)
@pytest.mark.parametrize(
    "call", [driver.requeue_not_admitted_task, partial(driver.settle_task, **SETTLEMENT)], ids=["requeue", "settle"]
)
def test_each_part_of_a_run_fences_its_end(
    world: World, call: Callable[[Any, TaskAttempt], object], column: str, other: object
) -> None:
    """A run that differs from the attempt's in one of gateway, process and lease is another run."""
    attempt = world.start()
    world.execute(f"UPDATE hosted_room_driver_tasks SET {column} = :other", other=other)
    before = world.row()
    with pytest.raises(StaleTaskError):
        call(world.db, attempt)
    assert world.row() == before


@pytest.mark.parametrize(
    ("column", "other"),
    [("gateway_id", "other"), ("authority_epoch", 9), ("process_generation", "other"), ("lease_generation", 9)],
)
def test_each_part_of_a_lease_fences_what_is_done_under_it(world: World, column: str, other: object) -> None:
    """A stored lease that differs from the caller's in one part is another's: no renewal, release, end or start."""
    attempt = world.start()
    world.execute(f"UPDATE hosted_room_driver_leases SET {column} = :other", other=other)
    before = world.everything()
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.renew_lease(world.db, world.lease, ttl_seconds=60),
        lambda: driver.release_lease(world.db, world.lease),
        lambda: driver.settle_task(world.db, attempt, **SETTLEMENT),
        lambda: driver.recover_room(world.db, world.lease),
    )
    for call in calls:
        with pytest.raises(StaleLeaseError):
            call()
    assert world.everything() == before


def test_an_expired_lease_settles_nothing(world: World) -> None:
    """A driver whose lease has expired cannot settle, even where nobody has taken over."""
    attempt = world.start()
    world.clock.now = world.lease.expires_at
    with pytest.raises(StaleLeaseError):
        driver.settle_task(world.db, attempt, **SETTLEMENT)


@pytest.mark.parametrize("call", ["settle", "settle_stopping"])
def test_a_lease_of_another_room_settles_nothing(world: World, call: str) -> None:
    """A lease of another room settles no task: it is refused here as everywhere else."""
    world.create_room("elsewhere")
    lease = world.acquire("p1", room="elsewhere")
    task = world.start().identity
    generations: dict[str, Any] = {"expected_execution_generation": 1, "expected_cancel_generation": 1}
    calls = {
        "settle": lambda: driver.settle_task(world.db, TaskAttempt(task, lease, 1, 0), **SETTLEMENT),
        "settle_stopping": lambda: driver.settle_stopping_task(world.db, task, lease, **generations, **SETTLEMENT),
    }
    with pytest.raises(DriverValidationError, match="one room"):
        calls[call]()


def test_a_stop_that_loses_the_race_is_settled(world: World) -> None:
    """A completion before the stop's acknowledgement wins; the acknowledgement is then stale."""
    attempt = world.start()
    driver.begin_task_cancel(world.db, attempt.identity, cancel_id="c1", expected_cancel_generation=0)
    with pytest.raises(StaleTaskError):
        driver.settle_task(world.db, attempt, **SETTLEMENT)
    view = driver.settle_stopping_task(
        world.db,
        attempt.identity,
        world.lease,
        expected_execution_generation=1,
        expected_cancel_generation=1,
        **SETTLEMENT,
    )
    assert view["status"] == "failed"
    with pytest.raises(StaleTaskError):
        driver.complete_task_cancel(world.db, attempt.identity, cancel_id="c1", expected_cancel_generation=1)


def test_a_stopping_settlement_needs_a_stop(world: World) -> None:
    """A cancel generation below one cannot be that of a stopping task."""
    with pytest.raises(DriverValidationError, match="at least 1"):
        driver.settle_stopping_task(
            world.db,
            identity(),
            world.lease,
            expected_execution_generation=1,
            expected_cancel_generation=0,
            **SETTLEMENT,
        )


def test_a_bool_is_taken_for_a_cancel_generation(world: World) -> None:
    """Existing callers pass False and True for the generations 0 and 1, and nowhere else."""
    attempt = driver.start_task(world.db, world.admit(), world.lease, expected_cancel_generation=False)
    assert attempt.cancel_generation == 0
    assert type(attempt.cancel_generation) is int
    driver.begin_task_cancel(world.db, identity(), cancel_id="c1", expected_cancel_generation=False)
    view = driver.complete_task_cancel(world.db, identity(), cancel_id="c1", expected_cancel_generation=True)
    assert view["status"] == "cancelled"


def test_a_retry_with_the_same_meaning_is_the_same_payload(world: World) -> None:
    """The order of a payload's keys and blanks around identifiers do not make it another payload."""
    task = world.admit()
    turned = {"source_event_seq": 1, "prompt": "say hello", "target_profile": " helper "}
    assert driver.admit_task(world.db, task, payload=turned)["idempotent"] is True
    with pytest.raises(TaskConflictError):
        driver.admit_task(world.db, task, payload={**payload(), "target_member_id": "m1"})


def test_a_turn_has_one_task(world: World) -> None:
    """A thread and turn that have a task cannot get another under a new task id."""
    world.admit("t1")
    twin = driver.TaskIdentity("room", "t2", "thread", "turn-t1")
    with pytest.raises(TaskConflictError, match="another task_id"):
        driver.admit_task(world.db, twin, payload=payload())


def test_a_prompt_at_its_limit_is_taken(world: World) -> None:
    """A prompt of exactly 128 KiB of UTF-8 is admitted, whatever its characters cost when escaped."""
    prompt = "é" * (64 * 1024)
    assert driver.admit_task(world.db, identity(), payload=payload(prompt=prompt))["payload"]["prompt"] == prompt  # type: ignore[index] # it is whole


def test_a_lost_start_is_learnt_from_the_task(world: World) -> None:
    """Starting never replays; the stored row tells whether this very lease runs the task."""
    attempt = world.start()
    with pytest.raises(InvalidTaskTransitionError):
        driver.start_task(world.db, attempt.identity, world.lease, expected_cancel_generation=0)
    view = driver.get_task(world.db, attempt.identity)
    run = (view["run_gateway_id"], view["run_process_generation"], view["run_lease_generation"])
    assert view["status"] == "running"
    assert run == (world.lease.gateway_id, world.lease.process_generation, world.lease.lease_generation)
    assert (
        TaskAttempt(attempt.identity, world.lease, view["execution_generation"], view["cancel_generation"]) == attempt
    )


def test_a_lease_field_that_was_changed_is_no_lease(world: World) -> None:
    """A lease with any part of its identity changed starts nothing."""
    world.admit()
    for change in (
        {"gateway_id": "gw9"},
        {"authority_epoch": 2},
        {"process_generation": "p9"},
        {"lease_generation": 2},
    ):
        with pytest.raises(StaleLeaseError):
            driver.start_task(world.db, identity(), other_lease(world.lease, **change), expected_cancel_generation=0)


def test_process_generations_are_never_alike() -> None:
    """Each process start gets a name of its own, which is an identifier."""
    names = {driver.new_process_generation() for _ in range(100)}
    assert len(names) == 100
    assert all(driver.TaskIdentity(name, "t", "h", "u").room_id == name for name in names)


def test_a_disbanded_room_takes_no_task(world: World) -> None:
    """Nothing is admitted to a room that was disbanded, or that never was."""
    rooms.disband_room(world.db, room_id="room", expected_gateway_id="gw", expected_epoch=1)
    for task in (identity(), identity(room="nowhere")):
        with pytest.raises(driver.RoomUnavailableError):
            driver.admit_task(world.db, task, payload=payload())
