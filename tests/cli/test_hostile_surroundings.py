"""Commands in surroundings that nobody chose: signals, closed streams, ignored children, odd line ends, long waits."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from fsm.driver import list_tasks
from tests.cli.processes import FSM, PATIENCE, ROOM, Room, environment, is_one_line, run_fsm


def shell(line: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of shell in which "$@" is the `fsm` command with these arguments."""
    command = ["bash", "-c", line, "bash", *FSM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment())


def test_a_bad_prompt_keeps_the_whole_file_from_being_admitted(room: Room, tmp_path: Path) -> None:
    """One prompt that cannot be admitted admits none, so that the mended file is not half doubled."""
    file = tmp_path / "prompts.txt"
    file.write_text("first\nsecond\n" + "x" * 200_000 + "\nfourth\n", encoding="utf-8")
    done = run_fsm("submit", room.location, "--room", ROOM, "--file", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert is_one_line(done.stderr)
    assert "prompt 3" in done.stderr
    assert list_tasks(room.db, room_id=ROOM) == []


def test_a_line_ends_where_a_line_ends(room: Room, tmp_path: Path) -> None:
    """One prompt a line: characters that only look like line ends stay within their prompt."""
    file = tmp_path / "prompts.txt"
    prompts = ["one\u2028still one", "two\x0cstill two", "three\x85still three"]
    file.write_bytes("\r\n".join(prompts).encode())
    assert run_fsm("submit", room.location, "--room", ROOM, "--file", file).returncode == 0
    stored = [task["payload"] for task in list_tasks(room.db, room_id=ROOM)]
    assert [payload["prompt"] for payload in stored if payload is not None] == prompts


def test_a_parent_that_ignores_its_children_does_not_end_a_driver(room: Room) -> None:
    """A driver started with SIGCHLD ignored still waits for its command and settles the task."""
    room.admit("one")
    driven = ("drive", room.location, "--room", ROOM, "--drain", "--", "sh", "-c", "sleep 0.2; cat")
    done = shell("trap '' CHLD; exec \"$@\"", *driven)
    assert done.returncode == 0, done.stderr
    assert [task["status"] for task in list_tasks(room.db, room_id=ROOM)] == ["settled"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
def test_a_terminal_that_closes_lets_the_running_task_end(room: Room, number: signal.Signals) -> None:
    """SIGHUP and SIGQUIT ask as SIGTERM does: the command ends by itself, and its task is settled."""
    room.admit("one", "two")
    command = [*FSM, "drive", room.location, "--room", ROOM, "--", "sh", "-c", "echo begun >&2; sleep 1; cat"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as driver:
        assert driver.stderr is not None
        while "begun" not in driver.stderr.readline():
            pass
        os.kill(driver.pid, number)
        assert driver.wait(PATIENCE) == 0
    assert [task["status"] for task in list_tasks(room.db, room_id=ROOM)] == ["settled", "queued"]


def test_a_driver_that_looks_seldom_still_renews_in_time(room: Room) -> None:
    """A poll longer than the ttl does not cost the lease of a task that takes longer than both."""
    room.admit("one")
    driven = ("--room", ROOM, "--drain", "--ttl", "1", "--poll", "5", "--", "sleep", "2")
    done = run_fsm("drive", room.location, *driven)
    assert done.returncode == 0, done.stderr
    assert [task["status"] for task in list_tasks(room.db, room_id=ROOM)] == ["settled"]


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_change_no_outcome(room: Room, closed: str) -> None:
    """A command whose standard streams are closed does its work and ends as ever, without a traceback."""
    room.admit("one")
    listed = shell(f'"$@" {closed}', "tasks", room.location, "--room", ROOM)
    driven = shell(f'"$@" {closed}', "drive", room.location, "--room", ROOM, "--drain", "--", "cat")
    assert (listed.returncode, driven.returncode) == (0, 0)
    assert "Traceback" not in listed.stderr + driven.stderr
    assert [task["status"] for task in list_tasks(room.db, room_id=ROOM)] == ["settled"]


def test_a_time_beyond_what_a_thread_can_wait_is_taken(room: Room) -> None:
    """A ttl longer than any timer reaches neither ends the watch over the lease nor prints a traceback."""
    room.admit("one")
    done = run_fsm("drive", room.location, "--room", ROOM, "--drain", "--ttl", "1e12", "--", "cat")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_no_message_repeats_what_may_be_secret(tmp_path: Path) -> None:
    """Neither a location with a password in it, wherever it stands, nor a prompt as one word too many is printed."""
    secret = "s3cret"
    url = f"postgresql://u:{secret}@host/db"
    for arguments in (
        ("tasks", f"postgresql:/u:{secret}@host/db", "--room", ROOM),
        ("tasks", str(tmp_path / "a.db"), "--room", ROOM, f"a {secret} prompt"),
        (url, "tasks"),
        ("room", url, "show"),
        ("tasks", f"--{url}"),
        ("run", url, ":memory:"),
        ("diagram", "driver_task", "--output", url),
        ("submit", str(tmp_path / "b.db"), "--room", ROOM, "--file", url),
    ):
        done = run_fsm(*arguments)
        assert done.returncode in {1, 2}
        assert is_one_line(done.stderr)
        assert secret not in done.stdout + done.stderr


def test_a_command_that_is_a_url_is_not_repeated(room: Room) -> None:
    """Nor is the password told where a driver is given the URL of a database for its command."""
    room.admit("one")
    done = run_fsm("drive", room.location, "--room", ROOM, "--drain", "--", "postgresql://u:s3cret@host/db")
    assert (done.returncode, room.states()) == (1, ["queued"])
    assert "fsm: a URL cannot be started" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def test_an_answer_is_written_whatever_the_terminal_can_show(room: Room) -> None:
    """Under an encoding that lacks a character an answer spells it out instead of ending in a traceback."""
    room.admit("one")
    done = run_fsm("task", "show", room.location, f"{ROOM}/t1", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    done = run_fsm("diagram", "driver_task", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
