"""What all the operator's commands share: mistakes, missing and foreign files, damage, pipes and completion."""

import os
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fsm.rooms import claim_authority
from tests.cli.operator import T1, Asked, entry_point, files_of, fsm_here
from tests.cli.processes import FSM, GATEWAY, PATIENCE, ROOM, Room, environment, is_one_line, run_fsm

OF_A_TASK = ("--room", ROOM, "--task", "t1", "--yes")
LOCATED = {
    "rooms": ("rooms", "{}", "--all"),
    "events": ("events", "{}", "--room", ROOM),
    "room": ("room", "show", "{}", "--room", ROOM),
    "rename": ("room", "rename", "{}", "--room", ROOM, "Other"),
    "claim": ("room", "claim", "{}", "--room", ROOM, "--gateway", "gw2", "--yes"),
    "disband": ("room", "disband", "{}", "--room", ROOM, "--yes"),
    "task": ("task", "show", "{}", T1),
    "lease": ("lease", "{}", "--room", ROOM),
    "why": ("why", "{}", T1, "start"),
    "requeue": ("requeue", "{}", *OF_A_TASK),
    "defer": ("defer", "{}", *OF_A_TASK, "--reason", "later"),
    "cancel": ("cancel", "{}", *OF_A_TASK),
    "diagram": ("diagram", "driver_task", "--db", "{}", "--record", T1),
    "tasks": ("tasks", "{}", "--room", ROOM),
    "resolve": ("resolve", "{}", "--room", ROOM, "--task", "t1", "--requeue", "--wait", "0.1"),
}
# A driver of a damaged room waits for a person, for as long as that takes.
OPENING = {**LOCATED, "drive": ("drive", "{}", "--room", ROOM, "--drain", "--ttl", "1", "--", "cat")}
# These make what is missing, and may stand beside another program's tables.
MAKING = {
    "submit": ("submit", "{}", "--room", ROOM, "work"),
    "run": ("run", str(Path(__file__).parents[1] / "scenarios" / "takeover.jsonl"), "{}"),
    "demo": ("demo", "--db", "{}"),
}
every_making_command = pytest.mark.parametrize("asked", MAKING.values(), ids=MAKING)
every_opening_command = pytest.mark.parametrize("asked", OPENING.values(), ids=OPENING)
every_command = pytest.mark.parametrize("asked", LOCATED.values(), ids=LOCATED)


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


def at(location: object, asked: tuple[str, ...]) -> list[str]:
    """Return the arguments with the database in its place."""
    return [str(location) if each == "{}" else each for each in asked]


@every_opening_command
def test_a_file_that_is_not_there_is_refused_and_not_made(ask: Asked, tmp_path: Path, asked: tuple[str, ...]) -> None:
    """Exit 1, one line, and the directory is as empty as before."""
    assert ask(*at(tmp_path / "none.db", asked)).is_refusal()
    assert list(tmp_path.iterdir()) == []


@every_opening_command
@pytest.mark.parametrize("kind", ["text", "empty", "foreign", "other shape"])
def test_a_file_that_is_no_database_of_ours_is_refused(
    ask: Asked, tmp_path: Path, asked: tuple[str, ...], kind: str
) -> None:
    """Notes, nothing at all, another program's database, tables of another shape: exit 1, one line.

    The file stays as it was, byte by byte, also where the command would have written.
    """
    file = foreign_file(tmp_path, kind)
    before = files_of(tmp_path)
    assert ask(*at(file, asked)).is_refusal()
    assert files_of(tmp_path) == before


@every_making_command
@pytest.mark.parametrize("kind", ["text", "other shape"])
def test_nothing_is_made_of_a_file_that_cannot_become_ours(
    ask: Asked, tmp_path: Path, asked: tuple[str, ...], kind: str
) -> None:
    """Where the tables of ours would have to stand, something else does: exit 1, one line, and the file untouched."""
    file = foreign_file(tmp_path, kind)
    before = files_of(tmp_path)
    assert ask(*at(file, asked)).is_refusal()
    assert files_of(tmp_path) == before


def foreign_file(directory: Path, kind: str) -> Path:
    """Write a file of the kind: text, empty, another program's database, or tables of another shape."""
    file = directory / "file"
    if kind == "text":
        file.write_text("these are notes, and no database at all\n" * 100, encoding="utf-8")
    elif kind == "empty":
        file.touch()
    else:
        name = "songs" if kind == "foreign" else "hosted_rooms"
        with sqlite3.connect(file) as raw:
            raw.execute(f"CREATE TABLE {name} (title TEXT)")
        raw.close()
    return file


DAMAGE = (
    "UPDATE hosted_room_driver_tasks SET status = 'weird', execution_generation = 'many', payload_json = x'00ff'",
    "UPDATE hosted_room_driver_tasks SET execution_generation = 'many', cancel_generation = x'00'",
    "UPDATE hosted_room_driver_tasks SET thread_id = x'00', created_at = x'01', source_event_seq = 'first'",
    "UPDATE hosted_rooms SET members_json = '[', authority_epoch = 'old', updated_at = 'yesterday'",
    "UPDATE hosted_rooms SET name = CAST(x'ff1b5b' AS TEXT), created_at = 1e300",
    "UPDATE hosted_rooms SET next_seq = 'many'",
    "UPDATE hosted_rooms SET revision = x'00', disbanded_at = 'once'",
    "UPDATE hosted_room_events SET payload_json = '[]', actor_json = '7'",
    "UPDATE hosted_room_events SET payload_json = x'00ff', kind = x'00', seq = 1e300",
    "UPDATE hosted_room_totals SET total = 'many'",
    "UPDATE hosted_room_driver_leases SET expires_at = 'soon', lease_generation = 'last', gateway_id = x'00'",
)


@pytest.mark.engines("sqlite")
@every_command
def test_whatever_is_stored_no_command_ends_in_a_traceback(room: Room, ask: Asked, asked: tuple[str, ...]) -> None:
    """Rows that no release wrote: each is shown, or refused in one line, in text and as JSON."""
    (identity,) = room.admit("work")
    room.lose(identity)
    claim_authority(
        room.db,
        room_id=ROOM,
        expected_gateway_id=GATEWAY,
        expected_epoch=1,
        new_gateway_id=GATEWAY,
        event_id="claimed",
    )
    room.db.close()
    sound = Path(room.location).read_bytes()
    for damage in DAMAGE:
        Path(room.location).write_bytes(sound)
        room.spoil(damage)
        for more in ((), ("--json",)) if asked[0] != "diagram" else ((),):
            waiting = ("--wait", "0.1") if {"--yes", "--task"} <= {*asked} else ()
            told = ask(*at(room.location, asked), *more, *waiting)
            assert told.code in {0, 1}, (damage, told)
            assert told.err == "" or is_one_line(told.err), (damage, told)
            assert "\x1b" not in told.out


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("asked", [MAKING["submit"], MAKING["run"]], ids=["submit", "run"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_work_added_to_a_damaged_database_ends_in_no_traceback(
    room: Room, ask: Asked, asked: tuple[str, ...], damage: str
) -> None:
    """What does not touch the damaged row goes on; what does is refused, or told as the step's outcome."""
    room.lose(*room.admit("work"))
    room.db.close()
    room.spoil(damage)
    told = ask(*at(room.location, asked))
    assert told.code in {0, 1}
    assert "Traceback" not in told.out + told.err
    assert told.err == "" or is_one_line(told.err)
    assert "\x1b" not in told.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("rooms",),
        ("rooms", "state.db", "more"),
        ("rooms", ":memory:"),
        ("events", "state.db"),
        ("events", "state.db", "--room", ROOM, "--since", "-1"),
        ("events", "state.db", "--room", ROOM, "--since", str(2**63)),
        ("events", "state.db", "--room", ROOM, "--limit", "0"),
        ("room",),
        ("room", "show", "state.db"),
        ("room", "rename", "state.db", "--room", ROOM),
        ("room", "rename", "state.db", "--room", ROOM, " "),
        ("room", "rename", "state.db", "--room", ROOM, "x" * 201),
        ("room", "rename", "state.db", "--room", ROOM, "Other", "--event-id", ""),
        ("room", "claim", "state.db", "--room", ROOM),
        ("room", "claim", "state.db", "--room", ROOM, "--gateway", "two words", "--yes"),
        ("room", "disband", "state.db", "--room", ROOM),
        ("task", "show", "state.db"),
        ("task", "show", "state.db", "room"),
        ("task", "show", "state.db", "room/task/more"),
        ("task", "show", "state.db", "not an id/t1"),
        ("lease", "state.db"),
        ("lease", "state.db", "--room", ""),
        ("why", "state.db", T1),
        ("why", "state.db", T1, "nonsense"),
        ("requeue", "state.db", "--room", ROOM, "--yes"),
        ("requeue", "state.db", *OF_A_TASK, "--wait", "0"),
        ("defer", "state.db", *OF_A_TASK),
        ("defer", "state.db", *OF_A_TASK, "--reason", "two words"),
        ("cancel", "state.db", *OF_A_TASK, "--wait", "nan"),
        ("cancel", "state.db", *OF_A_TASK, "--cancel-id", ""),
        ("cancel", "state.db", "--room", ROOM, "--task", "t1"),
        ("diagram",),
        ("diagram", "driver_task", "--format", "gif"),
        ("diagram", "driver_task", "--db", "state.db"),
        ("table",),
        ("table", "driver_task", "--format", "svg"),
        ("export", "driver_task", "more"),
    ],
)
def test_a_mistake_in_the_call_is_one_line_and_exit_code_2(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Unknown options, missing arguments and bad values: nothing is opened or made."""
    monkeypatch.chdir(tmp_path)
    assert ask(*arguments).is_refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_the_script_that_is_installed_is_this_command(tmp_path: Path) -> None:
    """`fsm` itself, as a shell finds it: success, refusal and mistake."""
    script = Path(sys.executable).parent / "fsm"
    assert script.exists(), "make test installs the package, and with it the command"
    done = [
        subprocess.run([script, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
        for arguments in (("export", "driver_lease"), ("rooms", str(tmp_path / "none.db")), ("diagram", "nonsense"))
    ]
    assert [each.returncode for each in done] == [0, 1, 2]
    assert [each.stderr == "" or is_one_line(each.stderr) for each in done] == [True] * 3


@pytest.mark.parametrize("asked", [("rooms", "{}"), ("table", "driver_task"), ("why", "{}", T1, "cancel")])
def test_a_pipe_that_is_closed_early_is_not_worth_a_word(room: Room, asked: tuple[str, ...]) -> None:
    """`fsm ... | head`: no traceback, no message."""
    room.admit("work")
    reader, writer = os.pipe()
    os.close(reader)
    command = [*FSM, *at(room.location, asked)]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        os.close(writer)
        assert process.communicate(timeout=PATIENCE)[1] == ""


def test_a_shell_that_takes_only_ascii_gets_escapes_and_no_traceback(room: Room) -> None:
    """What it cannot show is spelt out, in the table and in the text of a task."""
    room.admit("caf\N{LATIN SMALL LETTER E WITH ACUTE}")
    for asked in (("task", "show", room.location, T1), ("rooms", room.location)):
        done = run_fsm(*asked, PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stderr, done.stdout.isascii()) == (0, "", True)


# --- completion and help


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("fsm diag", ["diagram"]),
        ("fsm room dis", ["disband"]),
        ("fsm diagram driver_", ["driver_lease", "driver_task"]),
        ("fsm export h", ["hosted_room"]),
        ("fsm diagram driver_task --format p", ["plantuml", "png"]),
        ("fsm why state.db room/t1 begin", ["begin_cancel"]),
    ],
)
def test_the_shell_is_offered_names_of_the_declarations(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], typed: str, offered: list[str]
) -> None:
    """Commands, lifecycles, formats and triggers are completed, and nothing is opened for it."""
    position = str(len(typed.split()) - 1)
    for name, value in (("_FSM_COMPLETE", "complete_bash"), ("COMP_WORDS", typed), ("COMP_CWORD", position)):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        entry_point()([])
    written = capfd.readouterr()
    assert (ended.value.code, written.out.split(), written.err) == (0, offered, "")


def test_the_help_fits_a_narrow_terminal_without_colours() -> None:
    """Every command is listed with one sentence, and no line is wider than the terminal."""
    done = run_fsm("--help", COLUMNS="60", NO_COLOR="1")
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
    assert max(map(len, done.stdout.splitlines())) <= 60
    assert all(f" {command} " in done.stdout for command in (*(asked[0] for asked in LOCATED.values()), "table"))
