"""`fsm submit`, `fsm tasks` and what all commands share: answers, refusals, mistakes and pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsm.driver import list_tasks
from fsm.rooms import disband_room, room_state
from tests.cli.processes import FSM, GATEWAY, ROOM, Room, environment, is_one_line, run_fsm
from tests.engines import Engine

MISSING_EXTRA = "import sys; sys.modules[{name!r}] = None; from fsm.__main__ import main; sys.exit(main(['--version']))"


def test_submit_makes_the_room_and_queues_the_prompts_in_their_order(engine: Engine, tmp_path: Path) -> None:
    """The ids are printed in the order of the prompts; without --gateway the install itself is the authority."""
    location, home = engine.location(), str(tmp_path / "home")
    first = run_fsm("submit", location, "--room", "r", "one", "two", GATEWAY_HOME=home)
    second = run_fsm("submit", location, "--room", "r", "--task-prefix", "late", "three", GATEWAY_HOME=home)
    listed = run_fsm("tasks", location, "--room", "r", "--json")
    tasks = json.loads(listed.stdout)
    assert (first.returncode, second.returncode, listed.returncode) == (0, 0, 0)
    assert [task["payload"]["prompt"] for task in tasks] == ["one", "two", "three"]
    assert [task["payload"]["source_event_seq"] for task in tasks] == [1, 2, 3]
    assert [task["identity"]["task_id"] for task in tasks] == [*first.stdout.split(), *second.stdout.split()]
    assert second.stdout.startswith("late-")
    assert room_state(str(location), room_id="r")["authority_gateway_id"].startswith("install:")


def test_submit_takes_one_prompt_a_line_from_a_file_or_from_standard_input(room: Room, tmp_path: Path) -> None:
    """Blank lines are skipped; --json answers with the admitted tasks."""
    file = tmp_path / "prompts"
    file.write_text("from a file\n\n   \nand another\n", encoding="utf-8")
    filed = run_fsm("submit", room.location, "--room", ROOM, "--file", file, "--json")
    piped = run_fsm("submit", room.location, "--room", ROOM, "--file", "-", given="\nfrom a pipe\n")
    assert (filed.returncode, piped.returncode) == (0, 0)
    assert [json.loads(line)["status"] for line in filed.stdout.splitlines()] == ["queued", "queued"]
    prompts = [task["payload"]["prompt"] for task in room.tasks() if task["payload"]]
    assert prompts == ["from a file", "and another", "from a pipe"]


def test_submit_refuses_a_closed_room_and_a_foreign_one_in_one_line_without_the_prompt(room: Room) -> None:
    """Exit 1; nothing is admitted, and what was asked stays private."""
    foreign = run_fsm("submit", room.location, "--room", ROOM, "--gateway", "another", "secret prompt")
    disband_room(room.db, room_id=ROOM, expected_gateway_id=GATEWAY, expected_epoch=1)
    closed = run_fsm("submit", room.location, "--room", ROOM, "secret prompt")
    for refused in (foreign, closed):
        assert (refused.returncode, refused.stdout) == (1, "")
        assert is_one_line(refused.stderr)
        assert "secret" not in refused.stderr
    assert room.tasks() == []


@pytest.mark.parametrize("content", [None, b"\xff\xfe broken"])
def test_submit_refuses_a_file_that_it_cannot_read(room: Room, tmp_path: Path, content: bytes | None) -> None:
    """A missing file, and one that is not text: exit 1, one line."""
    file = tmp_path / "prompts"
    if content is not None:
        file.write_bytes(content)
    refused = run_fsm("submit", room.location, "--room", ROOM, "--file", file)
    assert refused.returncode == 1
    assert is_one_line(refused.stderr)


def test_tasks_shows_a_table_without_any_colour_code_in_a_pipe(room: Room) -> None:
    """Every task with its state, generations and times; a damaged one is marked."""
    first, _ = room.admit("one", "two")
    room.damage(first)
    shown = run_fsm("tasks", room.location, "--room", ROOM)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
    rows = [line for line in shown.stdout.splitlines() if "queued" in line]
    assert ["t1" in rows[0], "corrupt" in rows[0], "t2" in rows[1], "corrupt" in rows[1]] == [True, True, True, False]


def test_tasks_answers_for_one_state_and_lists_damaged_tasks_in_json_too(room: Room) -> None:
    """--status filters; `corrupt` says why content is missing."""
    (identity,) = room.admit("one")
    room.damage(identity)
    queued = run_fsm("tasks", room.location, "--room", ROOM, "--status", "queued", "--json")
    settled = run_fsm("tasks", room.location, "--room", ROOM, "--status", "settled", "--json")
    assert [task["payload"] for task in json.loads(queued.stdout)] == [None]
    assert "corrupt" in json.loads(queued.stdout)[0]
    assert json.loads(settled.stdout) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("tasks", "{}", "--room", ROOM),
        ("resolve", "{}", "--room", ROOM, "--task", "t", "--requeue"),
        ("drive", "{}", "--room", ROOM, "--", "true"),
    ],
)
def test_no_reading_command_makes_a_database_that_is_not_there(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Exit 1 with one line, and the directory is as empty as before."""
    refused = run_fsm(*(each.format(tmp_path / "none.db") for each in arguments))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert is_one_line(refused.stderr)
    assert list(tmp_path.iterdir()) == []


def test_tasks_refuses_a_file_that_is_no_database_of_ours(tmp_path: Path) -> None:
    """Any other file: exit 1, one line, the file untouched."""
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, and no database at all\n" * 100, encoding="utf-8")
    before = file.read_bytes()
    refused = run_fsm("tasks", file, "--room", ROOM)
    assert refused.returncode == 1
    assert is_one_line(refused.stderr)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("tasks",),
        ("tasks", "state.db"),
        ("tasks", "state.db", "--room", "not an id"),
        ("tasks", "state.db", "--room", "r", "--status", "nonsense"),
        ("tasks", "state.db", "--room", "r", "--nonsense"),
        ("tasks", ":memory:", "--room", "r"),
        ("submit", "state.db", "--room", "r"),
        ("submit", "state.db", "--room", "r", "fine", " "),
        ("drive", "state.db", "--room", "r"),
        ("drive", "state.db", "--room", "r", "--ttl", "nan", "--", "true"),
        ("drive", "state.db", "--room", "r", "--ttl", "0", "--", "true"),
        ("drive", "state.db", "--room", "r", "--poll", "soon", "--", "true"),
        ("resolve", "state.db", "--room", "r", "--task", "t"),
        ("resolve", "state.db", "--room", "r", "--task", "t", "--settled", "--failed"),
        ("resolve", "state.db", "--room", "r", "--task", "t", "--requeue", "--result", "text"),
        ("demo", "--nonsense"),
    ],
)
def test_a_mistake_in_the_call_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unknown options, missing arguments and bad values: nothing is opened or made."""
    from fsm.__main__ import main  # noqa: PLC0415 # one process for all of them; the others go through real ones

    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert is_one_line(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_told() -> None:
    """--version answers with exit 0."""
    told = run_fsm("--version")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("fsm ")


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(name: str) -> None:
    """The library works without typer and rich; the command needs them, says so and ends with 2."""
    done = subprocess.run(
        [sys.executable, "-c", MISSING_EXTRA.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert is_one_line(done.stderr)
    assert "gateway-fsm[cli]" in done.stderr


def test_a_pipe_that_is_closed_early_is_not_worth_a_word(room: Room) -> None:
    """`fsm tasks ... | head`: no traceback, no message."""
    room.admit(*("prompt" for _ in range(50)))
    for answer in ("--json", "--status=queued"):
        reader, writer = os.pipe()
        os.close(reader)
        command = [*FSM, "tasks", room.location, "--room", ROOM, answer]
        with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment()) as process:
            os.close(writer)
            assert process.communicate(timeout=20)[1] == ""
        assert process.returncode == 1


def test_bytes_that_are_no_text_are_refused_in_one_printable_line(room: Room) -> None:
    """What the shell hands over may be anything; exit codes hold, and no terminal is confused."""
    refused = subprocess.run(
        [*FSM, "submit", room.location, "--room", ROOM, b"\xff\x1b[31m"],
        capture_output=True,
        check=False,
        env=environment(),
    )
    assert refused.returncode == 1
    assert is_one_line(refused.stderr.decode("ascii"))
    assert list_tasks(room.db, room_id=ROOM) == []
