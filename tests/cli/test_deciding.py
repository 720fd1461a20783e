"""`fsm requeue`, `fsm defer` and `fsm cancel`: the operator decides, is asked first, and is told what happened."""

import json
import threading
import time
from collections.abc import Callable

import pytest

from fsm.cli import cancelling, requeueing
from fsm.cli.decisions import run_again
from fsm.cli.refusal import CommandRefusedError
from fsm.driver import (
    TaskIdentity,
    cancel_task,
    complete_task_cancel,
    settle_stopping_task,
    settle_task,
)
from fsm.lifecycles.driver_task import INDETERMINATE
from tests.cli.operator import Answer, at_a_terminal, fsm_here
from tests.cli.processes import ROOM, Room, driving, eventually, run_fsm
from tests.engines import Engine

Decide = Callable[..., Answer]


@pytest.fixture
def room(engine: Engine) -> Room:
    """A live room whose handle is opened anew after each command that this process runs on its database."""
    return Room.make(engine)


@pytest.fixture
def decide(room: Room, capfd: pytest.CaptureFixture[str]) -> Decide:
    """One of the deciding commands on a task of the room, in this process."""

    def run(command: str, *options: str, task: str = "t1", yes: bool = True) -> Answer:
        room.db.close()
        answer = fsm_here(capfd, *_arguments(room, command, *options, task=task, yes=yes))
        object.__setattr__(room, "db", room.engine.open(room.location))
        return answer

    return run


def decide_apart(room: Room, command: str, *options: str) -> Answer:
    """Run one of the deciding commands on the task t1 in a process of its own."""
    done = run_fsm(*_arguments(room, command, *options, task="t1", yes=True))
    return Answer(done.returncode, done.stdout, done.stderr)


def _arguments(room: Room, command: str, *options: str, task: str, yes: bool) -> list[str]:
    return [command, room.location, "--room", ROOM, "--task", task, *options, *(["--yes"] if yes else [])]


def stopping(room: Room) -> TaskIdentity:
    """Wait until a stop has been asked for, and return the task that it is for."""
    eventually(lambda: room.states() == ["stopping"])
    return room.task()["identity"]


# --- requeue and defer


def test_an_uncertain_task_is_deferred_and_requeued_under_a_lease_of_the_command_itself(
    room: Room, decide: Decide
) -> None:
    """Each answer is what is stored, the room's recovery is part of it, and the lease is free again."""
    (identity,) = room.admit("work")
    room.start(identity, room.lease(ttl=0.05))
    time.sleep(0.1)
    deferred = decide("defer", "--reason", "later")
    requeued = decide("requeue", "--json")
    assert (deferred.code, deferred.err, deferred.out.startswith("task t1: deferred ")) == (0, "", True)
    assert (requeued.code, json.loads(requeued.out)["status"], room.states()) == (0, "queued", ["queued"])
    assert room.lease(process="the-next").lease_generation == 4


def test_events_tell_each_transition_of_a_decision(room: Room, decide: Decide) -> None:
    """One JSON line for the lease, the decision, and the lease again."""
    (identity,) = room.admit("work")
    room.lose(identity)
    told = [json.loads(line) for line in decide("requeue", "--events").out.splitlines()]
    assert [each["trigger"] for each in told] == ["acquire", "requeue", "release"]


def test_what_cannot_be_decided_so_is_refused_and_stays(room: Room, decide: Decide) -> None:
    """Queued, ended, unknown, held by a driver, damaged: exit 1, one line, nothing moves."""
    done, _ = room.admit("done", "queued")
    lease = room.lease()
    settle_task(room.db, room.start(done, lease), settlement_id="s1", status="settled", result={})
    before = room.tasks()
    for task in ("t1", "t2", "t9"):
        assert decide("requeue", task=task).is_refusal()
    assert decide("defer", "--reason", "x", task="t2").is_refusal()
    assert room.tasks() == before


def test_a_task_whose_driver_lives_is_not_taken_from_it(room: Room, decide: Decide) -> None:
    """The lease is waited for, then the command gives up; the run goes on."""
    (identity,) = room.admit("work")
    room.start(identity, room.lease())
    refused = decide("requeue", "--wait", "0.2")
    assert (refused.is_refusal(), room.states()) == (True, ["running"])


def test_a_damaged_task_is_not_requeued(room: Room, decide: Decide) -> None:
    """It would be refused at its start: cancelling it is what remains."""
    (identity,) = room.admit("work")
    room.lose(identity)
    room.damage(identity)
    assert (decide("requeue").is_refusal(), decide("defer", "--reason", "x").is_refusal()) == (True, True)
    assert room.states() == ["indeterminate"]


# --- cancel: what has not begun


def test_a_waiting_task_is_cancelled_at_once_and_once(room: Room, decide: Decide) -> None:
    """The same cancel id again answers the same and changes nothing; another id finds that it has ended."""
    room.admit("work")
    first = decide("cancel", "--cancel-id", "c1")
    stored = room.task()
    again = decide("cancel", "--cancel-id", "c1", "--json")
    other = decide("cancel")
    assert (first.code, first.out.startswith("task t1: cancelled ")) == (0, True)
    assert (again.code, json.loads(again.out)["cancel_id"], room.task() == stored) == (0, "c1", True)
    assert (other.is_refusal(), "has ended" in other.err) == (True, True)


def test_a_damaged_task_can_be_cancelled(room: Room, decide: Decide) -> None:
    """It is the way out of the queue that it blocks; its view says `corrupt`."""
    (identity,) = room.admit("work")
    room.damage(identity)
    done = decide("cancel", "--json")
    assert (done.code, json.loads(done.out)["status"], "corrupt" in json.loads(done.out)) == (0, "cancelled", True)


def test_a_task_that_begins_while_the_question_is_answered_is_asked_to_stop(room: Room) -> None:
    """It was shown as queued; it is to be cancelled all the same, in the way that its state needs."""
    (identity,) = room.admit("work")
    wanted = cancelling._Cancel(room.db, room.task(), "c1", 0.01)
    room.start(identity, room.lease())
    assert cancelling._cancelled(wanted)["status"] == "stopping"


def test_a_cancel_that_another_party_made_meanwhile_is_not_passed_over(room: Room) -> None:
    """The cancel generation that was shown is the one that is fenced; who cancelled is told."""
    (identity,) = room.admit("work")
    wanted = cancelling._Cancel(room.db, room.task(), "mine", 0.01)
    cancel_task(room.db, identity, cancel_id="theirs", expected_cancel_generation=0)
    assert cancelling._cancelled(wanted)["cancel_id"] == "theirs"


# --- cancel: what may be at work


def test_a_running_task_is_stopped_by_its_driver_and_the_command_waits_for_that(room: Room) -> None:
    """The driver terminates the command and acknowledges: only then is it said to be cancelled."""
    room.admit("work")
    with driving(room, "--drain", command=("sleep", "60")) as driver:
        driver.spawned()
        done = decide_apart(room, "cancel")
        assert driver.ended()[0] == 0
    assert (done.code, done.err, done.out.startswith("task t1: cancelled ")) == (0, "", True)


def test_a_completion_that_wins_the_race_is_told_as_what_happened(room: Room) -> None:
    """Exit 1: it is not cancelled. --json shows the outcome that it kept."""
    (identity,) = room.admit("work")
    lease = room.lease()
    attempt = room.start(identity, lease)
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(decide_apart(room, "cancel", "--json")))
    asking.start()
    settle_stopping_task(
        room.db,
        stopping(room),
        lease,
        expected_execution_generation=attempt.execution_generation,
        expected_cancel_generation=1,
        settlement_id="s1",
        status="failed",
        result={},
    )
    asking.join()
    (told,) = answers
    assert (told.is_refusal(), "failed" in told.err, json.loads(told.out)["status"]) == (True, True, "failed")


def test_at_the_deadline_the_request_stands_and_the_same_cancel_waits_on(room: Room, decide: Decide) -> None:
    """Exit 1 with one line that says how to go on; the repeat asks nothing twice and finds the acknowledgement."""
    (identity,) = room.admit("work")
    room.start(identity, room.lease())
    late = decide("cancel", "--cancel-id", "c1", "--wait", "0.2")
    assert (late.is_refusal(), "--cancel-id c1" in late.err, room.states()) == (True, True, ["stopping"])
    assert decide("cancel").is_refusal()
    complete_task_cancel(room.db, identity, cancel_id="c1", expected_cancel_generation=1)
    repeated = decide("cancel", "--cancel-id", "c1")
    assert (repeated.code, room.states(), room.task()["cancel_generation"]) == (0, ["cancelled"], 1)


def test_an_uncertain_task_is_asked_to_stop_too(room: Room, decide: Decide) -> None:
    """Nobody may be there to acknowledge it: then the deadline says so."""
    (identity,) = room.admit("work")
    room.lose(identity)
    assert (decide("cancel", "--wait", "0.1").is_refusal(), room.states()) == (True, ["stopping"])


# --- the question


@pytest.mark.parametrize("command", [("requeue",), ("defer", "--reason", "x"), ("cancel",)])
def test_without_a_terminal_and_without_yes_nothing_is_asked_and_nothing_changes(
    room: Room, decide: Decide, command: tuple[str, ...]
) -> None:
    """Exit 2, one line; a script that forgot --yes must not hang or guess."""
    (identity,) = room.admit("work")
    room.lose(identity)
    refused = decide(*command, yes=False)
    assert (refused.is_refusal(2), "--yes" in refused.err, room.states()) == (True, True, ["indeterminate"])


@pytest.mark.parametrize(
    ("typed", "code", "state"),
    [("y\n", 0, "queued"), ("n\n", 1, "indeterminate"), ("\n", 1, "indeterminate"), ("\x04", 130, "indeterminate")],
)
def test_at_a_terminal_the_row_is_shown_and_a_yes_is_needed(room: Room, typed: str, code: int, state: str) -> None:
    """State and generations come before the question, the prompt never does; anything but yes leaves it alone."""
    (identity,) = room.admit("secret prompt")
    room.lose(identity)
    ended, told = at_a_terminal("requeue", room.location, "--room", ROOM, "--task", "t1", typed=typed)
    assert (ended, room.states()) == (code, [state])
    assert ("indeterminate" in told, "execution 1, cancel 0" in told, "secret" in told) == (True, True, False)
    assert "Traceback" not in told


def test_a_row_that_moved_on_while_the_question_was_asked_is_left_alone(room: Room) -> None:
    """Lost, run again and lost again: the state is the same, and the decision was about another run."""
    (identity,) = room.admit("work")
    room.lose(identity)
    shown = room.task()
    decision = requeueing._Decision(run_again, (INDETERMINATE,), "?")
    requeueing._decided(room.db, shown, decision, 1.0)
    room.lose(identity)
    with pytest.raises(CommandRefusedError, match="moved on"):
        requeueing._decided(room.db, shown, decision, 1.0)
    assert (room.states(), room.task()["execution_generation"]) == (["indeterminate"], 2)
