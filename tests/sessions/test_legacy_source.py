"""The file of an older gateway: evidence that is only read, taken over once, and told from any other file."""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests import bad_input as bad
from tests.sessions.legacy import COLUMNS, row, take, write
from tests.sessions.mutating import Desk
from tests.sessions.support import Owner


def files(place: Path) -> dict[str, tuple[int, bytes]]:
    """Return name, time of change and content of each file."""
    return {each.name: (each.stat().st_mtime_ns, each.read_bytes()) for each in sorted(place.iterdir())}


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_the_file_is_evidence(owner: Owner, old: Path, journal: str) -> None:
    """It is untouched, byte for byte and in its time of change, and not even a -wal stands beside it."""
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
    """The second run returns 0, in a later epoch too, however the same path is spelled."""
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
    """A source that has changed is admission_conflict, and nothing of it is taken over."""
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
    """It is a SHA-256 of the canonical JSON of rows and executions, kept with path, count and principal."""
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


@pytest.mark.parametrize("absent", COLUMNS)
def test_a_table_that_lacks_a_column(owner: Owner, old: Path, absent: str) -> None:
    """A database of another make is invalid_params."""
    write(old, [row()], columns=tuple(name for name in COLUMNS if name != absent))
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("kept", ["root", "generation"])
def test_executions_that_lack_a_column(owner: Owner, old: Path, kept: str) -> None:
    """A table of executions without roots or generations is invalid_params, as soon as it has a row."""
    write(old, [row()])
    with closing(sqlite3.connect(old)) as changed:
        changed.execute(f"CREATE TABLE executions ({kept})")
        changed.execute("INSERT INTO executions VALUES ('s')")
        changed.commit()
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.engines("sqlite")
def test_a_file_that_may_not_be_looked_at(owner: Owner, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system lets this user not even see the file, it is storage_unavailable, never a bare error."""
    write(old, [row()])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    with owner.refuses("storage_unavailable"), monkeypatch.context() as patched:
        patched.setattr(Path, "stat", refuse)
        take(owner, old)


@pytest.mark.engines("sqlite")
def test_what_is_no_such_file(owner: Owner, old: Path) -> None:
    """A missing file is not_found; what is no database, or none of an older gateway, is invalid_params."""
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
