"""`fsm drive`: a driver takes every task once, in order, and what became of it is stored or left to recovery."""

import os
import signal
import subprocess
import time
from pathlib import Path

from fsm.driver import begin_task_cancel, cancel_task
from fsm.lifecycles.limits import MAX_PROMPT_BYTES, MAX_RESULT_JSON_BYTES
from fsm.rooms import claim_authority
from tests.cli.processes import (
    FSM,
    GATEWAY,
    PATIENCE,
    ROOM,
    Room,
    driving,
    environment,
    eventually,
    is_alive,
    is_one_line,
    run_fsm,
)

ANSWER = (
    "sh",
    "-c",
    'read -r line; echo "$FSM_ROOM_ID $FSM_TASK_ID $FSM_THREAD_ID $FSM_TURN_ID $FSM_EXECUTION_GENERATION $line"',
)
FOR_EVER = ("sh", "-c", "sleep 60 & sleep 60")
SECOND = ("sleep", "1")


def test_a_draining_driver_runs_every_task_in_order_with_its_prompt_and_its_identity_and_ends(room: Room) -> None:
    """Draining ends with 0 when nothing is left; the command got the prompt on stdin and the ids in its environment."""
    room.admit("one", "two", "three")
    with driving(room, "--drain", command=ANSWER) as driver:
        assert driver.ended() == (0, "")
        driver.wait_for(trigger="release")
    assert [task["result"] for task in room.tasks()] == [
        {"exit_code": 0, "stdout": f"room t{n} thread turn{n} 1 {prompt}\n", "truncated": False}
        for n, prompt in enumerate(("one", "two", "three"), start=1)
    ]
    started = [each["key"]["task_id"] for each in driver.told if each.get("trigger") == "start"]
    assert started == ["t1", "t2", "t3"]


def test_the_exit_code_of_the_command_decides_between_settled_and_failed(room: Room) -> None:
    """0 settles, anything else fails, a signal too; a failure does not stop the queue."""
    room.admit("exit 0", "exit 7", "kill -9 $$", "exit 0")
    with driving(room, "--drain", command=("sh",)) as driver:
        assert driver.ended() == (0, "")
    assert room.states() == ["settled", "failed", "failed", "settled"]
    assert [task["result"]["exit_code"] for task in room.tasks()] == [0, 7, -9, 0]  # type: ignore[index]  # a result is any JSON value


def test_the_largest_prompt_and_a_far_larger_output_neither_block_nor_break_the_limit(room: Room) -> None:
    """A command may write before it reads; what is stored stays within the limit, with NUL replaced, and says so."""
    room.admit("x" * MAX_PROMPT_BYTES)
    with driving(room, "--drain", command=("sh", "-c", "head -c 3000000 /dev/zero; wc -c >&2; cat")) as driver:
        code, errors = driver.ended()
    result = room.task()["result"]
    assert (code, errors.strip()) == (0, str(MAX_PROMPT_BYTES))
    assert isinstance(result, dict)
    assert result["truncated"] is True
    assert set(result["stdout"]) == {"\N{REPLACEMENT CHARACTER}"}
    assert len(result["stdout"]) > MAX_RESULT_JSON_BYTES // 7


def test_a_stop_request_terminates_the_command_with_all_its_children_and_is_acknowledged(room: Room) -> None:
    """Stopping becomes cancelled under the stored cancel id, and nothing of the process group is left."""
    (identity,) = room.admit("work")
    with driving(room, "--drain", command=FOR_EVER) as driver:
        group = driver.spawned()
        begin_task_cancel(room.db, identity, cancel_id="stop-1", expected_cancel_generation=0)
        assert driver.ended() == (0, "")
        assert not is_alive(group)
    task = room.task()
    assert (task["status"], task["cancel_id"], task["cancel_generation"]) == ("cancelled", "stop-1", 1)


def test_a_command_that_ignores_termination_is_killed_after_its_grace(room: Room) -> None:
    """SIGTERM first, SIGKILL after the grace; only then is the stop acknowledged."""
    (identity,) = room.admit("work")
    stubborn = ("sh", "-c", "trap '' TERM; echo ready >&2; while :; do sleep 0.05; done")
    with driving(room, "--drain", "--grace", "0.3", command=stubborn) as driver:
        group = driver.spawned()
        time.sleep(0.2)
        began = time.monotonic()
        begin_task_cancel(room.db, identity, cancel_id="stop-1", expected_cancel_generation=0)
        assert driver.ended()[0] == 0
        assert time.monotonic() - began >= 0.3
        assert not is_alive(group)
    assert room.states() == ["cancelled"]


def test_a_completion_that_wins_the_race_with_a_stop_is_settled(room: Room) -> None:
    """The command ended by itself before the driver saw the stop: its outcome counts, and the next task runs."""
    first, _ = room.admit("work", "more")
    with driving(room, "--drain", "--poll", "2", command=("sleep", "0.7")) as driver:
        driver.spawned()
        begin_task_cancel(room.db, first, cancel_id="stop-1", expected_cancel_generation=0)
        assert driver.ended() == (0, "")
        driver.wait_for(trigger="settle_stopping", dest="settled")
    assert room.states() == ["settled", "settled"]
    assert room.task()["cancel_generation"] == 1


def test_the_first_signal_lets_the_running_task_end_takes_no_other_and_releases_the_lease(room: Room) -> None:
    """After SIGTERM the driver ends with 0, and whoever comes next has the lease at once."""
    room.admit("work", "never")
    with driving(room, command=SECOND) as driver:
        driver.spawned()
        driver.signal(signal.SIGTERM)
        assert driver.ended() == (0, "")
    assert room.states() == ["settled", "queued"]
    assert room.lease().lease_generation == 2


def test_an_idle_or_waiting_driver_ends_at_the_first_signal(room: Room) -> None:
    """With nothing to do, and with nothing but a lease to wait for, SIGINT ends a driver with 0."""
    with driving(room, command=ANSWER) as holder:
        holder.wait_for(trigger="acquire")
        with driving(room, command=ANSWER) as waiting:
            waiting.wait_for(notice="waiting")
            for each in (waiting, holder):
                each.signal(signal.SIGINT)
                assert each.ended() == (0, "")


def test_the_second_signal_terminates_the_command_and_leaves_the_task_to_recovery(room: Room) -> None:
    """Nobody knows how far it came: it stays running under a lease that expires, and the driver ends with 1."""
    room.admit("work")
    with driving(room, command=FOR_EVER) as driver:
        group = driver.spawned()
        driver.signal(signal.SIGTERM)
        time.sleep(0.2)
        driver.signal(signal.SIGTERM)
        code, errors = driver.ended()
        assert not is_alive(group)
    assert code == 1
    assert is_one_line(errors)
    assert room.states() == ["running"]


def test_a_command_that_cannot_be_started_leaves_its_task_queued_and_the_lease_free(room: Room) -> None:
    """It provably never began, so it may simply run again, under a new execution generation."""
    room.admit("secret prompt")
    with driving(room, command=("/no/such/command",)) as driver:
        code, errors = driver.ended()
    assert code == 1
    assert is_one_line(errors)
    assert "secret" not in errors
    assert (room.states(), room.task()["execution_generation"]) == (["queued"], 1)
    assert room.lease().lease_generation == 2


def test_a_task_may_take_longer_than_the_lease_which_is_renewed_meanwhile(room: Room) -> None:
    """One term covers it, however short its time is."""
    room.admit("work")
    with driving(room, "--ttl", "0.6", "--drain", command=("sleep", "1.2")) as driver:
        assert driver.ended() == (0, "")
        driver.wait_for(trigger="renew")
    assert (room.states(), room.task()["run_lease_generation"]) == (["settled"], 1)


def test_a_driver_that_lost_its_lease_kills_its_command_and_settles_nothing(room: Room) -> None:
    """A process that slept through its lease finds another one there: it ends with 1, its command with it."""
    room.admit("work")
    with driving(room, "--ttl", "0.6", command=FOR_EVER) as driver:
        group = driver.spawned()
        driver.signal(signal.SIGSTOP)
        eventually(lambda: _lease_or_none(room))
        driver.signal(signal.SIGCONT)
        code, errors = driver.ended()
        assert not is_alive(group)
    assert code == 1
    assert is_one_line(errors)
    assert "lease" in errors
    assert room.states() == ["running"]


def _lease_or_none(room: Room) -> object | None:
    try:
        return room.lease()
    except ValueError:
        return None


def test_a_driver_that_cannot_reach_its_database_kills_its_command_before_the_lease_expires(room: Room) -> None:
    """Another program holds the write lock, so that no renewal gets through: the command ends in time all the same."""
    room.admit("work")
    with driving(room, "--ttl", "1.5", command=FOR_EVER) as driver:
        group = driver.spawned()
        with room.db.transaction() as tx:
            tx.lock("SELECT room_id FROM hosted_rooms")
            began = time.monotonic()
            eventually(lambda: not is_alive(group))
            assert time.monotonic() - began < 1.5
        assert driver.ended()[0] == 1
    assert room.states() == ["running"]


def test_an_authority_that_moved_on_ends_the_driver(room: Room) -> None:
    """Another gateway took the room: the renewal is refused, the command is killed, exit 1."""
    room.admit("work")
    with driving(room, "--ttl", "1", command=FOR_EVER) as driver:
        group = driver.spawned()
        claim_authority(
            room.db,
            room_id=ROOM,
            expected_gateway_id=GATEWAY,
            expected_epoch=1,
            new_gateway_id="gw2",
            event_id="claim-1",
        )
        assert driver.ended()[0] == 1
        assert not is_alive(group)
    assert room.states() == ["running"]


def test_nothing_runs_behind_an_uncertain_task_until_it_is_resolved_and_then_the_queue_goes_on(room: Room) -> None:
    """The driver lets go of the lease while it is blocked, so that a person can decide; then it takes it again."""
    first, _ = room.admit("lost", "waiting")
    room.lose(first)
    with driving(room, "--drain", command=ANSWER) as driver:
        driver.wait_for(notice="blocked")
        time.sleep(0.3)
        assert room.states() == ["indeterminate", "queued"]
        resolved = run_fsm("resolve", room.location, "--room", ROOM, "--task", "t1", "--requeue")
        assert (resolved.returncode, resolved.stderr) == (0, "")
        assert driver.ended() == (0, "")
    assert room.states() == ["settled", "settled"]
    assert [task["execution_generation"] for task in room.tasks()] == [2, 1]


def test_a_damaged_task_at_the_head_blocks_the_room_until_it_is_cancelled(room: Room) -> None:
    """It can be neither run nor skipped; the driver says so and goes on once it is cancelled."""
    first, _ = room.admit("damaged", "fine")
    room.damage(first)
    with driving(room, "--drain", command=ANSWER) as driver:
        driver.wait_for(notice="blocked")
        cancel_task(room.db, first, cancel_id="c1", expected_cancel_generation=0)
        assert driver.ended() == (0, "")
    assert room.states() == ["cancelled", "settled"]


def test_two_drivers_never_run_one_task_twice(room: Room, tmp_path: Path) -> None:
    """Both drain one room: every task runs exactly once, whoever runs it."""
    room.admit(*map(str, range(8)))
    log = tmp_path / "log"
    command = ("sh", "-c", f'echo "$FSM_TASK_ID" >> {log}; sleep 0.05')
    with driving(room, "--drain", command=command) as one, driving(room, "--drain", command=command) as two:
        assert (one.ended(), two.ended()) == ((0, ""), (0, ""))
    assert log.read_text().split() == [f"t{number}" for number in range(1, 9)]
    assert {(task["status"], task["execution_generation"]) for task in room.tasks()} == {("settled", 1)}


def test_a_killed_driver_leaves_its_task_to_the_next_which_neither_runs_nor_settles_it(room: Room) -> None:
    """After SIGKILL the lease runs out by itself, and the survivor finds the task uncertain."""
    room.admit("work", "more")
    with driving(room, "--ttl", "0.8", command=FOR_EVER) as first:
        group = first.spawned()
        with driving(room, "--ttl", "0.8", "--drain", command=ANSWER) as second:
            second.wait_for(notice="waiting")
            first.signal(signal.SIGKILL)
            os.killpg(group, signal.SIGKILL)
            second.wait_for(trigger="acquire", source="expired")
            second.wait_for(trigger="lose", dest="indeterminate")
            second.wait_for(notice="blocked")
            assert room.states() == ["indeterminate", "queued"]


def test_without_events_a_driver_tells_people_in_single_lines(room: Room) -> None:
    """Standard output stays empty; standard error names what happened, and never a prompt."""
    room.admit("secret prompt")
    done = run_fsm("drive", room.location, "--room", ROOM, "--drain", "--", "true")
    assert (done.returncode, done.stdout) == (0, "")
    assert "t1: queued -> running (start)" in done.stderr
    assert "secret" not in done.stderr


def test_a_reader_that_goes_away_does_not_stop_the_work(room: Room) -> None:
    """Closing the pipe of --events costs the report, not the tasks."""
    room.admit("one", "two")
    reader, writer = os.pipe()
    os.close(reader)
    command = [*FSM, "drive", room.location, "--room", ROOM, "--events", "--drain", "--", "true"]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        os.close(writer)
        assert process.communicate(timeout=PATIENCE)[1] == ""
    assert process.returncode == 0
    assert room.states() == ["settled", "settled"]
