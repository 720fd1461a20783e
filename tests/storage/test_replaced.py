"""A database file that was removed or replaced under an open handle: nothing more is written where nobody finds it."""

import os
import threading
from pathlib import Path

import pytest

import storage
from tests.storage.support import INSERT, NOTES, add, executing, finish, grants, query, run_sql, start


class CallerError(ValueError):
    """The error class that an operation hands down."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that this process has open, with one note, most of it still in the write-ahead log."""
    path = tmp_path / "state.db"
    fill(storage.open_database(path), "old")
    return path


def fill(db: storage.Database, name: str) -> storage.Database:
    """Make the table and one note."""
    db.require(NOTES)
    db.write(executing(INSERT, add(name)))
    return db


def replace(path: Path, how: str) -> None:
    """Remove the file, alone or with its log, or put another in its place."""
    if how == "replaced":
        fill(storage.open_database(path.with_name("other.db")), "new").close()
        path.with_name("other.db").replace(path)
        return
    path.unlink()
    if how == "removed with its log":
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()


WAYS = ("removed", "removed with its log", "replaced")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("call", ["resolve", "open"])
def test_a_location_leads_to_the_file_that_is_there(path: Path, how: str, call: str) -> None:
    """What is written through a location lies in the file at that path, with nothing of the one that was there."""
    old = storage.open_database(path)
    replace(path, how)
    new = storage.resolve(path, error=CallerError) if call == "resolve" else storage.open_database(path)
    assert new is not old
    assert storage.resolve(path, error=CallerError) is new
    new.require(NOTES)
    new.write(executing(INSERT, add("written")))
    expected = ["new", "written"] if how == "replaced" else ["written"]
    assert grants(new) == expected
    assert query(path, 'SELECT "grant" FROM notes ORDER BY 1') == [(name,) for name in expected]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    with pytest.raises(storage.StorageError, match="removed or replaced"):
        grants(old)
    new.close()
    assert query(path, 'SELECT "grant" FROM notes ORDER BY 1') == [(name,) for name in expected]


def test_a_handle_goes_on_with_what_it_has_opened(path: Path) -> None:
    """Used directly it reads and writes its own file, until the location is opened anew; it makes no other."""
    old = storage.open_database(path)
    path.unlink()
    old.write(executing(INSERT, add("more")))
    assert grants(old) == ["more", "old"]
    failures: list[Exception] = []

    def work() -> None:
        try:
            grants(old)
        except storage.DatabaseUnavailableError as exc:
            failures.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "open the location again" in str(failures[0])
    assert not path.exists()
    old.close()


def test_resolve_opens_the_new_file_with_the_options_of_the_old(tmp_path: Path) -> None:
    """A location goes on with the clock that it was opened with; who opens it again passes what they want."""
    path = tmp_path / "state.db"
    storage.open_database(path, clock=lambda: 5.0)
    path.unlink()
    new = storage.resolve(path, error=CallerError)
    assert new.clock() == 5.0
    path.unlink()
    other = storage.open_database(path, clock=lambda: 6.0)
    assert other.clock() == 6.0
    other.close()
    path.unlink()
    defaults = storage.resolve(path, error=CallerError)
    assert defaults.clock() > 6.0
    defaults.close()


@pytest.mark.parametrize("how", WAYS)
def test_a_transaction_open_on_the_old_file_ends_before_the_new_one_is_opened(path: Path, how: str) -> None:
    """Two files of one name must not share a log: the location is unavailable until the transaction has ended."""
    old = storage.open_database(path)
    with old.transaction() as tx:
        tx.execute(INSERT, add("last"))
        replace(path, how)
        for _ in range(2):
            with pytest.raises(storage.DatabaseUnavailableError, match="try again"):
                storage.resolve(path, error=CallerError)
        tx.execute(INSERT, add("very last"))
    new = storage.resolve(path, error=CallerError)
    new.require(NOTES)
    assert grants(new) == (["new"] if how == "replaced" else [])
    new.close()


def test_a_reader_of_the_old_file_makes_way_as_well(path: Path) -> None:
    """The read-only handle of the path is closed with the other, and opened anew on what is there."""
    reader = storage.open_database(path, read_only=True)
    assert grants(reader) == ["old"]
    replace(path, "replaced")
    assert grants(storage.resolve(path, error=CallerError)) == ["new"]
    with pytest.raises(storage.StorageError, match="removed or replaced"):
        grants(reader)
    again = storage.open_database(path, read_only=True)
    assert grants(again) == ["new"]
    again.close()
    storage.open_database(path).close()


def test_a_closed_handle_leaves_no_log_to_the_file_that_replaced_its_own(path: Path) -> None:
    """Whoever closes first and opens then finds the new file's rows too."""
    replace(path, "replaced")
    storage.open_database(path).close()
    old = storage.open_database(path)
    old.write(executing(INSERT, add("more")))
    replace(path, "replaced")
    old.close()
    new = storage.open_database(path)
    assert grants(new) == ["new"]
    new.close()


OTHER_PROCESS = """
from tests.storage.support import INSERT, NOTES, add, grants
db = storage.open_database(sys.argv[1])
db.require(NOTES)
db.write(lambda tx: tx.execute(INSERT, add('theirs')))
print('written', flush=True)
while not os.path.exists(sys.argv[1] + '.done'):
    time.sleep(0.01)
db.write(lambda tx: tx.execute(INSERT, add('theirs too')))
print(grants(db), flush=True)
os._exit(0)
"""


def test_letting_go_of_the_old_file_does_no_harm_to_the_log_of_the_new_one(path: Path) -> None:
    """What another process has committed to the new file's log is neither emptied nor removed."""
    replace(path, "removed with its log")
    process = start(OTHER_PROCESS, path)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "written"
    new = storage.resolve(path, error=CallerError)
    assert grants(new) == ["theirs"]
    new.write(executing(INSERT, add("ours")))
    Path(f"{path}.done").touch()
    assert finish(process) == "['ours', 'theirs', 'theirs too']"
    assert grants(new) == ["ours", "theirs", "theirs too"]
    new.close()


def test_a_log_that_another_process_still_uses_is_not_left_to_the_new_file(path: Path) -> None:
    """While somebody else reads the old file its log cannot be emptied: the location is unavailable until then."""
    script = """
import sqlite3
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('BEGIN')
db.execute('SELECT count(*) FROM notes').fetchall()
print('reading', flush=True)
while not os.path.exists(sys.argv[1] + '.done'):
    time.sleep(0.01)
os._exit(0)
"""
    process = start(script, path)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "reading"
    replace(path, "replaced")
    with pytest.raises(storage.DatabaseUnavailableError, match="try again"):
        storage.resolve(path, error=CallerError)
    Path(f"{path}.done").touch()
    finish(process)
    new = storage.resolve(path, error=CallerError)
    assert grants(new) == ["new"]
    new.close()


def test_what_the_system_cannot_say_closes_no_handle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file that is missing or another counts; an error of the system leaves the handle in use."""
    old = storage.open_database(path)

    def fail(_path: str) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        replaced = old.replaced  # type: ignore[attr-defined]  # looks behind the port
    assert not replaced
    assert storage.resolve(path, error=CallerError) is old
    old.close()


def test_the_same_file_under_another_time_and_size_is_the_same(path: Path) -> None:
    """Growing, being touched and being written by others replaces nothing."""
    old = storage.open_database(path)
    run_sql(path, "CREATE TABLE big AS SELECT zeroblob(100000) AS a")
    os.utime(path)
    assert storage.resolve(path, error=CallerError) is old
    old.close()
