"""Rows that damage or an older gateway left: what can be shown is shown, what must be refused is refused by class."""

import hashlib
import json

import pytest

from fsm import driver
from fsm.driver import DriverStateError, StaleLeaseError, TaskConflictError
from tests.world import World, identity

GENERATIONS = {"expected_execution_generation": 1, "expected_cancel_generation": 0}


def test_text_that_is_no_utf8_hides_no_other_task(world: World) -> None:
    """Bytes that are no text are damage of their own row alone: listed, recovered and cancelled like any other."""
    world.start("t1")
    world.admit("t2", 2)
    world.execute("UPDATE hosted_room_driver_tasks SET payload_json = CAST(x'ff' AS TEXT) WHERE task_id = 't1'")
    listed = {view["identity"].task_id: "corrupt" in view for view in driver.list_tasks(world.db, room_id="room")}
    assert listed == {"t1": True, "t2": False}
    with pytest.raises(TaskConflictError):
        driver.get_task(world.db, identity("t1"))
    assert driver.recover_room(world.db, world.take_over())["indeterminate"] == [identity("t1")]
    stopping = driver.begin_task_cancel(world.db, identity("t1"), cancel_id="c1", expected_cancel_generation=0)
    assert stopping["status"] == "stopping"
    cancelled = driver.complete_task_cancel(world.db, identity("t1"), cancel_id="c1", expected_cancel_generation=1)
    assert cancelled["status"] == "cancelled"


def test_what_an_older_gateway_admitted_is_not_damage(world: World) -> None:
    """A stored prompt is judged by its digest and form: one with NUL, which nobody may admit any more, still runs."""
    world.admit()
    stored = json.dumps(
        {"prompt": "say\0hello", "source_event_seq": 1, "target_profile": "helper"},
        sort_keys=True,
        separators=(",", ":"),
    )
    digest = hashlib.sha256(stored.encode()).hexdigest()
    world.execute(
        "UPDATE hosted_room_driver_tasks SET payload_json = :stored, payload_digest = :digest",
        stored=stored,
        digest=digest,
    )
    attempt = driver.start_task(world.db, identity(), world.lease, expected_cancel_generation=0)
    view = driver.settle_task(world.db, attempt, settlement_id="s1", status="settled", result=None)
    assert view["payload"] == {"prompt": "say\0hello", "source_event_seq": 1, "target_profile": "helper"}


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("expiry", ["'soon'", "''"])
def test_a_lease_whose_expiry_is_no_number_is_refused(world: World, expiry: str) -> None:
    """A lease with a text for its expiry is in no declared state; each call on it is refused by the module's errors."""
    attempt = world.start()
    world.execute(f"UPDATE hosted_room_driver_leases SET expires_at = {expiry}")
    for call in (
        lambda: driver.renew_lease(world.db, world.lease, ttl_seconds=60),
        lambda: driver.release_lease(world.db, world.lease),
        lambda: driver.recover_room(world.db, world.lease),
        lambda: driver.settle_task(world.db, attempt, settlement_id="s1", status="settled", result=None),
    ):
        with pytest.raises(StaleLeaseError):
            call()
    with pytest.raises(DriverStateError):
        world.acquire("p2")


@pytest.mark.parametrize("prompt", ["5", "null", "[]"])
def test_a_payload_whose_fields_are_of_other_types_is_damage(world: World, prompt: str) -> None:
    """A payload under its own digest whose fields are not those of a payload is refused."""
    world.admit()
    stored = f'{{"prompt":{prompt},"source_event_seq":1,"target_profile":"helper"}}'
    digest = hashlib.sha256(stored.encode()).hexdigest()
    world.execute(
        "UPDATE hosted_room_driver_tasks SET payload_json = :stored, payload_digest = :digest",
        stored=stored,
        digest=digest,
    )
    with pytest.raises(TaskConflictError, match="the form of a payload"):
        driver.get_task(world.db, identity())
