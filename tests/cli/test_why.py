"""`fsm why`: what a trigger would come to, without firing it."""

import json
import time
from functools import partial

import pytest

from fsm.driver import (
    begin_task_cancel,
    cancel_task,
    list_tasks,
    recover_room,
    release_lease,
    settle_task,
    start_task,
)
from fsm.errors import LifecycleError
from fsm.lifecycles import DRIVER_TASK
from tests.cli.operator import T1, Asked, fsm_here
from tests.cli.processes import ROOM, Room

TRIGGERS = [trigger.name for trigger in DRIVER_TASK.triggers]


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


def in_state(room: Room, state: str) -> None:
    """Bring a new task t1 into a state; the test holds the lease where the state needs one."""
    (identity,) = room.admit("secret prompt")
    if state in {"indeterminate", "deferred"}:
        room.lose(identity)
    elif state != "queued":
        lease = room.lease()
        attempt = room.start(identity, lease)
        if state == "settled":
            settle_task(room.db, attempt, settlement_id="s1", status=state, result={})
        elif state == "stopping":
            begin_task_cancel(room.db, identity, cancel_id="c1", expected_cancel_generation=0)


def test_what_would_go_through_is_said_step_by_step_up_to_the_write(room: Room, ask: Asked) -> None:
    """Exit 0; the holder of the lease is the one who asks, and nothing has been fired."""
    room.admit("work")
    lease = room.lease()
    told = ask("why", room.location, T1, "start")
    lines = told.out.splitlines()
    assert (told.code, told.err, room.states()) == (0, "", ["queued"])
    assert f"process {lease.process_generation} of gateway" in lines[1]
    assert lines[-1].split() == ["holds", "Write:", "queued", "->", "running"]
    assert [line.split()[0] for line in lines[2:]] == ["holds"] * (len(lines) - 2)


def test_the_refusing_step_is_the_last_and_says_what_would_have_to_hold(room: Room, ask: Asked) -> None:
    """Exit 1 with one line on standard error; the findings are the answer."""
    room.admit("first", "second")
    lease = room.lease()
    told = ask("why", room.location, f"{ROOM}/t2", "start", "--json")
    answer = json.loads(told.out)
    assert (told.is_refusal(), answer["accepted"], answer["asked_by"]["process_generation"]) == (
        True,
        False,
        lease.process_generation,
    )
    assert [each["verdict"] for each in answer["steps"]][-2:] == ["holds", "refuses"]
    assert (answer["steps"][-1]["step"], answer["steps"][-1]["error"]) == ("Look head", "InvalidTaskTransitionError")
    assert "start the room's tasks in the order" in answer["steps"][-1]["said"]


def test_a_room_without_a_lease_is_said_to_have_none(room: Room, ask: Asked) -> None:
    """The room's own gateway asks, without a lease: what needs one is refused there, what needs none is not."""
    room.admit("work")
    start, cancel = (ask("why", room.location, T1, trigger) for trigger in ("start", "cancel"))
    assert ("the room has none" in start.out, start.is_refusal(), "Authority lease" in start.err) == (True,) * 3
    assert ("the room has none" in cancel.out, cancel.code) == (True, 0)
    assert json.loads(ask("why", room.location, T1, "cancel", "--json").out)["asked_by"] is None


@pytest.mark.parametrize("ended", ["released", "expired"])
def test_a_lease_that_has_ended_refuses(room: Room, ask: Asked, ended: str) -> None:
    """Its holder would be refused, whoever it was."""
    room.admit("work")
    lease = room.lease(ttl=30 if ended == "released" else 0.01)
    if ended == "released":
        release_lease(room.db, lease)
    time.sleep(0.02)
    told = ask("why", room.location, T1, "start")
    assert (told.is_refusal(), "StaleLeaseError at Authority lease" in told.err or "StaleLeaseError" in told.out) == (
        True,
        True,
    )


def test_a_damaged_payload_refuses_where_the_library_would(room: Room, ask: Asked) -> None:
    """The step that is the operation's own code is judged too, since it only reads."""
    (identity,) = room.admit("work")
    lease = room.lease()
    room.damage(identity)
    told = ask("why", room.location, T1, "start", "--json")
    last = json.loads(told.out)["steps"][-1]
    with pytest.raises(LifecycleError) as refused:
        start_task(room.db, identity, lease, expected_cancel_generation=0)
    assert (told.is_refusal(), last["step"], last["error"]) == (True, "Do read_payload", type(refused.value).__name__)


@pytest.mark.parametrize("state", ["queued", "running", "settled", "indeterminate", "stopping"])
def test_every_trigger_is_judged_in_every_state_and_nothing_is_written(room: Room, ask: Asked, state: str) -> None:
    """Whatever is asked: exit 0 or 1, the refusing step last, no prompt, no traceback."""
    in_state(room, state)
    before = list_tasks(room.db, room_id=ROOM)
    for trigger in TRIGGERS:
        told = ask("why", room.location, T1, trigger, "--json")
        answer = json.loads(told.out)
        verdicts = [each["verdict"] for each in answer["steps"]]
        assert told.code == (0 if answer["accepted"] else 1)
        assert "refuses" not in verdicts[:-1]
        assert (verdicts[-1] == "refuses") == (told.code == 1)
        assert (told.code == 0 or told.is_refusal(), "secret" in told.out + told.err) == (True, False)
    assert list_tasks(room.db, room_id=ROOM) == before


@pytest.mark.parametrize("state", ["queued", "running", "settled", "indeterminate", "stopping"])
@pytest.mark.parametrize(("trigger", "call"), [("cancel", cancel_task), ("begin_cancel", begin_task_cancel)])
def test_what_is_foretold_is_what_the_library_then_does(
    room: Room, ask: Asked, state: str, trigger: str, call: object
) -> None:
    """Accepted or refused, and with the same class of error: asked with a new cancel id, as a caller would."""
    in_state(room, state)
    answer = json.loads(ask("why", room.location, T1, trigger, "--json").out)
    task = room.task()
    raised = ""
    try:
        assert callable(call)
        call(room.db, task["identity"], cancel_id="new", expected_cancel_generation=task["cancel_generation"])
    except LifecycleError as error:
        raised = type(error).__name__
    assert (answer["accepted"], answer["steps"][-1]["error"]) == (not raised, raised)


def test_a_sweep_is_judged_for_the_one_task(room: Room, ask: Asked) -> None:
    """`lose` takes what runs under another lease, and leaves alone what runs under this one."""
    (identity,) = room.admit("work")
    room.start(identity, room.lease(ttl=0.05))
    time.sleep(0.1)
    room.lease(process="the-next")
    assert ask("why", room.location, T1, "lose").code == 0
    recover_room(room.db, room.lease(process="the-next"))
    told = ask("why", room.location, T1, "lose")
    assert (told.is_refusal(), "found state indeterminate" in told.out) == (True, True)


def test_pruning_is_refused_where_nothing_is_known_to_be_published(room: Room, ask: Asked) -> None:
    """Without the gateway's own table that is said in so many words; with it, by what it holds."""
    in_state(room, "settled")
    without = ask("why", room.location, T1, "prune")
    columns = "room_id TEXT NOT NULL, task_id TEXT NOT NULL, kind TEXT NOT NULL"
    room.spoil(f"CREATE TABLE hosted_room_policy_publications ({columns})")
    unpublished = ask("why", room.location, T1, "prune")
    room.spoil(f"INSERT INTO hosted_room_policy_publications VALUES ('{ROOM}', 't1', 'turn.settled')")
    published = ask("why", room.location, T1, "prune")
    assert (without.is_refusal(), "no table hosted_room_policy_publications" in without.out) == (True, True)
    assert (unpublished.is_refusal(), "publish the outcome" in unpublished.out, published.code) == (True, True, 0)


def test_a_row_that_no_declaration_knows_is_refused_by_name_and_without_a_traceback(room: Room, ask: Asked) -> None:
    """A state that was stored past the library leads nowhere."""
    in_state(room, "queued")
    room.lease()
    room.spoil("UPDATE hosted_room_driver_tasks SET status = 'weird'")
    for trigger in TRIGGERS:
        told = ask("why", room.location, T1, trigger)
        assert (told.code == 0 or told.is_refusal(), "weird" in told.out.splitlines()[0]) == (True, True)


@pytest.mark.parametrize(
    ("record", "trigger", "code"),
    [(f"{ROOM}/none", "start", 1), ("none/t1", "start", 1), (ROOM, "start", 2), (T1, "nonsense", 2)],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    room: Room, ask: Asked, record: str, trigger: str, code: int
) -> None:
    """No such task: 1; no such trigger, which lists the known ones, and no record's name: 2."""
    room.admit("work")
    refused = ask("why", room.location, record, trigger)
    assert refused.is_refusal(code)
    assert trigger == "start" or "begin_cancel" in refused.err
