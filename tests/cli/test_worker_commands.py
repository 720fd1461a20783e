"""`fsm workers`: the operator looks at executions, and nothing moves."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import storage
from fsm import sessions
from tests.cli.operator import Asked, at_a_terminal, files_of, fsm_here
from tests.sessions.support import Owner
from tests.workers.support import SECRET, Works
from tests.world import ManualClock


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Asked:
    """The installed command, in this process."""
    return partial(fsm_here, capfd)


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Path]:
    """Sessions `s` with a worker that has spoken and `t` with one that has not, and `empty` without."""
    place = tmp_path / "state.db"
    works = Works(Owner.begin(storage.open_database(place), ManualClock()))
    for session in ("t", "empty"):
        works.owner.open(session)
    works.register()
    works.append("s3cret words")
    works.register("w2", session_id="t", kind="child")
    works.db.close()
    yield place
    storage.open_database(place).close()


def altered(location: Path, settings: str) -> None:
    """Change worker `w` past the library."""
    with storage.open_database(location).transaction() as tx:
        tx.execute(f"UPDATE worker_executions SET {settings} WHERE execution_id = 'w'")


def test_executions_are_listed_by_session(location: Path, ask: Asked) -> None:
    """Each with its state, epoch, generation and how many operations it reported; neither secret nor transcript."""
    shown, told = ask("workers", location), ask("workers", location, "--json")
    assert (shown.code, told.code, shown.err, told.err) == (0, 0, "", "")
    assert [line.split() for line in shown.out.splitlines() if line.split()[:1] in (["w"], ["w2"])] == [
        ["w", "s", "cron", "running", "1", "0", "1"],
        ["w2", "t", "child", "registered", "1", "0", "0"],
    ]
    assert "2 executions" in shown.out
    assert [(view["execution_id"], view["status"]) for view in json.loads(told.out)] == [
        ("w", "running"),
        ("w2", "registered"),
    ]
    assert "adoption_digest" not in told.out
    assert not any(hidden in shown.out + told.out for hidden in (SECRET, "s3cret"))


def test_a_session_may_be_chosen(location: Path, ask: Asked) -> None:
    """Only its executions are listed; one without any is told from one that there is not."""
    chosen = ask("workers", location, "--session", "t", "--json")
    assert [view["execution_id"] for view in json.loads(chosen.out)] == ["w2"]
    assert json.loads(ask("workers", location, "--session", "empty", "--json").out) == []
    assert ask("workers", location, "--session", "nowhere").is_refusal()


def test_a_narrow_terminal_gets_one_below_the_other(location: Path) -> None:
    """On a terminal too narrow for the table nothing is cut off."""
    code, told = at_a_terminal("workers", location, COLUMNS="40")
    assert (code, "operations      1" in told, "kind            child" in told) == (0, True, True)


def test_a_damaged_row_hides_nothing(location: Path, ask: Asked) -> None:
    """What a row holds that it should not is shown as it is, without what would move the terminal's cursor."""
    altered(location, "kind = '\x1b[2Jodd', generation = 'many'")
    shown = ask("workers", location)
    assert (shown.code, "many" in shown.out, "\x1b" in shown.out, r"\x1b[2Jodd" in shown.out) == (0, True, False, True)
    assert ask("workers", location, "--json").code == 0


def test_looking_writes_nothing(location: Path, ask: Asked) -> None:
    """No byte of the database changes."""
    before = files_of(location.parent)["state.db"]
    ask("workers", location)
    assert files_of(location.parent)["state.db"] == before


@pytest.mark.parametrize("arguments", [(), ("--session",), ("x.db", "--session", " "), ("x.db", "--room", "r")])
def test_a_mistake_is_told_in_one_line(ask: Asked, arguments: tuple[str, ...]) -> None:
    """What is missing, blank or unknown: exit 2."""
    assert ask("workers", *arguments).is_refusal(2)


def test_a_file_that_is_not_ours_stays_as_it_is(tmp_path: Path, ask: Asked) -> None:
    """A missing file is not made, and a database without workers is not given our tables."""
    missing, foreign = tmp_path / "missing.db", tmp_path / "foreign.db"
    assert ask("workers", missing).is_refusal()
    assert not missing.exists()
    handle = storage.open_database(foreign)
    handle.write(lambda tx: tx.execute("CREATE TABLE notes (text TEXT)"))
    handle.close()
    before = files_of(tmp_path)["foreign.db"]
    assert ask("workers", foreign).is_refusal()
    assert files_of(tmp_path)["foreign.db"] == before


def test_diagrams_mark_a_worker_and_a_turn(location: Path, ask: Asked) -> None:
    """`--record` takes the id of an execution, or of the session with which a conversation began."""
    works = Works(Owner(storage.open_database(location), ManualClock(), 1))
    works.do("turn.acquire", {"holder": "h"})
    works.db.close()
    for lifecycle, record, mark in (
        ("worker_execution", "w", "class s1 present"),
        ("session_turn_lease", "empty", "class s0 present"),
    ):
        drawn = ask("diagram", lifecycle, "--db", location, "--record", record)
        assert (drawn.code, mark in drawn.out) == (0, True)
    assert ask("diagram", "worker_execution", "--db", location, "--record", "nowhere").is_refusal()


def test_an_empty_database_has_no_executions(tmp_path: Path, ask: Asked) -> None:
    """Where nobody has registered a worker the list is empty."""
    place = tmp_path / "state.db"
    sessions.create_session(place, "s", source="cli")
    assert json.loads(ask("workers", place, "--json").out) == []
    storage.open_database(place).close()
