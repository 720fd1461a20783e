"""`fsm diagram`, `fsm table` and `fsm export`: what renderers make, where it is wanted, with a record marked."""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from diagrams import describe, dot, mermaid, plantuml, reference
from diagrams.export import export
from fsm import rooms
from fsm.lifecycles import LIFECYCLES
from tests.cli.operator import T1, Asked, at_a_terminal, files_of, fsm_here
from tests.cli.processes import FSM, ROOM, Room, environment, run_fsm
from tests.rooms.peers import scope

NAMES = [lifecycle.name for lifecycle in LIFECYCLES]
MODELS = {lifecycle.name: describe(lifecycle) for lifecycle in LIFECYCLES}


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


@pytest.mark.parametrize("name", NAMES)
def test_standard_output_gets_exactly_what_the_renderer_makes(ask: Asked, name: str) -> None:
    """Mermaid where nothing else is asked for; the page and the data likewise."""
    model = MODELS[name]
    for arguments, made in (
        (("diagram", name), mermaid(model)),
        (("diagram", name, "--overview"), mermaid(model, overview=True)),
        (("diagram", name, "--format", "dot", "-o", "-"), dot(model)),
        (("diagram", name, "--format", "plantuml"), plantuml(model)),
        (("table", name), reference(model)),
        (("export", name), export(model)),
    ):
        told = ask(*arguments)
        assert (told.code, told.err, told.out) == (0, "", made)


@pytest.mark.parametrize(("form", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG\r\n")])
def test_a_picture_is_written_to_a_file_or_a_pipe(ask: Asked, tmp_path: Path, form: str, begins: bytes) -> None:
    """Bytes as Graphviz made them, with nothing before or behind; the machine's fonts may have their say beside."""
    pytest.importorskip("pygraphviz")
    file = tmp_path / "picture"
    told = ask("diagram", "driver_lease", "--format", form, "-o", file)
    piped = subprocess.run(
        [*FSM, "diagram", "driver_lease", "--format", form], capture_output=True, check=True, env=environment()
    )
    assert (told.code, told.out, "fsm:" in told.err) == (0, "", False)
    assert file.read_bytes().startswith(begins)
    assert piped.stdout == file.read_bytes()


def test_a_terminal_is_not_handed_a_png() -> None:
    """Exit 2, before anything is drawn, one line that says what to do."""
    code, told = at_a_terminal("diagram", "driver_lease", "--format", "png")
    assert (code, "-o FILE" in told, "PNG\r" in told, told.count("\n")) == (2, True, False, 1)


@pytest.mark.parametrize("form", ["svg", "png"])
def test_without_the_extra_a_picture_says_what_to_install_and_text_works(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    """Exit 1, one line, no file; only pictures need it."""
    monkeypatch.setitem(__import__("sys").modules, "pygraphviz", None)
    refused = ask("diagram", "driver_lease", "--format", form, "-o", tmp_path / "picture")
    assert (refused.is_refusal(), "gateway-fsm[diagrams]" in refused.err, list(tmp_path.iterdir())) == (True, True, [])
    assert ask("diagram", "driver_lease", "--format", "dot").code == 0


# --- where it goes


def test_a_file_is_replaced_whole_and_a_database_never(ask: Asked, tmp_path: Path) -> None:
    """An older drawing goes; what holds the gateway's state is not drawn over by a slip of the hand."""
    file = tmp_path / "page.md"
    file.write_text("x" * 1_000_000, encoding="utf-8")
    assert ask("table", "driver_task", "-o", file).code == 0
    assert file.read_text(encoding="utf-8") == reference(MODELS["driver_task"])
    assert run_fsm("submit", tmp_path / "state.db", "--room", "r", "p", GATEWAY_HOME=str(tmp_path)).returncode == 0
    before = files_of(tmp_path)
    assert ask("export", "driver_task", "-o", tmp_path / "state.db").is_refusal()
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("command", ["diagram", "table", "export"])
def test_a_file_that_cannot_be_written_is_named(ask: Asked, tmp_path: Path, command: str) -> None:
    """A directory, and a file in one that is not there: exit 1, one line."""
    for output in (tmp_path, tmp_path / "none" / "file"):
        refused = ask(command, "driver_task", "-o", output)
        assert (refused.is_refusal(), f"cannot write {output}" in refused.err) == (True, True)


@pytest.mark.parametrize("command", ["diagram", "table", "export"])
def test_an_unknown_lifecycle_is_a_mistake_that_lists_the_known_ones(ask: Asked, command: str) -> None:
    """Exit 2, one line."""
    refused = ask(command, "nonsense")
    assert (refused.is_refusal(2), [name in refused.err for name in NAMES]) == (True, [True] * len(NAMES))


def test_what_is_written_does_not_depend_on_the_terminal(tmp_path: Path) -> None:
    """UTF-8, also where the shell says ASCII: a file made by a pipe is read elsewhere."""
    for command, made in (("diagram", mermaid), ("table", reference)):
        done = subprocess.run(
            [*FSM, command, "driver_lease"],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment(PYTHONIOENCODING="ascii"),
        )
        assert (done.returncode, done.stderr, done.stdout.decode()) == (0, b"", made(MODELS["driver_lease"]))


# --- a record in it


def test_the_state_that_a_record_is_in_is_marked(room: Room, ask: Asked) -> None:
    """Tasks by ROOM/TASK, leases and rooms by ROOM, reservations by ROOM/MEMBER/TARGET_PROFILE, whose room is another
    gateway's; states that no row stands for are states too
    """
    room.admit("work")
    for name, record, state in (
        ("driver_task", T1, "queued"),
        ("driver_lease", ROOM, "vacant"),
        ("hosted_room", ROOM, "live"),
        ("hosted_room", "never-made", "absent"),
    ):
        told = ask("diagram", name, "--db", room.location, "--record", record)
        assert (told.code, told.err, told.out) == (0, "", mermaid(MODELS[name], present=state))
    rooms.reserve_peer_room(room.db, claims=scope(room_id="elsewhere"), expires_at=room.db.clock() + 60)
    for record, state in (("elsewhere/ann/helper", "live"), ("elsewhere/bob/helper", "absent")):
        told = ask("diagram", "peer_reservation", "--db", room.location, "--record", record)
        assert (told.code, told.err, told.out) == (0, "", mermaid(MODELS["peer_reservation"], present=state))
    room.lease()
    told = ask("diagram", "driver_lease", "--db", room.location, "--record", ROOM, "--format", "dot", "--overview")
    assert told.out == dot(MODELS["driver_lease"], present="held", overview=True)


@pytest.mark.parametrize("stored", ["weird", "new", "gone", ""])
def test_a_state_that_the_declaration_lacks_is_drawn_and_said_to_be_lacking(
    room: Room, ask: Asked, stored: str
) -> None:
    """The drawing is made all the same, and one line on standard error tells; a mark's name is no state."""
    room.admit("work")
    room.spoil(f"UPDATE hosted_room_driver_tasks SET status = '{stored}'")
    told = ask("diagram", "driver_task", "--db", room.location, "--record", T1)
    shown = stored if stored == "weird" else "(undeclared)"
    assert (told.is_refusal(0), shown in told.err, told.out) == (
        True,
        True,
        mermaid(MODELS["driver_task"], present=shown),
    )


@pytest.mark.engines("sqlite")
def test_a_lease_in_no_declared_state_is_said_to_be_so(room: Room, ask: Asked) -> None:
    """Where no column stores the state there is no other name for it."""
    room.lease()
    room.spoil("UPDATE hosted_room_driver_leases SET expires_at = 'never'")
    told = ask("diagram", "driver_lease", "--db", room.location, "--record", ROOM)
    assert (told.is_refusal(0), "(undeclared)" in told.err) == (True, True)


@pytest.mark.parametrize(
    ("name", "more", "code"),
    [
        ("driver_task", ("--record", f"{ROOM}/none"), 1),
        ("driver_task", ("--record", "none/t1"), 1),
        ("driver_lease", ("--record", "none"), 1),
        ("driver_task", ("--record", ROOM), 2),
        ("driver_lease", ("--record", T1), 2),
        ("hosted_room", ("--record", "not an id"), 2),
        ("hosted_room", (), 2),
    ],
)
def test_a_record_that_is_not_there_or_not_one_is_refused(
    room: Room, ask: Asked, name: str, more: tuple[str, ...], code: int
) -> None:
    """A record that does not exist: 1; what is no record's name, and --db alone: 2."""
    refused = ask("diagram", name, "--db", room.location, *more)
    assert (refused.is_refusal(code), refused.out) == (True, "")


def test_a_record_without_a_database_is_a_mistake(ask: Asked) -> None:
    """--record says nothing without --db."""
    assert ask("diagram", "hosted_room", "--record", ROOM).is_refusal(2)


@pytest.mark.engines("sqlite")
def test_marking_changes_no_file(room: Room, ask: Asked, tmp_path: Path) -> None:
    """The database is opened for reading alone."""
    room.admit("work")
    room.db.close()
    before = files_of(tmp_path)
    assert ask("diagram", "driver_task", "--db", room.location, "--record", T1).code == 0
    assert files_of(tmp_path) == before


def test_the_export_is_read_back_by_its_name(ask: Asked) -> None:
    """A program that reads it finds the lifecycle and its hash."""
    read = json.loads(ask("export", "hosted_room").out)
    assert (read["name"], read["hash"].startswith("sha256:")) == ("hosted_room", True)
