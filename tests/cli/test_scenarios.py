"""`fsm run`: scenarios that hold, scenarios that do not, and files that are none."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsm.__main__ import main
from fsm.cli.scenarios.catalogue import CALLS, ERRORS, MODULES, VALUES
from fsm.cli.scenarios.staging import staged
from tests.cli.processes import Room, is_one_line, run_fsm
from tests.engines import Engine

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.jsonl"))
MEMORY = ":memory:"

ROOM = {"room_id": "lobby", "name": "Lobby", "members": [], "authority_gateway_id": "gw"}
CREATE: dict[str, Any] = {"call": "rooms.create_room", "with": ROOM, "as": "room"}
ACQUIRE: dict[str, Any] = {
    "call": "driver.acquire_lease",
    "with": {
        "room_id": "lobby",
        "gateway_id": "gw",
        "authority_epoch": 1,
        "process_generation": "p1",
        "ttl_seconds": 60,
    },
    "as": "lease",
}
STATE: dict[str, Any] = {"call": "rooms.room_state", "with": {"room_id": "lobby"}}

Play = Callable[..., tuple[int, str, str]]


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Play:
    """Runs lines, each an object or the text of one; answers with the exit code, the output and the errors."""

    def run(*lines: object, location: object = MEMORY, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        file = tmp_path / "scenario.jsonl"
        file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines))
        code = main(["run", str(file), str(location), *options])
        return code, *capsys.readouterr()

    return run


def name_of(path: Path) -> str:
    """Return how a scenario is called in the report."""
    return path.stem


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a scenario."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def altered(expected: Any) -> Any:
    """Return another expectation than this one, changed in its last leaf."""
    if isinstance(expected, dict) and expected and not any(key.startswith("$") for key in expected):
        last = list(expected)[-1]
        return {**expected, last: altered(expected[last])}
    if isinstance(expected, list) and expected:
        return [*expected[:-1], altered(expected[-1])]
    return not expected if isinstance(expected, bool) else [expected, "another"]


def test_there_are_scenarios_and_each_says_what_it_is_about() -> None:
    """Every scenario begins with a note, and its lines are few."""
    assert len(SCENARIOS) >= 10
    for path in SCENARIOS:
        assert list(lines_of(path)[0]) == ["note"]
        assert len(lines_of(path)) <= 40


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_a_scenario_holds_on_every_engine_and_tells_the_same_each_time(
    path: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clock and ids are the scenario's own: three runs, for people and for programs, differ in no character."""
    for options in ([], ["--json"]):
        told = set()
        for location in (MEMORY, engine.empty() if options else engine.location(), engine.empty()):
            assert main(["run", str(path), str(location), *options]) == 0
            output, errors = capsys.readouterr()
            assert errors == ""
            told.add(output)
        assert len(told) == 1


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_a_scenario_notices_when_its_last_expectation_does_not_hold(path: Path, play: Play) -> None:
    """Exit 1, one line that names the line, and no step after it."""
    lines = lines_of(path)
    last = max(number for number, line in enumerate(lines) if {"expect", "raises"} & line.keys())
    if "raises" in lines[last]:
        lines[last]["raises"] = "LeaseHeldError" if lines[last]["raises"] != "LeaseHeldError" else "StaleLeaseError"
    else:
        lines[last]["expect"] = altered(lines[last]["expect"])
    code, output, errors = play(*lines, options=("--json",))
    assert code == 1
    assert is_one_line(errors)
    assert errors.startswith(f"fsm: line {last + 1}: {lines[last]['call']}: ")
    assert len(output.splitlines()) == last + 1
    assert "differences" in json.loads(output.splitlines()[-1])


def test_every_public_function_of_every_module_can_be_named() -> None:
    """What a module exports is a call, a value class or neither; every argument but the database has a name."""
    public = {
        f"{module.__name__.removeprefix('fsm.')}.{name}": getattr(module, name)
        for module in MODULES
        for name in module.__all__
    }
    assert {name: call.function for name, call in CALLS.items()} == {
        name: value for name, value in public.items() if inspect.isfunction(value)
    }
    for call in CALLS.values():
        whole = list(inspect.signature(call.function).parameters.values())
        parameters = [each for each in whole[call.takes != "neither" :] if each.kind is not each.VAR_KEYWORD]
        assert [each.name for each in parameters] == list(call.arguments)
        assert call.open is any(each.kind is each.VAR_KEYWORD for each in whole)
        assert {each.kind for each in parameters} <= {
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        }
    assert {"TaskIdentity", "DriverLease", "TaskAttempt"} <= set(VALUES)
    assert {"LifecycleError", "AuthoritySupersededError", "OutcomeUnknownError"} <= set(ERRORS)


@pytest.mark.parametrize("name", CALLS)
def test_every_public_function_is_reached(
    name: str, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nulls for all that it needs a function is really called, and answers or refuses as the library does."""
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / "home"))
    step = {"call": name, "with": dict.fromkeys(CALLS[name].required)}
    _, output, _ = play(step, options=("--json",))
    told = json.loads(output)
    assert told["call"] == name
    assert "result" in told or told["error"] in ERRORS


MISTAKES: dict[str, tuple[object, str]] = {
    "a syntax error": ('{"call": "rooms.room_state" "with"}', "line 2: column 29: "),
    "two values": ('{"note": ""} {}', "line 2: column 14: "),
    "text that is not closed": ('{"note": "', "line 2: column 10: "),
    "NaN": ('{"at": NaN, "call": "rooms.room_state"}', "line 2: NaN is no JSON number"),
    "an endless number": ('{"at": 1e999, "call": "rooms.room_state"}', "line 2: 1e999: expected a finite number"),
    "too many digits": (f'{{"at": {"9" * 5000}}}', "line 2: it holds a number with too many digits"),
    "endless nesting": ("[" * 100_000, "line 2: it is nested too deep"),
    "deep nesting": ({**STATE, "expect": json.loads("[" * 150 + "]" * 150)}, "line 2: it is nested deeper than 100"),
    "a key twice": ('{"note": "", "note": ""}', "line 2: the key note is given twice"),
    "no object": ("[]", "line 2: wrong type: a line is one JSON object"),
    "null": ("null", "line 2: wrong type: a line is one JSON object"),
    "an unknown key": ({**STATE, "expects": {}}, "line 2: unknown key expects; did you mean expect?"),
    "no call": ({"at": 1}, "line 2: a line has a call, or a note"),
    "a note with a call": ({"note": "", **STATE}, "line 2: a note stands alone"),
    "a note of another type": ({"note": 1}, "line 2: wrong type of note: it is text"),
    "an instant of another type": ({**STATE, "at": "1"}, "line 2: wrong type of at: it is a number"),
    "an instant that is a bool": ({**STATE, "at": True}, "line 2: wrong type of at: it is a number"),
    "an instant beyond numbers": ({**STATE, "at": 10**400}, "line 2: at: expected a finite number"),
    "arguments of another type": ({**STATE, "with": []}, "line 2: wrong type of with: it is an object"),
    "a call of another type": ({"call": 1}, "line 2: wrong type of call: it is text"),
    "a name of another type": ({**STATE, "as": 1}, "line 2: wrong type of as: it is text"),
    "a name with a dot": ({**STATE, "as": "a.b"}, "line 2: as: a.b is no name"),
    "a name twice": ({**STATE, "as": "room"}, "line 2: as: the name room is taken by line 1"),
    "an error of another type": ({**STATE, "raises": {}}, "line 2: wrong type of raises: it is text"),
    "an unknown call": ({"call": "rooms.room_stat"}, "line 2: unknown call rooms.room_stat; did you mean rooms.room"),
    "a call that is a class": ({"call": "driver.TaskIdentity"}, "line 2: unknown call driver.TaskIdentity"),
    "a call of elsewhere": ({"call": "os.remove"}, "line 2: unknown call os.remove"),
    "an unknown error": ({**STATE, "raises": "ValueError"}, "line 2: unknown error ValueError"),
    "raises and expect": ({**STATE, "raises": "LifecycleError", "expect": 1}, "line 2: expect and raises exclude"),
    "raises and as": ({**STATE, "raises": "LifecycleError", "as": "x"}, "line 2: as and raises exclude"),
    "an unknown argument": ({**STATE, "with": {"room": ""}}, "line 2: rooms.room_state takes no room; did you mean"),
    "the database as an argument": ({**STATE, "with": {"db": ""}}, "line 2: rooms.room_state takes no db"),
    "a missing argument": ({**STATE, "with": {}}, "line 2: rooms.room_state needs room_id"),
    "an unknown reference": ({**STATE, "with": {"room_id": {"$": "rom"}}}, "unknown reference rom; did you mean room?"),
    "a reference to its own line": ({**STATE, "as": "x", "expect": [{"$": "x"}]}, "line 2: unknown reference x"),
    "a reference of another type": ({**STATE, "expect": {"$": 1}}, "line 2: wrong type in a reference"),
    "a change of another type": ({**STATE, "expect": {"$": "room", "change": 1}}, "line 2: wrong type in a reference"),
    "a reference with more": ({**STATE, "expect": {"$": "room", "x": 1}}, "line 2: unknown key x beside $"),
    "an unknown value": ({**STATE, "expect": {"$TaskIdentiy": {}}}, "$TaskIdentiy; did you mean $TaskIdentity?"),
    "a value with more": ({**STATE, "expect": {"$TaskIdentity": {}, "x": 1}}, "line 2: $TaskIdentity stands alone"),
    "a value of another type": ({**STATE, "expect": {"$TaskIdentity": 1}}, "line 2: $TaskIdentity stands alone"),
    "an unknown field": ({**STATE, "expect": {"$TaskIdentity": {"x": 1}}}, "line 2: $TaskIdentity has no field x"),
    "a missing field": (
        {**STATE, "expect": {"$TaskIdentity": {"room_id": "r"}}},
        "line 2: $TaskIdentity lacks task_id",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_line_that_is_none_is_told_before_anything_is_called(case: str, play: Play, tmp_path: Path) -> None:
    """Exit 2, one line with the number of the line, and no database is made."""
    line, words = MISTAKES[case]
    code, output, errors = play(CREATE, line, location=tmp_path / "state.db")
    assert (code, output) == (2, "")
    assert is_one_line(errors)
    assert "line 2: " in errors
    assert words in errors
    assert not (tmp_path / "state.db").exists()


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ({"$": "room.nam"}, "line 3: unknown reference room.nam; did you mean name?"),
        ({"$": "room.members.0"}, "line 3: unknown reference room.members.0; known: none"),
        ({"$": "room.name.x"}, "line 3: unknown reference room.name.x"),
        ({"$": "lease.arguments"}, "line 3: unknown reference lease.arguments"),
        ({"$": "room", "change": {"name": "x"}}, "line 3: room cannot be changed"),
        ({"$": "lease", "change": {"x": 1}}, "line 3: lease has no field x"),
    ],
)
def test_a_part_that_a_result_lacks_is_a_mistake_of_the_line(term: object, words: str, play: Play) -> None:
    """Only the result can tell; exit 2 all the same."""
    for line in ({**STATE, "with": {"room_id": term}}, {**STATE, "expect": term}):
        code, _, errors = play(CREATE, ACQUIRE, line)
        assert code == 2
        assert is_one_line(errors)
        assert words in errors


def test_an_expected_value_that_cannot_be_is_a_mistake_of_the_line(play: Play) -> None:
    """What the library refuses to make, no call can return."""
    value = {"$TaskIdentity": dict.fromkeys(("room_id", "task_id", "thread_id", "turn_id"))}
    code, _, errors = play(CREATE, {**STATE, "expect": value})
    assert code == 2
    assert "line 2: expect: room_id: expected an identifier" in errors


def test_an_argument_that_cannot_be_is_refused_by_the_library(play: Play) -> None:
    """A scenario may expect that a value is refused as soon as it is made."""
    blank = {"$TaskIdentity": {"room_id": " ", "task_id": "t", "thread_id": "t", "turn_id": "t"}}
    step = {"call": "driver.get_task", "with": {"identity": blank}, "raises": "DriverValidationError"}
    assert play(step)[0] == 0
    changed = {"$": "lease", "change": {"lease_generation": 0}}
    refused = {"call": "driver.release_lease", "with": {"lease": changed}, "raises": "DriverValidationError"}
    assert play(CREATE, ACQUIRE, refused)[0] == 0


@pytest.mark.parametrize("content", [None, b"", b"\n  \n", b'{"note": "nothing else"}', b'{"note": "\xff"}'])
def test_a_file_that_is_no_scenario_is_a_mistake(content: bytes | None, tmp_path: Path) -> None:
    """Missing, empty, without a call, or not UTF-8: exit 2, one line."""
    file = tmp_path / "scenario.jsonl"
    if content is not None:
        file.write_bytes(content)
    refused = run_fsm("run", file, tmp_path / "state.db")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert is_one_line(refused.stderr)
    assert not (tmp_path / "state.db").exists()


DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"expect": {"name": "Attic"}}, 'name: expected "Attic", found "Lobby"'),
    ({"expect": {"revision": 2, "name": "Attic"}}, "revision: expected 2, found 1 (and 1 more)"),
    ({"expect": {"disbanded_at": None}}, "disbanded_at: expected null, found nothing"),
    ({"expect": {"authority_epoch": True}}, "authority_epoch: expected true, found 1"),
    ({"expect": {"idempotent": 0}}, "idempotent: expected 0, found false"),
    ({"expect": {"members": {}}}, "members: expected {}, found [{"),
    ({"expect": {"members": []}}, "members.length: expected 0, found 1"),
    ({"expect": {"members": [{"id": "bob"}]}}, 'members.0.id: expected "bob", found "ann"'),
    ({"expect": None}, "expected null, found {"),
    ({"expect": []}, "expected [], found {"),
    ({"raises": "RoomNotFoundError"}, 'expected RoomNotFoundError, found the result {"'),
]


@pytest.mark.parametrize(("expectation", "words"), DIFFERENCES)
def test_a_difference_is_told_with_its_place(expectation: dict[str, Any], words: str, play: Play) -> None:
    """Exit 1, one line: the line, the call, what was expected and what was found."""
    create = {**CREATE, "with": {**ROOM, "members": [{"id": "ann"}]}}
    code, output, errors = play(create, {**STATE, **expectation}, STATE)
    assert code == 1
    assert is_one_line(errors)
    assert f"line 2: rooms.room_state: {words}" in errors
    assert len(output.splitlines()) == 2


@pytest.mark.parametrize(
    ("expectation", "words"),
    [
        ({}, "expected a result, found RoomNotFoundError: "),
        ({"expect": {}}, "expected a result, found RoomNotFoundError: "),
        ({"raises": "HostedRoomError"}, "expected HostedRoomError, found RoomNotFoundError: "),
    ],
)
def test_an_error_counts_as_exactly_its_class(expectation: dict[str, Any], words: str, play: Play) -> None:
    """Neither a result nor a base class is as good."""
    code, _, errors = play({**STATE, **expectation})
    assert code == 1
    assert is_one_line(errors)
    assert f"line 1: rooms.room_state: {words}" in errors
    assert play({**STATE, "raises": "RoomNotFoundError"})[0] == 0


def test_what_is_expected_may_be_less_than_what_is_found(play: Play) -> None:
    """Fields that are not given may be anything; 1 is 1.0; references stand for values here too."""
    create = {**CREATE, "with": {**ROOM, "members": [{"id": "ann", "label": "Ann"}]}}
    expected = {"authority_epoch": 1.0, "created_at": 0, "members": [{"id": "ann"}], "name": {"$": "room.name"}}
    assert play(create, {**STATE, "expect": expected})[0] == 0
    assert play(create, {**STATE, "expect": {"$": "room"}})[0] == 0


def test_programs_are_told_every_step_and_every_note(play: Play) -> None:
    """One JSON object a line: results whole, errors with their message, differences one by one."""
    missing = {"at": 5, "call": "rooms.room_state", "with": {"room_id": "none"}, "raises": "RoomNotFoundError"}
    wrong = {**STATE, "expect": {"name": "Attic", "disbanded_at": 1}}
    code, output, _ = play({"note": "a note"}, CREATE, missing, wrong, options=("--json",))
    note, created, raised, differing = map(json.loads, output.splitlines())
    assert code == 1
    assert note == {"line": 1, "note": "a note"}
    assert (created["line"], created["at"], created["result"]["name"]) == (2, 0, "Lobby")
    assert (raised["at"], raised["error"]) == (5, "RoomNotFoundError")
    assert differing["differences"] == [
        {"path": "name", "expected": "Attic", "found": "Lobby"},
        {"path": "disbanded_at", "expected": 1},
    ]


def test_the_clock_is_that_of_the_last_line_that_set_it(play: Play) -> None:
    """It starts at 0, stays where it is without `at`, and steps back."""
    rooms = [{**CREATE, "with": {**ROOM, "room_id": f"r{number}"}, "as": f"r{number}"} for number in range(4)]
    steps = [rooms[0], {**rooms[1], "at": 7.5}, rooms[2], {**rooms[3], "at": -1}]
    expected = [{**step, "expect": {"created_at": at}} for step, at in zip(steps, (0, 7.5, 7.5, -1), strict=True)]
    assert play(*expected)[0] == 0


def test_new_ids_are_counted() -> None:
    """The handle's new ids are id-1, id-2, and so on, in each run."""
    for _ in range(2):
        with staged(MEMORY) as stage:
            assert [stage.db.new_id(), stage.db.new_id()] == ["id-1", "id-2"]


def test_a_database_may_be_in_use_and_hold_other_things(room: Room, tmp_path: Path) -> None:
    """A scenario joins what is there; one that needs an empty database says so by what it expects."""
    file = tmp_path / "scenario.jsonl"
    file.write_text(json.dumps({**CREATE, "expect": {"idempotent": False}}))
    first, second = (run_fsm("run", file, room.location) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 1)
    assert "line 1: rooms.create_room: idempotent: expected false, found true" in second.stderr
    assert room.tasks() == []


def test_only_a_terminal_gets_colours(tmp_path: Path) -> None:
    """Plain lines in a pipe, however long; a note in one line, whatever it holds."""
    file = tmp_path / "scenario.jsonl"
    note = "x" * 250 + "\n\x1b[31m \N{LINE SEPARATOR} end"
    file.write_text("\n".join(map(json.dumps, ({"note": note}, {**CREATE, "expect": {"name": "Lobby"}}))))
    plain, coloured = run_fsm("run", file, MEMORY), run_fsm("run", file, MEMORY, FORCE_COLOR="1", TERM="xterm")
    assert plain.stdout.splitlines() == [
        "# " + "x" * 250 + " ?[31m end",
        'line 2, at 0: rooms.create_room returned {"name": "Lobby"}',
        "steps as expected: 1",
    ]
    assert "\x1b" in coloured.stdout


@pytest.mark.parametrize("arguments", [(), ("scenario.jsonl",), ("scenario.jsonl", " "), ("a", "b", "c")])
def test_both_file_and_location_are_needed(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, one line."""
    assert main(["run", *arguments]) == 2
    assert is_one_line(capsys.readouterr().err)


SESSION: dict[str, Any] = {"call": "sessions.create_session", "with": {"session_id": "s", "source": "cli"}}
CLAIM: dict[str, Any] = {"call": "sessions.claim_session_input", "with": {"epoch": 1, "session_id": "s"}}


def test_a_reason_is_compared_with_the_error(play: Play) -> None:
    """An error that carries a reason is told apart from one of its class for another reason."""
    right = {**CLAIM, "raises": "RuntimeStoreError: stale_epoch"}
    assert play(SESSION, right)[0] == 0
    assert play(SESSION, {**CLAIM, "raises": "RuntimeStoreError"})[0] == 0
    code, output, errors = play(SESSION, {**CLAIM, "raises": "RuntimeStoreError: not_found"}, options=("--json",))
    assert (code, "expected RuntimeStoreError: not_found, found RuntimeStoreError: stale_epoch" in errors) == (1, True)
    assert json.loads(output.splitlines()[-1])["differences"] == [
        {"path": "raises.reason", "expected": "not_found", "found": "stale_epoch"}
    ]


@pytest.mark.parametrize(
    ("raises", "said"),
    [
        ("RuntimeStoreError: stale", "unknown reason stale; did you mean stale_epoch?"),
        ("StaleLeaseError: stale_epoch", "StaleLeaseError has no reasons"),
    ],
)
def test_a_reason_must_be_one(play: Play, raises: str, said: str) -> None:
    """A reason that there is not, and one of an error without reasons, is a mistake of the scenario."""
    code, _, errors = play({**CLAIM, "raises": raises})
    assert (code, said in errors) == (2, True)
