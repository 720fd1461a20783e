"""Reading a file that is somebody's evidence: nothing of it, and nothing beside it, changes."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import storage
from tests.storage.support import executing, run_sql, start

SELECT = "SELECT a FROM t ORDER BY a"
Facts = dict[str, tuple[int, int, bytes]]


def facts(place: Path) -> Facts:
    """Return name, times of change and content of each file; of shared memory, which is a scratch pad, the name."""
    stats = {path: path.stat() for path in sorted(place.iterdir())}
    return {
        path.name: (0, 0, b"") if path.name.endswith("-shm") else (stat.st_mtime_ns, stat.st_size, path.read_bytes())
        for path, stat in stats.items()
    }


def _at_rest(place: Path, mode: str) -> Path:
    path = place / "old.db"
    run_sql(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    return path


def _copied(place: Path, *suffixes: str) -> Path:
    """Copy a database whose writer has not closed it, with some of the files beside it."""
    (origin := place / "origin").mkdir()
    with closing(sqlite3.connect(origin / "old.db", isolation_level=None)) as writer:
        for sql in ("PRAGMA journal_mode = wal", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"):
            writer.execute(sql)
        for suffix in ("", *suffixes):
            shutil.copy(f"{origin / 'old.db'}{suffix}", place)
    shutil.rmtree(origin)
    return place / "old.db"


MADE: dict[str, Callable[[Path], Path]] = {
    "a rollback journal": lambda place: _at_rest(place, "delete"),
    "a write-ahead log": lambda place: _at_rest(place, "wal"),
    "a log left over": lambda place: _copied(place, "-wal"),
    "a log and its memory left over": lambda place: _copied(place, "-wal", "-shm"),
}


@pytest.mark.parametrize("made", MADE)
def test_a_snapshot_is_read_and_stays_as_it_is(tmp_path: Path, made: str) -> None:
    """Whatever was left beside a file, its rows are read, no byte and no time changes, and nothing is left there."""
    path = MADE[made](tmp_path)
    before = facts(tmp_path)
    time.sleep(0.01)
    assert storage.read_snapshot(path, executing(SELECT)) == [{"a": 1}]
    after = facts(tmp_path)
    # SQLite touches a log that it opens; what it holds stays.
    assert {name: fact[1:] for name, fact in after.items()} == {name: fact[1:] for name, fact in before.items()}
    assert after["old.db"] == before["old.db"]


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("barred", ["the file", "its directory"])
def test_what_cannot_be_written_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, barred: str
) -> None:
    """A snapshot that was put out of harm's way is read without the files that SQLite would make beside it."""
    path = _at_rest(tmp_path, mode)
    before = facts(tmp_path)
    place = path if barred == "the file" else tmp_path
    real = os.access
    monkeypatch.setattr(os, "access", lambda each, asked: Path(each) != place and real(each, asked))

    def look(tx: storage.Transaction) -> list[str]:
        assert tx.execute(SELECT) == [{"a": 1}]
        return [each.name for each in tmp_path.iterdir()]

    assert storage.read_snapshot(path, look) == ["old.db"]
    assert facts(tmp_path) == before


def test_a_snapshot_cannot_be_written(tmp_path: Path) -> None:
    """A body that tries to write is refused."""
    path = _at_rest(tmp_path, "wal")
    before = facts(tmp_path)
    with pytest.raises(storage.StorageError, match="expected a query"):
        storage.read_snapshot(path, executing("DELETE FROM t"))
    assert facts(tmp_path) == before


def test_what_the_body_raises_is_raised_and_nothing_is_left(tmp_path: Path) -> None:
    """Also a body that fails leaves no file beside the snapshot."""
    path = _copied(tmp_path, "-wal")
    before = sorted(facts(tmp_path))

    def fail(tx: storage.Transaction) -> None:
        tx.execute(SELECT)
        raise LookupError("of the body")

    with pytest.raises(LookupError, match="of the body"):
        storage.read_snapshot(path, fail)
    assert sorted(facts(tmp_path)) == before


def test_reading_a_snapshot_keeps_the_locks_of_the_handle_on_it(tmp_path: Path) -> None:
    """A file that this process has open as a database loses none of its locks to the snapshot's handle."""
    db = storage.open_database(tmp_path / "state.db")
    db.write(executing("CREATE TABLE t (a)"))
    with db.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1)")
        assert storage.read_snapshot(tmp_path / "state.db", executing(SELECT)) == []
        script = "sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        assert "locked" in failing(script, tmp_path / "state.db")
    assert storage.read_snapshot(tmp_path / "state.db", executing(SELECT)) == [{"a": 1}]
    db.close()


def failing(script: str, path: Path) -> str:
    """Run a script that must fail, and return what it said."""
    process = start(script, path)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    return output


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, storage.DatabaseUnavailableError),
        (b"no database, but long enough for one to look at" * 99, storage.UnsupportedDatabaseError),
    ],
)
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes | None, error: type[Exception]) -> None:
    """A missing file is not made, and a file of another kind is told apart from it."""
    path = tmp_path / "old.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error):
        storage.read_snapshot(path, executing(SELECT))
    assert path.exists() == (content is not None)
    assert not list(tmp_path.glob("*-*"))


@pytest.mark.parametrize("location", [None, 5, b"old.db", "", "a\0b", "\ud800"])
def test_what_is_no_location_is_refused(location: object) -> None:
    """A location of a wrong type is a StorageError; a server is no snapshot."""
    with pytest.raises(storage.StorageError):
        storage.read_snapshot(location, executing(SELECT))  # type: ignore[arg-type] # what is tested
    with pytest.raises(storage.UnsupportedDatabaseError):
        storage.read_snapshot("postgresql://host/db", executing(SELECT))


def test_a_change_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    """Beside a file with a rollback journal stands half a change: taking it back would be writing, so that it fails."""
    (origin := tmp_path / "origin").mkdir()
    with closing(sqlite3.connect(origin / "old.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("CREATE TABLE t (a)")
        writer.execute("BEGIN")
        writer.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 500)
        writer.execute("COMMIT")
        writer.execute("BEGIN")
        writer.execute("UPDATE t SET a = 'y' || a")
        for suffix in ("", "-journal"):
            shutil.copy(f"{origin / 'old.db'}{suffix}", tmp_path)
    shutil.rmtree(origin)
    before = facts(tmp_path)
    with pytest.raises(storage.DatabaseUnavailableError):
        storage.read_snapshot(tmp_path / "old.db", executing(SELECT))
    assert facts(tmp_path) == before
