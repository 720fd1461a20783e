"""`fsm rooms`, `fsm task` and `fsm lease`: the operator looks, and nothing moves."""

import json
import time
from functools import partial
from pathlib import Path

import pytest

from fsm.driver import release_lease, settle_task
from fsm.rooms import create_room, disband_room
from tests.cli.operator import T1, Asked, at_a_terminal, files_of, fsm_here
from tests.cli.processes import GATEWAY, ROOM, Room, run_fsm


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


# --- rooms


def test_rooms_lists_the_live_rooms_and_with_all_the_closed_ones(room: Room, ask: Asked) -> None:
    """Most recently changed first, with authority, epoch, revision and the length of the log."""
    create_room(room.db, room_id="closed", name="Closed", members=[], authority_gateway_id="other")
    disband_room(room.db, room_id="closed", expected_gateway_id="other", expected_epoch=1)
    live, every = ask("rooms", room.location), ask("rooms", room.location, "--all", "--json")
    assert (live.code, live.err, every.code, every.err) == (0, "", 0, "")
    assert [line.split()[:6] for line in live.out.splitlines() if GATEWAY in line] == [
        [ROOM, "Room", GATEWAY, "1", "1", "0"]
    ]
    assert "Closed" not in live.out
    listed = json.loads(every.out)
    assert [(each["room_id"], each["latest_seq"]) for each in listed] == [("closed", 1), (ROOM, 0)]
    assert "disbanded_at" in listed[0]


def test_rooms_lists_more_rooms_than_one_page_of_the_library_holds(
    room: Room, ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, each room once."""
    for number in range(5):
        create_room(room.db, room_id=f"r{number}", name="R", members=[], authority_gateway_id=GATEWAY)
    monkeypatch.setattr("fsm.cli.rooms.MAX_ROOM_LIST_LIMIT", 2)
    ids = [each["room_id"] for each in json.loads(ask("rooms", room.location, "--json").out)]
    assert sorted(ids) == ["r0", "r1", "r2", "r3", "r4", ROOM]


def test_a_damaged_room_is_marked_and_the_others_are_listed(room: Room, ask: Asked) -> None:
    """One bad row hides no other."""
    create_room(room.db, room_id="sound", name="Sound", members=[], authority_gateway_id=GATEWAY)
    room.spoil(f"UPDATE hosted_rooms SET members_json = '[' WHERE room_id = '{ROOM}'")
    shown = ask("rooms", room.location)
    rows = {line.split()[0]: line for line in shown.out.splitlines() if GATEWAY in line}
    assert (shown.code, "corrupt" in rows[ROOM], "corrupt" in rows["sound"]) == (0, True, False)


def test_a_name_that_would_move_the_cursor_is_spelt_out(room: Room, ask: Asked) -> None:
    """A room's name may be any text; the terminal is not its to command."""
    create_room(room.db, room_id="loud", name="a\x1b[2Jb", members=[], authority_gateway_id=GATEWAY)
    shown = ask("rooms", room.location)
    assert "\x1b" not in shown.out
    assert r"a\x1b[2Jb" in shown.out


# --- task


def test_a_task_is_shown_whole_with_prompt_and_result(room: Room, ask: Asked) -> None:
    """The operator's own data is what the operator asked for."""
    (identity,) = room.admit("first line\nsecond line")
    lease = room.lease()
    settle_task(room.db, room.start(identity, lease), settlement_id="s1", status="settled", result={"stdout": "done"})
    shown, told = ask("task", "show", room.location, T1), ask("task", "show", room.location, T1, "--json")
    lines = shown.out.splitlines()
    assert (shown.code, shown.err) == (0, "")
    assert ("state           settled" in lines, "  second line" in lines, '"stdout": "done"' in shown.out) == (
        True,
    ) * 3
    assert f"process {lease.process_generation} of gateway {GATEWAY}, lease generation 1" in shown.out
    assert json.loads(told.out)["payload"]["prompt"] == "first line\nsecond line"
    assert json.loads(told.out)["result"] == {"stdout": "done"}


def test_a_damaged_task_is_shown_with_what_is_wrong_with_it(room: Room, ask: Asked) -> None:
    """`corrupt` stands for the content; identity, state and generations are still there."""
    (identity,) = room.admit("work")
    room.damage(identity)
    shown, told = ask("task", "show", room.location, T1), ask("task", "show", room.location, T1, "--json")
    assert (shown.code, "corrupt         the stored payload" in shown.out, "state           queued" in shown.out) == (
        0,
        True,
        True,
    )
    assert (json.loads(told.out)["payload"], "corrupt" in json.loads(told.out)) == (None, True)


@pytest.mark.engines("sqlite")
def test_times_that_are_none_are_shown_as_they_are_stored(room: Room, ask: Asked) -> None:
    """A row that was damaged in its numbers is shown too: no traceback, nothing hidden."""
    room.admit("work")
    room.spoil("UPDATE hosted_room_driver_tasks SET created_at = 'soon', started_at = 1e300")
    shown = ask("task", "show", room.location, T1)
    assert (shown.code, "created         soon" in shown.out, "begun           1e+300" in shown.out) == (0, True, True)


# --- lease


def test_a_lease_is_told_by_its_declared_state(room: Room, ask: Asked) -> None:
    """Vacant, held, released, expired: holder, generation, expiry and the seconds that are left."""
    vacant = json.loads(ask("lease", room.location, "--room", ROOM, "--json").out)
    lease = room.lease(ttl=60)
    held = json.loads(ask("lease", room.location, "--room", ROOM, "--json").out)
    shown = ask("lease", room.location, "--room", ROOM)
    release_lease(room.db, lease)
    released = json.loads(ask("lease", room.location, "--room", ROOM, "--json").out)
    room.lease(ttl=0.01)
    time.sleep(0.05)
    expired = json.loads(ask("lease", room.location, "--room", ROOM, "--json").out)
    assert [each["state"] for each in (vacant, held, released, expired)] == ["vacant", "held", "released", "expired"]
    assert (held["process_generation"], held["lease_generation"]) == (lease.process_generation, 1)
    assert 50 < held["seconds_left"] <= 60
    assert (vacant["seconds_left"], released["seconds_left"], expired["seconds_left"] < 0) == (None, None, True)
    assert ("state           held: " in shown.out, f"process         {lease.process_generation}" in shown.out) == (
        True,
        True,
    )


@pytest.mark.engines("sqlite")
def test_a_lease_row_in_no_declared_state_is_said_to_be_so(room: Room, ask: Asked) -> None:
    """An expiry that is no number: shown as stored, with no seconds left to count."""
    room.lease()
    room.spoil("UPDATE hosted_room_driver_leases SET expires_at = 'never'")
    shown, told = ask("lease", room.location, "--room", ROOM), ask("lease", room.location, "--room", ROOM, "--json")
    assert (shown.code, "in no declared state" in shown.out, "expires         never" in shown.out) == (0, True, True)
    assert json.loads(told.out)["seconds_left"] is None


# --- what they share

LOOKING = [("rooms", "{}"), ("task", "show", "{}", T1), ("lease", "{}", "--room", ROOM)]


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("asked", LOOKING)
def test_looking_changes_no_file_and_makes_none(room: Room, tmp_path: Path, asked: tuple[str, ...], ask: Asked) -> None:
    """Every file of the directory is the same afterwards, byte by byte: at rest, and beside a writer's log."""
    room.admit("work")
    with_log = files_of(tmp_path)
    assert ask(*(each.format(room.location) for each in asked)).code == 0
    assert {name: data for name, data in files_of(tmp_path).items() if not name.endswith("-shm")} == {
        name: data for name, data in with_log.items() if not name.endswith("-shm")
    }
    room.db.close()
    at_rest = files_of(tmp_path)
    assert list(at_rest) == ["state.db"]
    assert ask(*(each.format(room.location) for each in asked)).code == 0
    assert files_of(tmp_path) == at_rest


@pytest.mark.parametrize(
    "asked",
    [("task", "show", "{}", f"{ROOM}/none"), ("task", "show", "{}", "none/t1"), ("lease", "{}", "--room", "none")],
)
def test_what_is_not_there_is_refused(room: Room, asked: tuple[str, ...], ask: Asked) -> None:
    """A misspelt room or task: exit 1, one line that names it."""
    refused = ask(*(each.format(room.location) for each in asked))
    assert refused.is_refusal()
    assert "none" in refused.err


def test_looking_at_the_leases_of_a_disbanded_room_is_no_mistake(room: Room, ask: Asked) -> None:
    """Its rows are kept for a while, and so they can be seen."""
    disband_room(room.db, room_id=ROOM, expected_gateway_id=GATEWAY, expected_epoch=1)
    assert ask("lease", room.location, "--room", ROOM).code == 0


@pytest.mark.parametrize("columns", ["20", "400"])
def test_a_narrow_pipe_loses_no_cell_and_colours_none(room: Room, columns: str) -> None:
    """COLUMNS is for terminals; NO_COLOR and a pipe mean no escape at all."""
    done = run_fsm("rooms", room.location, COLUMNS=columns, NO_COLOR="1")
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
    (row,) = [line.split() for line in done.stdout.splitlines() if GATEWAY in line]
    assert row[:3] == [ROOM, "Room", GATEWAY]


@pytest.mark.parametrize(("columns", "tabular"), [("40", False), ("79", False), ("120", True)])
def test_a_narrow_terminal_gets_a_paragraph_for_each_room_and_a_wide_one_a_table(
    room: Room, columns: str, tabular: bool
) -> None:
    """No cell is squeezed to nothing; with NO_COLOR there is no escape for a colour in either."""
    create_room(room.db, room_id="second", name="Second", members=[], authority_gateway_id="install:" + "6" * 36)
    code, told = at_a_terminal("rooms", room.location, COLUMNS=columns, NO_COLOR="1", TERM="xterm-256color")
    lines = [line.rstrip() for line in told.splitlines()]
    assert (code, "\x1b[3" in told) == (0, False)
    assert all(each in told for each in (ROOM, "second", GATEWAY, "Second"))
    assert (f"authority       {GATEWAY}" in lines) != tabular


@pytest.mark.parametrize(("columns", "tabular"), [("20", False), ("79", False), ("120", True)])
def test_a_narrow_terminal_gets_a_paragraph_for_each_task_and_a_wide_one_a_table(
    room: Room, columns: str, tabular: bool
) -> None:
    """Every task is named whole with its state, whatever the width."""
    identities = room.admit("one", "two")
    code, told = at_a_terminal("tasks", room.location, "--room", ROOM, COLUMNS=columns, NO_COLOR="1", TERM="xterm")
    lines = [line.rstrip() for line in told.splitlines()]
    assert code == 0
    assert all(identity.task_id in told for identity in identities)
    assert told.count("queued") == len(identities)
    assert ("task            t1" in lines) != tabular
