"""Admissions of an older gateway: what is taken over, what is refused, and that the file stays evidence."""

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import storage
from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import predicate
from fsm.runtime.machines import ADMISSION_MACHINE
from tests import bad_input as bad
from tests.sessions.mutating import Desk
from tests.sessions.support import Owner

COLUMNS = ("seq", "admission_id", "root", "target_session_id", "lineage", "payload", "status", "outcome", "generation")


def row(name: str = "a1", **changes: Any) -> dict[str, Any]:
    """Return an admission as an older gateway stored it."""
    return {
        "seq": None,
        "admission_id": name,
        "root": "s",
        "target_session_id": "s",
        "lineage": '["s"]',
        "payload": '{"text": "héllo"}',
        "status": "queued",
        "outcome": None,
        "generation": None,
        **changes,
    }


def write(
    path: Path,
    rows: list[dict[str, Any]],
    executions: list[tuple[Any, Any]] | None = None,
    journal: str = "wal",
    columns: tuple[str, ...] = COLUMNS,
) -> Path:
    """Write the file of an older gateway; its `seq` is the order of the rows where they name none."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute(f"PRAGMA journal_mode = {journal}")
        old.execute(f"CREATE TABLE admissions ({', '.join(columns)})")
        for seq, each in enumerate(rows, start=1):
            values = {**each, "seq": seq if each["seq"] is None else each["seq"]}
            old.execute(
                f"INSERT INTO admissions VALUES ({', '.join('?' * len(columns))})", [values[name] for name in columns]
            )
        if executions is not None:
            old.execute("CREATE TABLE executions (root, generation)")
            old.executemany("INSERT INTO executions VALUES (?, ?)", executions)
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The place of the older gateway's file, in a directory of its own."""
    (place := tmp_path / "old").mkdir()
    return place / "prompts.db"


def take(owner: Owner, path: object, **changes: Any) -> int:
    """Import the file."""
    arguments = {"epoch": owner.epoch, "principal_id": "p", "writers_drained": True, **changes}
    return sessions.import_legacy_session_admissions(owner.db, source_path=path, **arguments)


def files(place: Path) -> dict[str, tuple[int, bytes]]:
    """Return name, time of change and content of each file."""
    return {each.name: (each.stat().st_mtime_ns, each.read_bytes()) for each in sorted(place.iterdir())}


STATES = {state.name: state for state in ADMISSION_MACHINE.lifecycle.states}
DECLARED = {
    ("queued", None, None): "queued",
    ("started", None, 3): "unknown",
    ("started", None, None): "unknown",
    ("unknown", None, 3): "unknown",
    ("terminal", "completed", 3): "completed",
    ("terminal", "interrupted", 3): "interrupted",
    ("terminal", "rejected", 3): "rejected",
    ("terminal", "failed", 0): "failed",
    ("terminal", "cancelled", None): "cancelled",
    ("terminal", "steered", 3): "steered",
}
UNDECLARED: list[tuple[Any, Any, Any]] = [
    *(("queued", "completed", None), ("queued", None, 3), ("started", "completed", 3), ("unknown", "failed", 3)),
    *(("terminal", None, 3), ("terminal", "steering", 3), ("terminal", "other", 3), ("terminal", "queued", None)),
    *(("other", None, None), (None, None, None), (1, None, None), ("Queued", None, None), ("terminal", 1, 3)),
    *(("completed", None, 3), ("steering", None, 3)),
]


@pytest.mark.parametrize("stored", DECLARED)
def test_each_declared_state_is_taken_over(owner: Owner, old: Path, stored: tuple[Any, Any, Any]) -> None:
    """SPEC: queued, unknown and any final state; what was started there is unknown here, in a generation of its own."""
    status, outcome, generation = stored
    write(old, [row(status=status, outcome=outcome, generation=generation)])
    assert take(owner, old) == 1
    taken = owner.row("a1") or {}
    assert owner.state("a1") == DECLARED[stored]
    expected = 1 if status == "started" and generation is None else generation
    assert (taken["generation"], taken["owner_epoch"]) == (expected, owner.epoch)
    assert owner.session()["runtime_generation"] == (expected or 0)


@pytest.mark.parametrize("stored", UNDECLARED)
def test_what_is_no_declared_state_is_refused(owner: Owner, old: Path, stored: tuple[Any, Any, Any]) -> None:
    """SPEC: any other combination of status, outcome and generation is invalid_params, and nothing is imported."""
    status, outcome, generation = stored
    write(old, [row("good"), row(status=status, outcome=outcome, generation=generation)])
    with owner.refuses("invalid_params"):
        take(owner, old)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    status=st.sampled_from(["queued", "started", "unknown", "terminal", "steering", "other", "", None]),
    outcome=st.sampled_from([None, None, "completed", "cancelled", "steering", "steered", "x"]),
    generation=st.none() | st.integers(0, 3),
)
def test_whatever_is_taken_over_is_in_a_declared_state(
    tmp_path_factory: pytest.TempPathFactory, status: Any, outcome: Any, generation: Any
) -> None:
    """Every combination is either refused and leaves nothing, or stored in exactly one state that it satisfies."""
    db = storage.open_database(":memory:", clock=lambda: 1.0)
    epoch = sessions.begin_runtime_epoch(db, instance_id="one")
    sessions.create_session(db, "s", source="cli")
    path = tmp_path_factory.mktemp("old") / "p.db"
    write(path, [row(status=status, outcome=outcome, generation=generation)], journal="memory")
    arguments: dict[str, Any] = {"epoch": epoch, "principal_id": "p", "writers_drained": True}
    with contextlib.suppress(RuntimeStoreError):
        sessions.import_legacy_session_admissions(db, source_path=path, **arguments)
    rows = db.read(lambda tx: tx.execute("SELECT * FROM session_admissions"))
    marked = db.read(lambda tx: tx.execute("SELECT * FROM state_meta"))
    assert len(rows) == len(marked)
    for stored in rows:
        state = STATES[ADMISSION_MACHINE.state_of(stored, now=1.0)]
        assert predicate(state.requires)(stored, {})
    db.close()


def test_content_identity_and_order(owner: Owner, old: Path) -> None:
    """The id is the request too, the principal is the caller's, content is digested anew, the queue keeps its order."""
    payloads = ['{"text": "one", "intent": "steer"}', '{"text": "two", "intent": "interrupt"}', '{"text": "three"}']
    rows = [row(f"a{number}", payload=payload, seq=9 - number) for number, payload in enumerate(payloads)]
    write(old, rows)
    assert take(owner, old, principal_id="legacy") == 3
    views = sessions.list_session_admissions(owner.db, session_id="s")
    assert [(each["admission_id"], each["intent"]) for each in views] == [
        ("a2", "queue"),
        ("a1", "redirect"),
        ("a0", "steer"),
    ]
    assert {each["principal_id"] for each in views} == {"legacy"}
    assert [each["request_id"] for each in views] == ["a2", "a1", "a0"]
    retried = owner.admit("a2", principal_id="legacy", payload={"text": "three"})
    assert retried["admission_id"] == "a2"
    claimed = owner.claim()
    assert (claimed["admission_id"], claimed["payload"]) == ("a2", {"text": "three"})


def test_a_lineage_leads_to_its_end(desk: Desk, old: Path) -> None:
    """What stood on a session that was compressed since goes to where it goes on, with the lineage as it is now."""
    child = desk.compressed()
    write(old, [row(), row("a2", status="unknown")], executions=[("s", 7)])
    take(desk.owner, old)
    taken = desk.owner.row("a1", child) or {}
    assert json.loads(str(taken["lineage_json"])) == ["s", child]
    assert (desk.owner.row("a2", child) or {})["generation"] == 8
    assert (desk.session(child) or {})["runtime_generation"] == 8
    assert (desk.session() or {})["runtime_generation"] == 1


def test_generations_never_go_back(owner: Owner, old: Path) -> None:
    """A session that is further than the file stays where it is."""
    owner.settle(owner.start())
    write(old, [row(status="terminal", outcome="failed", generation=0)], executions=[("s", 1)])
    take(owner, old)
    assert owner.session()["runtime_generation"] == 1


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_the_file_is_evidence(owner: Owner, old: Path, journal: str) -> None:
    """SPEC: it is untouched, byte for byte and in its time of change, and not even a -wal stands beside it."""
    write(old, [row()], journal=journal)
    before = files(old.parent)
    time.sleep(0.01)
    take(owner, old)
    take(owner, old)
    with owner.refuses("admission_conflict"):
        take(owner, old, principal_id="other")
    assert files(old.parent) == before
    assert list(before) == ["prompts.db"]


def test_a_refused_import_leaves_no_file_either(owner: Owner, old: Path) -> None:
    """Also a file of which nothing can be taken over is as it was."""
    write(old, [row(payload="no JSON")])
    before = files(old.parent)
    with owner.refuses("invalid_params"):
        take(owner, old)
    assert files(old.parent) == before


@pytest.mark.parametrize(
    "spelled", [str, lambda path: path, lambda path: path.parent / "." / path.name, os.path.relpath]
)
def test_once(owner: Owner, old: Path, spelled: Callable[[Path], object]) -> None:
    """SPEC: the second run returns 0, in a later epoch too, however the same path is spelled."""
    write(old, [row(), row("a2")], executions=[("s", 1)])
    assert take(owner, old) == 2
    with owner.changes_nothing():
        assert take(owner, spelled(old)) == 0
    successor = owner.succeed()
    with successor.changes_nothing():
        assert take(successor, spelled(old)) == 0
    with successor.refuses("stale_epoch"):
        take(owner, old)


def test_an_empty_file_counts_too(owner: Owner, old: Path) -> None:
    """Nothing to take over is taken over once as well."""
    write(old, [])
    assert take(owner, old) == 0
    assert list(owner.execute("SELECT * FROM session_admissions")) == []
    with closing(sqlite3.connect(old)) as changed:
        changed.execute("INSERT INTO admissions (admission_id) VALUES ('late')")
        changed.execute("DELETE FROM admissions")
        changed.commit()
    assert take(owner, old) == 0


CHANGES: dict[str, str] = {
    "another row": "INSERT INTO admissions SELECT 2, 'a2', root, target_session_id, lineage, payload, status, outcome,"
    " generation FROM admissions",
    "another content": """UPDATE admissions SET payload = '{"text":"other"}'""",
    "another column": "ALTER TABLE admissions ADD COLUMN extra",
    "another generation": "UPDATE executions SET generation = 2",
    "no executions": "DROP TABLE executions",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_is_refused(owner: Owner, old: Path, change: str) -> None:
    """SPEC: admission_conflict, and nothing of it is taken over; so is another file, and another principal."""
    write(old, [row()], executions=[("s", 1)])
    take(owner, old)
    with closing(sqlite3.connect(old)) as changed:
        changed.execute(CHANGES[change])
        changed.commit()
    with owner.refuses("admission_conflict"):
        take(owner, old)


def test_another_file_and_another_principal_are_refused(owner: Owner, old: Path) -> None:
    """What was taken over is this file, for this principal."""
    write(old, [row()])
    take(owner, old)
    twin = write(old.parent / "twin.db", [row()])
    with owner.refuses("admission_conflict"):
        take(owner, twin)
    with owner.refuses("admission_conflict"):
        take(owner, old, principal_id="q")


def test_the_fingerprint_is_of_what_the_file_holds(owner: Owner, old: Path) -> None:
    """SPEC: a SHA-256 of the canonical JSON of rows and executions, kept with path, count and principal."""
    write(old, [row()], executions=[("s", 1)])
    take(owner, old)
    (stored,) = owner.execute("SELECT value FROM state_meta WHERE key = 'gateway.prompt_admissions_import.v1'")
    whole = {"rows": [{**row(), "seq": 1}], "executions": [{"root": "s", "generation": 1}]}
    spelled = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert json.loads(str(stored["value"])) == {
        "source": str(old),
        "fingerprint": hashlib.sha256(spelled.encode()).hexdigest(),
        "imported_id_count": 1,
        "principal_id": "p",
    }


def test_a_conflict_takes_nothing_over(owner: Owner, old: Path) -> None:
    """An admission whose id is there already is admission_conflict, a session that is not there not_found."""
    write(old, [row(), row("id-1")])
    owner.admit()
    with owner.refuses("admission_conflict"):
        take(owner, old)
    twice = write(old.parent / "twice.db", [row(), row()])
    with owner.refuses("admission_conflict"):
        take(owner, twice)
    for number, change in enumerate(({"target_session_id": "t", "lineage": '["t"]'}, {})):
        executions = [] if change else [("t", 1)]
        missing = write(old.parent / f"missing{number}.db", [row(), row("a2", **change)], executions=executions)
        with owner.refuses("not_found"):
            take(owner, missing)


def test_a_retired_session_takes_nothing(desk: Desk, old: Path) -> None:
    """What belonged to a session that was deleted since is not_found."""
    write(old, [row()])
    desk.mutate("delete")
    with desk.owner.refuses("not_found"):
        take(desk.owner, old)


DEEP = "[" * 9999
WRONG_ROWS: dict[str, list[Any]] = {
    "payload": [
        *("no JSON", "[]", "1", None, 5, b"{}", DEEP, '{"n": NaN}', '{"a": "\\ud800"}', '{"a": "\\u0000"}'),
    ],
    "lineage": ["no JSON", "{}", "[]", '["t"]', None, 5, '"s"', DEEP],
    "admission_id": [None, "", 5, "x" * 1025, b"a"],
    "target_session_id": [None, "", 5],
    "root": [None, "", 5, "x" * 1025],
    "generation": [-1, 1.5, "1", b"1"],
}


def _wrong() -> Iterator[Any]:
    for column, values in WRONG_ROWS.items():
        for number, value in enumerate(values):
            yield pytest.param(column, value, id=f"{column}-{number}")


@pytest.mark.parametrize(("column", "value"), list(_wrong()))
def test_a_row_that_does_not_decode(owner: Owner, old: Path, column: str, value: object) -> None:
    """SPEC: bad JSON and values of wrong types are invalid_params, never a raw error, and nothing is imported."""
    changes: dict[str, Any] = {"status": "unknown"} if column == "generation" else {}
    write(old, [row("good"), {**row(), **changes, column: value}])
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.parametrize("intent", ["other", 5, None, [], "Queue"])
def test_an_unknown_intent(owner: Owner, old: Path, intent: object) -> None:
    """An intent is queue, steer, redirect or interrupt."""
    write(old, [row(payload=json.dumps({"intent": intent}))])
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.parametrize("executions", [[("s", -1)], [("s", None)], [("s", "1")], [(None, 1)], [("", 1)], [("s", 1.5)]])
def test_a_wrong_execution(owner: Owner, old: Path, executions: list[tuple[Any, Any]]) -> None:
    """A root is a text, a generation a count."""
    write(old, [row()], executions=executions)
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.parametrize("absent", COLUMNS)
def test_a_table_that_lacks_a_column(owner: Owner, old: Path, absent: str) -> None:
    """A database of another make is invalid_params."""
    write(old, [row()], columns=tuple(name for name in COLUMNS if name != absent))
    with owner.refuses("invalid_params"):
        take(owner, old)


def test_what_is_no_such_file(owner: Owner, old: Path) -> None:
    """SPEC: a missing file is not_found; what is no database, or none of an older gateway, is invalid_params."""
    with owner.refuses("not_found"):
        take(owner, old)
    assert not old.exists()
    with owner.refuses("not_found"):
        take(owner, old.parent / "nowhere" / "x.db")
    with owner.refuses("not_found"):
        take(owner, old.parent / ("x" * 5000))
    with owner.refuses("invalid_params"):
        take(owner, old.parent)
    old.write_bytes(b"")
    with owner.refuses("invalid_params"):
        take(owner, old)
    old.write_bytes(b"no database at all" * 100)
    with owner.refuses("invalid_params"):
        take(owner, old)
    with owner.refuses("not_found"):
        take(owner, old / "below")
    fifo = old.parent / "fifo"
    os.mkfifo(fifo)
    with owner.refuses("invalid_params"):
        take(owner, fifo)
    with owner.refuses("invalid_params"):
        take(owner, Path(owner.db.location))


def test_text_that_is_not_utf8(owner: Owner, old: Path) -> None:
    """Stray bytes in the file are invalid_params."""
    write(old, [row()])
    with closing(sqlite3.connect(old)) as changed:
        changed.execute("UPDATE admissions SET root = CAST(x'ff' AS TEXT)")
        changed.commit()
    with owner.refuses("invalid_params"):
        take(owner, old)


def test_a_file_that_is_locked_cannot_be_read(owner: Owner, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever still writes to it was not drained: storage_unavailable."""
    write(old, [row()], journal="delete")
    monkeypatch.setattr("storage.sqlite.connection.BUSY_TIMEOUT_SECONDS", 0.01)
    with closing(sqlite3.connect(old, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with owner.refuses("storage_unavailable"):
            take(owner, old)


@pytest.mark.parametrize("value", [False, None, 1, "yes", "True", [], {}])
def test_writers_must_be_drained(owner: Owner, old: Path, value: object) -> None:
    """Nothing but True says that nobody writes any more."""
    write(old, [row()])
    with owner.refuses("invalid_params"):
        take(owner, old, writers_drained=value)


@pytest.mark.parametrize("value", [*bad.DATABASES, b"old.db", "a\0b"])
def test_a_path_that_is_none(owner: Owner, value: object) -> None:
    """A path of a wrong type or that no file can have is invalid_params."""
    with owner.refuses("invalid_params"):
        take(owner, value)
