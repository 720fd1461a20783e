"""Probes: a question to a database that may not be there, answered at once and leaving no trace."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import storage
from storage.sqlite import connection
from tests.storage.support import INSERT, NOTES, add, executing, finish, run_sql, start

FIND = 'SELECT 1 AS found FROM notes WHERE "grant" = :grant'


def probed(db: Any, grant: str = "here", table: str = "notes", sql: str = FIND) -> bool:
    """Probe for a note."""
    return storage.probe(db, table, sql, {"grant": grant}, timeout_seconds=0.02, error=AssertionError)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one note, which nobody has open."""
    path = tmp_path / "state.db"
    db = storage.open_database(path)
    db.require(NOTES)
    db.write(executing(INSERT, add("here")))
    db.close()
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let another connection keep everybody out of a file."""
    run_sql(path, "PRAGMA journal_mode=DELETE")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


LOCATIONS: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "text": str,
    "handle": storage.open_database,
    "read-only handle": lambda path: storage.open_database(path, read_only=True),
}


@pytest.mark.parametrize("kind", LOCATIONS)
def test_a_probe_tells_what_is_there(path: Path, kind: str) -> None:
    """A row that is there is found, one that is not is not, and a table that is not there holds nothing."""
    db = LOCATIONS[kind](path)
    assert probed(db)
    assert not probed(db, "elsewhere")
    assert not probed(db, table="missing", sql="SELECT 1 AS found FROM missing")


def test_a_probe_leaves_no_trace(path: Path) -> None:
    """Not a byte changes and no file is left, whether there is a database or not."""
    content = path.read_bytes()
    assert probed(path)
    assert not probed(path.parent / "none" / "state.db")
    assert not probed(path.parent)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == content


def test_a_probe_opens_no_handle(path: Path) -> None:
    """A location that was probed can be opened with options of its own afterwards."""
    assert probed(path)
    db = storage.open_database(path, clock=lambda: 5.0)
    assert db.clock() == 5.0
    db.close()


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    """A file without a byte is a database without a table, and stays one."""
    path = tmp_path / "state.db"
    path.touch()
    assert not probed(path)
    assert path.read_bytes() == b""


def test_a_locked_file_is_not_waited_for(path: Path) -> None:
    """Where somebody else keeps everybody out, the probe gives up after its time and says so."""
    with locked(path), pytest.raises(storage.DatabaseUnavailableError):
        probed(path)


def test_the_time_of_a_probe_is_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is told to wait as long as the probe may, and not as long as others wait."""
    waits: list[float] = []
    real: Any = sqlite3.connect

    def connect(*args: Any, timeout: float, **more: Any) -> Any:
        waits.append(timeout)
        return real(*args, timeout=timeout, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert probed(path)
    assert waits == [0.02]


def test_what_is_no_database_cannot_be_told(tmp_path: Path) -> None:
    """A file of something else is an unsupported database, not one without the row."""
    path = tmp_path / "state.db"
    path.write_bytes(b"no database, whatever its name says " * 100)
    with pytest.raises(storage.UnsupportedDatabaseError):
        probed(path)


@pytest.mark.parametrize("sql", ["SELECT colour FROM notes", "DELETE FROM notes RETURNING 1 AS found", "COMMIT"])
@pytest.mark.parametrize("kind", ["path", "handle"])
def test_a_query_that_does_not_fit_is_refused(path: Path, kind: str, sql: str) -> None:
    """A query over columns that are not there, and what is no query, raise the error of the family."""
    with pytest.raises(storage.StorageError):
        probed(LOCATIONS[kind](path), sql=sql)
    assert probed(path)


def test_a_place_that_cannot_be_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not say whether there is a file, nobody knows what it holds; the path is not shown."""

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(storage.DatabaseUnavailableError, match="Permission denied") as refusal:
        probed(path)
    assert str(path) not in str(refusal.value)


@pytest.mark.parametrize("bad", [None, 5, b"x", "", "a\0b", "\ud800", ":memory:", object()])
def test_what_is_no_location(bad: object) -> None:
    """Neither a handle nor a location: the caller's own error."""
    with pytest.raises(LookupError):
        storage.probe(bad, "notes", FIND, {}, timeout_seconds=0.02, error=LookupError)  # type: ignore[arg-type] # on purpose
    with pytest.raises(LookupError):
        storage.clock_of(bad, error=LookupError)  # type: ignore[arg-type] # on purpose


def test_the_clock_of_a_location(path: Path) -> None:
    """A handle has its clock, an open location that of its handle, any other the default; none is opened for it."""
    elsewhere = path.parent / "other.db"
    db = storage.open_database(path, clock=lambda: 7.0)
    assert storage.clock_of(db, error=AssertionError)() == 7.0
    assert storage.clock_of(path, error=AssertionError)() == 7.0
    db.close()
    assert storage.clock_of(elsewhere, error=AssertionError)() > 1e9
    assert not elsewhere.exists()


def test_a_probe_within_a_transaction_sees_what_is_committed(path: Path) -> None:
    """The thread's own open transaction does not stand in its way, nor does it show what is not yet stored."""
    db = storage.open_database(path)
    with db.transaction() as tx:
        tx.execute(INSERT, add("coming"))
        assert probed(db)
        assert probed(path)
        assert not probed(db, "coming")
    assert probed(db, "coming")
    db.close()


@pytest.mark.parametrize("shared", [False, True], ids=["write-ahead log", "rollback journal"])
def test_a_probe_drops_no_lock_of_the_process(path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool) -> None:
    """While this process writes and probes, no other process gets the write lock."""
    monkeypatch.setattr(connection, "is_shared", lambda _: shared)
    other = """
other = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    other.execute('BEGIN IMMEDIATE')
    print('taken')
except sqlite3.OperationalError:
    print('locked')
"""
    db = storage.open_database(path)
    with db.transaction() as tx:
        tx.execute(INSERT, add("coming"))
        assert probed(path)
        assert probed(db)
        assert finish(start(other, path)) == "locked"
    db.close()
    assert finish(start(other, path)) == "taken"


def test_a_closed_handle_is_not_asked(path: Path) -> None:
    """A handle that was closed says so, as it does to every call."""
    db = storage.open_database(path)
    db.close()
    with pytest.raises(storage.StorageError, match="closed"):
        probed(db)


def test_a_handle_whose_file_was_replaced_cannot_tell(path: Path) -> None:
    """Neither the file that it has open nor the one in its place is what it was asked about; asking by location closes
    it, for two files of one process must not share a log
    """
    db = storage.open_database(path)
    path.unlink()
    assert not probed(path)
    run_sql(path, 'CREATE TABLE notes ("grant" TEXT)')
    with pytest.raises(storage.DatabaseUnavailableError, match="replaced"):
        probed(db)
    assert db.read(executing(FIND, {"grant": "here"}))
    assert not probed(path)
    with pytest.raises(storage.StorageError, match="replaced"):
        db.read(executing(FIND, {"grant": "here"}))
    db.close()


def test_a_forked_child_does_not_probe_a_file_that_its_parent_was_writing(path: Path) -> None:
    """A child whose inherited locks would deceive it is refused, by location too."""
    script = """
path = sys.argv[1]
db = storage.open_database(path)
with db.transaction() as tx:
    tx.execute("INSERT INTO notes VALUES ('coming', 1)")
    child = os.fork()
    if child == 0:
        try:
            storage.probe(path, 'notes', 'SELECT 1 FROM notes', {}, timeout_seconds=0.1, error=ValueError)
        except storage.DatabaseUnavailableError:
            os._exit(7)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert finish(start(script, path)) == "7"


def memory() -> storage.Database:
    """Return a database in memory with one note."""
    db = storage.open_database(":memory:")
    db.require(NOTES)
    db.write(executing(INSERT, add("here")))
    return db


def test_a_database_in_memory_is_probed_through_its_handle() -> None:
    """There is one connection, which is asked."""
    db = memory()
    assert probed(db)
    assert not probed(db, "elsewhere")
    assert not probed(db, table="missing")
    db.close()


def test_a_database_in_memory_that_is_in_use_cannot_tell() -> None:
    """The turn of another thread is not waited for; this thread's own transaction is misuse, as in every call."""
    db, entered, leave = memory(), threading.Event(), threading.Event()

    def hold() -> None:
        with db.transaction():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    entered.wait(10)
    with pytest.raises(storage.DatabaseUnavailableError):
        probed(db)
    leave.set()
    other.join()
    with db.transaction(), pytest.raises(storage.StorageError, match="open transaction"):
        probed(db)
    assert probed(db)
    db.close()


def test_a_named_lock_is_nothing_to_wait_for_where_one_writes_at_a_time() -> None:
    """On SQLite a writer may name as many locks as it likes, as long as its transaction is open."""
    db = memory()
    with db.transaction() as tx:
        tx.lock_name("notes")
        tx.lock_name("notes")
        assert tx.changes == 0
    with pytest.raises(storage.StorageError, match="is over"):
        tx.lock_name("notes")
    db.close()
