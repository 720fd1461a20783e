"""`fsm sessions`, `fsm admissions`, `fsm recover` and `fsm admission resolve`, as an operator uses them."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import define

import storage
from fsm import sessions
from tests.cli.operator import Asked, at_a_terminal, files_of, fsm_here
from tests.sessions.support import Owner
from tests.world import ManualClock


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


@define
class Runtime:
    """A database of sessions on disk, which every command closes behind it, and its present epoch."""

    location: Path
    epoch: int = 1

    @property
    def owner(self) -> Owner:
        """The owner of the epoch, on a handle that is open."""
        return Owner(storage.open_database(self.location), ManualClock(), self.epoch)

    def succeed(self) -> None:
        """Let another owner begin the next epoch."""
        self.epoch = self.owner.succeed().epoch

    def lose(self) -> sessions.AdmissionView:
        """Let the owner vanish, and its successor recover; return the turn that is unknown now."""
        self.succeed()
        self.owner.recover()
        return sessions.list_session_admissions(self.location, session_id="s")[0]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """A session `s` with a running turn and a queued input, and an empty session `t` that continues nothing."""
    runtime = Runtime(tmp_path / "state.db")
    owner = Owner.begin(storage.open_database(runtime.location), ManualClock())
    owner.open("t", title="s3cret title")
    owner.start("r1")
    owner.admit("r2", payload={"text": "s3cret"})
    yield runtime
    runtime.owner.db.close()


# --- looking


def test_sessions_are_listed_with_what_is_open(runtime: Runtime, ask: Asked) -> None:
    """Each session with its counters, the oldest first; in JSON whole, with how many inputs are in each state."""
    shown, told = ask("sessions", runtime.location), ask("sessions", runtime.location, "--json")
    views = json.loads(told.out)
    assert (shown.code, told.code, shown.err) == (0, 0, "")
    assert [(view["id"], view["open"], view["runtime_generation"]) for view in views] == [
        ("s", {"queued": 1, "started": 1}, 1),
        ("t", {}, 0),
    ]
    assert "1 queued, 1 started" in shown.out
    assert "2 sessions" in shown.out


def test_a_narrow_terminal_gets_one_session_below_the_other(runtime: Runtime) -> None:
    """On a terminal too narrow for the table nothing is cut off."""
    code, told = at_a_terminal("sessions", runtime.location, COLUMNS="40")
    assert (code, "generation      1" in told, "open            1 queued, 1 started" in told) == (0, True, True)


def test_admissions_are_listed_in_their_order(runtime: Runtime, ask: Asked) -> None:
    """What is open, or with --all everything; what was asked is shown in JSON alone."""
    shown, told = (
        ask("admissions", runtime.location, "--session", "s"),
        ask("admissions", runtime.location, "--session", "s", "--json"),
    )
    assert (shown.code, "started" in shown.out, "s3cret" in shown.out) == (0, True, False)
    assert json.loads(told.out) == sessions.list_session_admissions(runtime.location, session_id="s")
    runtime.owner.cancel(runtime.owner.row("r2"))
    everything = ask("admissions", runtime.location, "--session", "s", "--all", "--json")
    assert [each["outcome"] for each in json.loads(everything.out)] == [None, "cancelled"]
    assert len(json.loads(ask("admissions", runtime.location, "--session", "s", "--json").out)) == 1


def test_an_empty_queue_is_told_from_a_misspelt_session(runtime: Runtime, ask: Asked) -> None:
    """A session without inputs answers with none; one that there is not is refused."""
    assert json.loads(ask("admissions", runtime.location, "--session", "t", "--json").out) == []
    assert ask("admissions", runtime.location, "--session", "nowhere").is_refusal()


def test_a_damaged_payload_hides_nothing(runtime: Runtime, ask: Asked) -> None:
    """A row that nobody can decode is listed with its reason, and control characters reach no terminal."""
    runtime.owner.alter("r2", payload_json="{", principal_id="\x1b[31mp")
    shown = ask("admissions", runtime.location, "--session", "s")
    assert (shown.code, "corrupt: the stored payload" in shown.out, "\x1b" in shown.out) == (0, True, False)


# --- deciding


def test_recovery_marks_what_older_epochs_left(runtime: Runtime, ask: Asked) -> None:
    """Under the present epoch, which stays; asked again it finds nothing more."""
    runtime.succeed()
    first, second = (ask("recover", runtime.location, "--json") for _ in range(2))
    assert (json.loads(first.out), json.loads(second.out)) == ({"epoch": 2, "lost": 1}, {"epoch": 2, "lost": 0})
    assert runtime.owner.state("r1") == "unknown"
    assert ask("recover", runtime.location).out == "epoch 2: 0 turns are unknown now\n"


def test_the_work_of_the_present_epoch_is_not_touched(runtime: Runtime, ask: Asked) -> None:
    """Without --begin a living owner loses nothing."""
    assert json.loads(ask("recover", runtime.location, "--json").out) == {"epoch": 1, "lost": 0}
    assert runtime.owner.state("r1") == "started"


def test_an_operator_may_take_a_lost_owners_place(runtime: Runtime, ask: Asked) -> None:
    """With --begin an epoch begins under the name that is given, and the owner until now is stale."""
    told = ask("recover", runtime.location, "--begin", "operator", "--yes", "--json")
    assert json.loads(told.out) == {"epoch": 2, "lost": 1}
    owner = runtime.owner
    with owner.refuses("stale_epoch"):
        owner.recover()
    assert runtime.owner.everything()["runtime_epoch"][0]["instance_id"] == "operator"


def test_an_unknown_turn_is_given_up(runtime: Runtime, ask: Asked) -> None:
    """It counts as interrupted, the queue goes on, and every transition can be followed."""
    turn = runtime.lose()
    told = ask("admission", "resolve", runtime.location, turn["admission_id"], "--yes", "--events")
    (event,) = [json.loads(line) for line in told.out.splitlines()]
    assert (told.code, event["trigger"], event["dest"]) == (0, "resolve", "interrupted")
    assert runtime.owner.claim()["request_id"] == "r2"


def test_a_resolution_answers_with_what_is_stored(runtime: Runtime, ask: Asked) -> None:
    """In JSON the view, in words one line."""
    turn = runtime.lose()
    told = ask("admission", "resolve", runtime.location, turn["admission_id"], "--yes", "--json")
    stored = sessions.get_session_admission(runtime.location, admission_id=turn["admission_id"])
    assert json.loads(told.out) == stored


@pytest.mark.parametrize("state", ["queued", "started", "cancelled"])
def test_only_an_unknown_turn_is_given_up(runtime: Runtime, ask: Asked, state: str) -> None:
    """Any other is refused by what it is, and nothing is written."""
    if state == "cancelled":
        runtime.owner.cancel(runtime.owner.row("r2"))
    row = runtime.owner.row("r1" if state == "started" else "r2")
    assert row is not None
    before = runtime.owner.everything()
    told = ask("admission", "resolve", runtime.location, row["admission_id"], "--yes")
    assert runtime.owner.everything() == before
    assert (told.is_refusal(), f"is {state}; only one that is unknown" in told.err) == (True, True)
    assert ask("admission", "resolve", runtime.location, "nowhere", "--yes").is_refusal()


@pytest.mark.parametrize(("typed", "state"), [("y\n", "interrupted"), ("n\n", "unknown")])
def test_a_person_is_asked_before(runtime: Runtime, typed: str, state: str) -> None:
    """At a terminal the turn is shown, without what was asked, and nothing is done unless the answer is yes."""
    turn = runtime.lose()
    code, told = at_a_terminal("admission", "resolve", runtime.location, turn["admission_id"], typed=typed)
    assert (code == 0, "session         s" in told, "do r1" in told) == (state == "interrupted", True, False)
    assert runtime.owner.state("r1") == state


Command = Callable[[Path], tuple[Any, ...]]
COMMANDS: dict[str, Command] = {
    "sessions": lambda location: ("sessions", location),
    "admissions": lambda location: ("admissions", location, "--session", "s"),
    "recover": lambda location: ("recover", location),
    "begin": lambda location: ("recover", location, "--begin", "x", "--yes"),
    "resolve": lambda location: ("admission", "resolve", location, "a", "--yes"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_is_not_ours_stays_as_it_is(tmp_path: Path, ask: Asked, name: str) -> None:
    """A missing file is not made, and neither a foreign database nor one of rooms alone is given our tables."""
    missing = tmp_path / "missing.db"
    assert ask(*COMMANDS[name](missing)).is_refusal()
    assert not missing.exists()
    foreign = tmp_path / "foreign.db"
    handle = storage.open_database(foreign)
    handle.write(lambda tx: tx.execute("CREATE TABLE notes (text TEXT)"))
    handle.close()
    before = files_of(tmp_path)
    assert ask(*COMMANDS[name](foreign)).is_refusal()
    assert files_of(tmp_path)["foreign.db"] == before["foreign.db"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("admissions", "x.db"),
        ("admissions", "x.db", "--session", " "),
        ("recover", "x.db", "--begin", ""),
        ("admission", "resolve", "x.db"),
        ("admission", "resolve", "x.db", "\t", "--yes"),
        ("recover", "x.db", "--begin", "x"),
        ("admission", "resolve", "x.db", "a"),
    ],
)
def test_a_mistake_is_told_in_one_line(ask: Asked, arguments: tuple[str, ...]) -> None:
    """What is missing or blank, and a question that nobody could answer: exit 2."""
    assert ask(*arguments).is_refusal(2)


def test_without_an_epoch_nothing_can_have_been_left(tmp_path: Path, ask: Asked) -> None:
    """A gateway that has never begun an epoch has nothing to recover, until one begins."""
    location = tmp_path / "state.db"
    sessions.create_session(location, "s", source="cli")
    assert ask("recover", location).is_refusal()
    assert json.loads(ask("recover", location, "--begin", "first", "--yes", "--json").out) == {"epoch": 1, "lost": 0}


def test_a_diagram_marks_the_state_of_an_admission(runtime: Runtime, ask: Asked) -> None:
    """`--record` takes the id of an admission; one that there is not is refused."""
    row = runtime.owner.row("r1")
    assert row is not None
    drawn = ask("diagram", "session_admission", "--db", runtime.location, "--record", row["admission_id"])
    assert (drawn.code, "class s1 present" in drawn.out) == (0, True)
    assert ask("diagram", "session_admission", "--db", runtime.location, "--record", "nowhere").is_refusal()
