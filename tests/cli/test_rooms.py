"""`fsm room` and `fsm events`: the operator looks at one room and its log, renames it, takes it over and closes it."""

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fsm import rooms
from tests.cli.operator import Asked, at_a_terminal, files_of, fsm_here
from tests.cli.processes import FSM, GATEWAY, PATIENCE, ROOM, Room, environment, run_fsm

HERE = ("--room", ROOM)


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


def append(room: Room, *texts: str) -> None:
    """Append a user's message for each text."""
    first = rooms.room_state(room.db, room_id=ROOM)["latest_seq"] + 1
    for number, text in enumerate(texts, start=first):
        rooms.append_event(
            room.db,
            room_id=ROOM,
            event_id=f"m{number}",
            kind="message.user",
            actor={"kind": "user", "id": "ann", "display_name": "Ann"},
            payload={"text": text},
            authority_gateway_id=GATEWAY,
            authority_epoch=1,
        )


def state(room: Room) -> rooms.RoomState:
    """Return the room as it is stored."""
    return rooms.room_state(room.db, room_id=ROOM, include_disbanded=True)


Run = Callable[..., Any]


@pytest.fixture
def act(room: Room) -> Run:
    """One of the changing commands on the room, in a process of its own."""

    def run(command: str, *options: str, yes: bool = True) -> "subprocess.CompletedProcess[str]":
        confirmed = ["--yes"] if yes and command != "rename" else []
        return run_fsm("room", command, room.location, *HERE, *options, *confirmed)

    return run


# --- show


def test_a_room_is_shown_whole(room: Room, ask: Asked) -> None:
    """Its state, authority, log and members; --json is the library's own view."""
    members = [{"id": "ann"}, {"id": "bob", "target": {"profile": "p"}}]
    rooms.create_room(room.db, room_id="full", name="Full", members=members, authority_gateway_id=GATEWAY)
    shown, told = (
        ask("room", "show", room.location, "--room", "full"),
        ask("room", "show", room.location, *HERE, "--json"),
    )
    lines = shown.out.splitlines()
    assert (shown.code, shown.err, told.code) == (0, "", 0)
    assert ("name            Full" in lines, f"gateway         {GATEWAY} at epoch 1" in lines) == (True, True)
    assert [line for line in lines if line.startswith("  {")] == [
        '  {"id": "ann"}',
        '  {"id": "bob", "target": {"profile": "p"}}',
    ]
    assert json.loads(told.out) == state(room)


def test_a_room_tells_how_it_came_to_its_gateway_and_that_it_is_closed(room: Room, ask: Asked) -> None:
    """The event by which it was taken over, and its end; a room that is not there is refused by name."""
    authority = {"expected_gateway_id": GATEWAY, "expected_epoch": 1}
    rooms.claim_authority(room.db, room_id=ROOM, new_gateway_id="gw2", event_id="c1", **authority)
    rooms.disband_room(room.db, room_id=ROOM, expected_gateway_id="gw2", expected_epoch=2)
    shown = ask("room", "show", room.location, *HERE)
    assert f"taken over      from gateway {GATEWAY} by event 1, " in shown.out
    assert "state           disbanded: " in shown.out
    missing = ask("room", "show", room.location, "--room", "none")
    assert missing.is_refusal()


# --- rename


def test_a_room_is_renamed_and_the_same_command_again_changes_nothing(room: Room, act: Run) -> None:
    """The change has a name; without one each command is a change of its own."""
    first = act("rename", "  New name ", "--event-id", "r1")
    again = act("rename", "New name", "--event-id", "r1", "--json")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == f"room {ROOM}: New name, of gateway {GATEWAY} at epoch 1, revision 2\n"
    assert (json.loads(again.stdout)["idempotent"], state(room)["revision"]) == (True, 2)
    for _ in range(2):
        assert act("rename", "New name").returncode == 0
    assert (state(room)["revision"], state(room)["latest_seq"]) == (4, 3)


def test_another_name_under_the_same_change_is_refused(room: Room, act: Run) -> None:
    """Exit 1, and the name stays."""
    act("rename", "First", "--event-id", "r1")
    refused = act("rename", "Second", "--event-id", "r1")
    own = act("rename", "Second", "--event-id", "system:room-disbanded")
    assert (refused.returncode, own.returncode, state(room)["name"]) == (1, 1, "First")


# --- claim and disband


def test_a_room_is_taken_over_and_the_same_command_again_is_a_retry(room: Room, act: Run) -> None:
    """The authority that was shown is the one that must still hold."""
    first = act("claim", "--gateway", "gw2", "--event-id", "c1")
    again = act("claim", "--gateway", "gw2", "--event-id", "c1", "--json")
    assert (first.returncode, first.stdout) == (0, f"room {ROOM}: Room, of gateway gw2 at epoch 2, revision 2\n")
    told = json.loads(again.stdout)
    assert (told["idempotent"], told["claim_event"]["event_id"], told["authority_epoch"]) == (True, "c1", 2)
    assert act("claim", "--gateway", "gw3", "--event-id", "c1").returncode == 1
    assert act("claim", "--gateway", GATEWAY).returncode == 0
    assert (state(room)["authority_gateway_id"], state(room)["authority_epoch"]) == (GATEWAY, 3)


def test_without_a_gateway_the_install_itself_takes_over(room: Room, tmp_path: Path) -> None:
    """As in `fsm submit`, the install is who asks where nobody is named."""
    done = run_fsm("room", "claim", room.location, *HERE, "--yes", GATEWAY_HOME=str(tmp_path / "home"))
    assert done.returncode == 0
    assert state(room)["authority_gateway_id"].startswith("install:")


def test_a_room_is_closed_for_good_once(room: Room, act: Run) -> None:
    """Closing again answers the same; renaming and claiming a closed room are refused."""
    first, again = act("disband"), act("disband", "--json")
    assert (first.returncode, first.stdout.startswith(f"room {ROOM}: disbanded at ")) == (0, True)
    assert (json.loads(again.stdout)["idempotent"], state(room)["latest_seq"]) == (True, 1)
    assert (act("rename", "Other").returncode, act("claim", "--gateway", "gw2").returncode) == (1, 1)


@pytest.mark.parametrize("command", [("claim", "--gateway", "gw2"), ("disband",)])
@pytest.mark.parametrize(("typed", "changed"), [("n\n", False), ("y\n", True)])
def test_a_person_is_asked_first(room: Room, command: tuple[str, ...], typed: str, *, changed: bool) -> None:
    """The room is shown, then the question is put; only yes goes on."""
    before = state(room)
    verb, *options = command
    code, told = at_a_terminal("room", verb, room.location, *HERE, *options, typed=typed)
    assert code == (0 if changed else 1)
    assert f"gateway         {GATEWAY} at epoch 1" in told
    assert (state(room) != before) is changed


@pytest.mark.parametrize("command", [("claim", "--gateway", "gw2"), ("disband",)])
def test_without_a_terminal_and_without_yes_nothing_is_even_opened(
    room: Room, tmp_path: Path, act: Run, command: tuple[str, ...]
) -> None:
    """Exit 2, and no byte has changed."""
    room.db.close()
    before = files_of(tmp_path)
    assert act(*command, yes=False).returncode == 2
    assert files_of(tmp_path) == before


def test_an_authority_that_moves_while_a_person_thinks_is_not_passed_over(
    room: Room, ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was shown is what must still hold when the answer comes."""

    def meanwhile(*_: object, **__: object) -> None:
        run_fsm("room", "claim", room.location, *HERE, "--gateway", "gw9", "--yes")

    monkeypatch.setattr("fsm.cli.room.confirm", meanwhile)
    room.db.close()
    assert ask("room", "claim", room.location, *HERE, "--gateway", "gw2", "--yes").is_refusal()
    assert json.loads(ask("room", "show", room.location, *HERE, "--json").out)["authority_gateway_id"] == "gw9"


# --- events


def test_the_log_is_shown_one_event_a_line(room: Room, ask: Asked) -> None:
    """Number, instant, kind, actor and payload; --json is the library's own view, an object a line."""
    append(room, "hello", "two\nlines \x1b[2J")
    shown, told = ask("events", room.location, *HERE), ask("events", room.location, *HERE, "--json")
    lines = shown.out.splitlines()
    assert (shown.code, shown.err, len(lines)) == (0, "", 2)
    assert lines[0].endswith('  message.user  user ann (Ann)  {"text": "hello"}')
    assert ("\x1b" in shown.out, lines[1].startswith("2  ")) == (False, True)
    listed = [json.loads(line) for line in told.out.splitlines()]
    assert listed == rooms.read_events(room.db, room_id=ROOM)["events"]


def test_a_part_of_the_log_is_shown(room: Room, ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a number, and at most so many, over as many pages of the library as it takes."""
    append(room, *map(str, range(1, 8)))
    monkeypatch.setattr("fsm.cli.events.MAX_LOG_LIMIT", 2)

    def numbers(*options: str) -> list[int]:
        told = ask("events", room.location, *HERE, "--json", *options)
        assert (told.code, told.err) == (0, "")
        return [json.loads(line)["seq"] for line in told.out.splitlines()]

    assert numbers() == [1, 2, 3, 4, 5, 6, 7]
    assert numbers("--since", "3") == [4, 5, 6, 7]
    assert numbers("--since", "2", "--limit", "3") == [3, 4, 5]
    assert numbers("--since", "7") == []
    assert ask("events", room.location, *HERE, "--since", "8").is_refusal()


def test_a_closed_rooms_log_is_shown_and_a_damaged_event_marked(room: Room, ask: Asked) -> None:
    """What is kept can be seen, and one bad event hides no other."""
    append(room, "one", "two")
    rooms.disband_room(room.db, room_id=ROOM, expected_gateway_id=GATEWAY, expected_epoch=1)
    room.spoil("UPDATE hosted_room_events SET payload_json = '{' WHERE seq = 1")
    lines = ask("events", room.location, *HERE).out.splitlines()
    assert ["corrupt: " in line for line in lines] == [True, False, False]
    assert "room.disbanded" in lines[2]
    assert ask("events", room.location, "--room", "none").is_refusal()


class Follower:
    """A real `fsm events --follow --json`, and the numbers that it has told."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def next(self) -> int:
        """Wait for the next event, and return its number."""
        return int(json.loads(self._lines.get(timeout=PATIENCE))["seq"])


@contextmanager
def following(room: Room, *options: str) -> Iterator[Follower]:
    """Start a follower; nothing of it outlives the block."""
    command = [*FSM, "events", room.location, *HERE, "--follow", "--json", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(PYTHONUNBUFFERED="")
    ) as process:
        try:
            yield Follower(process)
        finally:
            process.kill()
            process.wait()


def test_a_follower_sees_every_event_and_ends_with_the_room(room: Room) -> None:
    """What was there, what comes, and the end: exit 0."""
    append(room, "one", "two")
    with following(room, "--since", "1") as follower:
        assert follower.next() == 2
        append(room, "three")
        assert follower.next() == 3
        rooms.disband_room(room.db, room_id=ROOM, expected_gateway_id=GATEWAY, expected_epoch=1)
        assert follower.next() == 4
        assert follower.process.wait(PATIENCE) == 0
        assert follower.process.stderr is not None
        assert follower.process.stderr.read() == ""


def test_a_follower_ends_at_its_limit_and_when_it_is_interrupted(room: Room) -> None:
    """At the limit with exit 0, on Ctrl-C with 130, and neither is worth a word."""
    append(room, "one")
    with following(room, "--limit", "2") as follower:
        assert follower.next() == 1
        append(room, "two", "three")
        assert follower.next() == 2
        assert follower.process.wait(PATIENCE) == 0
    with following(room) as follower:
        assert [follower.next(), follower.next(), follower.next()] == [1, 2, 3]
        os.kill(follower.process.pid, signal.SIGINT)
        assert follower.process.wait(PATIENCE) == 130
        assert follower.process.stderr is not None
        assert follower.process.stderr.read() == ""


def test_a_follower_holds_nobody_up(room: Room) -> None:
    """While it waits, the room's gateway appends as ever: it keeps no snapshot open."""
    with following(room) as follower:
        append(room, *map(str, range(20)))
        assert [follower.next() for _ in range(20)] == list(range(1, 21))


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("asked", [("events", "{}", *HERE), ("room", "show", "{}", *HERE)])
def test_looking_at_a_room_changes_no_file(room: Room, tmp_path: Path, ask: Asked, asked: tuple[str, ...]) -> None:
    """Every file of the directory is the same afterwards, byte by byte."""
    append(room, "one")
    room.db.close()
    before = files_of(tmp_path)
    assert ask(*(each.format(room.location) for each in asked)).code == 0
    assert files_of(tmp_path) == before
