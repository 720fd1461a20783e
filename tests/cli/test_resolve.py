"""`fsm resolve`: a person decides about one uncertain task, and about nothing else."""

import json

import pytest

from fsm.driver import begin_task_cancel, release_lease, settle_task
from tests.cli.processes import ROOM, Room, is_one_line, run_fsm


def resolve(room: Room, *options: str, task: str = "t1") -> tuple[int, str, str]:
    """Resolve a task; return exit code, answer and errors."""
    done = run_fsm("resolve", room.location, "--room", ROOM, "--task", task, *options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("options", "state"),
    [
        (("--settled", "--result", "it did"), "settled"),
        (("--failed",), "failed"),
        (("--cancelled",), "cancelled"),
        (("--requeue",), "queued"),
        (("--defer", "later"), "deferred"),
    ],
)
def test_each_decision_about_an_uncertain_task_is_stored_and_told(
    room: Room, options: tuple[str, ...], state: str
) -> None:
    """The answer is what the database holds afterwards, and the lease is free again."""
    (identity,) = room.admit("work")
    room.lose(identity)
    code, answer, errors = resolve(room, *options)
    assert (code, errors) == (0, "")
    assert answer.startswith(f"task t1: {state} ")
    assert room.states() == [state]
    assert room.lease(process="the-next").lease_generation == 4


def test_the_result_of_a_settled_task_is_stored_and_shown_as_json(room: Room) -> None:
    """--result is kept as output, beside who said so."""
    (identity,) = room.admit("work")
    room.lose(identity)
    code, answer, _ = resolve(room, "--settled", "--result", "it did", "--json")
    assert code == 0
    assert json.loads(answer)["result"] == {"resolved_by": "operator", "stdout": "it did"}


def test_a_deferred_task_can_be_requeued_but_not_settled(room: Room) -> None:
    """Deferring is for now; requeueing brings it back."""
    (identity,) = room.admit("work")
    room.lose(identity)
    resolve(room, "--defer", "later")
    code, _, errors = resolve(room, "--settled")
    assert code == 1
    assert is_one_line(errors)
    assert resolve(room, "--requeue")[0] == 0
    assert room.states() == ["queued"]


def test_a_task_whose_driver_is_gone_is_recovered_first(room: Room) -> None:
    """No other driver has to come by: an expired lease makes its running task uncertain, and then it is resolved."""
    (identity,) = room.admit("work")
    room.start(identity, room.lease(ttl=0.05))
    code, answer, _ = resolve(room, "--failed")
    assert (code, answer.startswith("task t1: failed ")) == (0, True)


@pytest.mark.parametrize(("option", "state"), [("--cancelled", "cancelled"), ("--settled", "settled")])
def test_a_stop_that_nobody_can_acknowledge_any_more_is_resolved_too(room: Room, option: str, state: str) -> None:
    """A driver died between a stop request and its acknowledgement: a person says whether it stopped or ended."""
    (identity,) = room.admit("work")
    room.start(identity, room.lease(ttl=0.05))
    begin_task_cancel(room.db, identity, cancel_id="stop-1", expected_cancel_generation=0)
    assert resolve(room, option)[0] == 0
    assert (room.states(), room.task()["cancel_id"]) == ([state], "stop-1")


def test_events_tell_each_transition_of_a_resolution(room: Room) -> None:
    """One JSON line for the lease, the decision, and the lease again."""
    (identity,) = room.admit("work")
    room.lose(identity)
    code, answer, _ = resolve(room, "--requeue", "--events")
    told = [json.loads(line) for line in answer.splitlines()]
    assert code == 0
    assert [(each["lifecycle"], each["trigger"]) for each in told] == [
        ("driver_lease", "acquire"),
        ("driver_task", "requeue"),
        ("driver_lease", "release"),
    ]


def test_a_task_that_is_not_uncertain_is_left_alone(room: Room) -> None:
    """Queued, settled, unknown: exit 1 with one line, nothing changes, and the lease is free again."""
    first, _ = room.admit("done", "queued")
    lease = room.lease()
    settle_task(room.db, room.start(first, lease), settlement_id="s1", status="settled", result={})
    before = room.tasks()
    held = resolve(room, "--requeue", "--wait", "0.2", task="t2")
    release_lease(room.db, lease)
    for refused in (
        held,
        resolve(room, "--requeue"),
        resolve(room, "--failed", task="t2"),
        resolve(room, "--requeue", task="t9"),
    ):
        assert refused[:2] == (1, "")
        assert is_one_line(refused[2])
    assert room.tasks() == before
    assert room.lease(process="the-next").lease_generation >= 2
