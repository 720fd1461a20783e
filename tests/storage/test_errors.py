"""Every failure of SQLite comes out as one of the storage errors, with its cause and without user text."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import storage
from storage.sqlite import connection
from tests.storage.support import INSERT, SELECT, add, finish, grants, query, run_sql, start

SECRET = "s3cret-text"


@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        (INSERT, add("a"), storage.ConstraintError),
        (INSERT, {"grant": None, "rank": 1}, storage.ConstraintError),
        (INSERT, add(SECRET, 0), storage.ConstraintError),
        (INSERT, add(SECRET, 2**63), storage.StorageError),
        (INSERT, add(SECRET + "\ud800"), storage.StorageError),
        (INSERT, {"grant": SECRET}, storage.StorageError),
        (INSERT, {"grant": SECRET, "rank": [1]}, storage.StorageError),
        (f"SELECT '{SECRET}' FROM missing", {}, storage.StorageError),
        (f"SELEC {SECRET}", {}, storage.StorageError),
    ],
)
def test_a_refused_statement_is_a_storage_error_without_user_text(
    notes: storage.Database, sql: str, parameters: storage.Parameters, expected: type[storage.StorageError]
) -> None:
    """The error has the driver's as its cause, shows no value, and the transaction can still be rolled back."""
    notes.write(lambda tx: tx.execute(INSERT, add("a")))
    with pytest.raises(expected) as caught:
        notes.write(lambda tx: tx.execute(sql, parameters))
    assert caught.value.__cause__ is not None
    assert "s3cret" not in str(caught.value)
    assert grants(notes) == ["a"]


@pytest.mark.engines("sqlite", "memory")
def test_stray_bytes_that_a_write_returns_are_a_storage_error_without_them(notes: storage.Database) -> None:
    """Text that is no UTF-8 can be met in the middle of a write, and is not shown."""
    sql = "INSERT INTO notes VALUES (CAST(x'73336372657480' AS TEXT), 1) RETURNING *"
    with pytest.raises(storage.StorageError) as caught:
        notes.write(lambda tx: tx.execute(sql))
    assert "s3cret" not in str(caught.value)
    assert grants(notes) == []


@pytest.mark.parametrize("sql", ["SELECT 1\0", "SELECT 1; SELECT 2", "SELECT ';' ; DELETE FROM notes", ";", "-- a;b"])
def test_what_is_not_one_statement_is_refused(notes: storage.Database, sql: str) -> None:
    """No engine is handed several statements, or a text that ends somewhere in its middle."""
    with pytest.raises(storage.StorageError):
        notes.write(lambda tx: tx.execute(sql))
    assert notes.read(lambda tx: tx.execute("SELECT ';' AS a /* ; x */ ; ")) == [{"a": ";"}]


def test_a_lock_held_too_long_is_unavailable(stored: storage.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that cannot have the lock within the timeout says that the database is unavailable."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_SECONDS", 0.05)
    stored.close()
    again = storage.open_database(stored.location)
    with closing(sqlite3.connect(stored.location, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(storage.DatabaseUnavailableError, match="SQLITE_BUSY"):
            again.write(lambda tx: tx.execute(INSERT, add("a")))
        other.execute("ROLLBACK")
    again.write(lambda tx: tx.execute(INSERT, add("a")))
    again.close()


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_switch_of_journal_that_others_keep_from_happening_is_unavailable(tmp_path: Path, begin: str) -> None:
    """The first write to an older database that others hold waits a bounded time, and works once it is free."""
    path, naps = tmp_path / "old.db", list[float]()
    run_sql(path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    with (
        closing(connection.connect_writable(str(path), "full")) as ours,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute(begin)
        other.execute("SELECT * FROM t").fetchall()
        with pytest.raises(storage.DatabaseUnavailableError, match="SQLITE_BUSY"):
            connection.choose_journal(str(path), ours, naps.append)
        assert 9 < sum(naps) <= connection.BUSY_TIMEOUT_SECONDS
        other.execute("ROLLBACK")
        connection.choose_journal(str(path), ours, naps.append)


def test_a_file_that_is_no_database_is_unsupported_and_left_alone(tmp_path: Path) -> None:
    """Opening any other file is refused, for writing and for reading, and its bytes stay."""
    path = tmp_path / "letter.txt"
    path.write_bytes(b"Dear reader, " * 400)
    for read_only in (False, True):
        with pytest.raises(storage.UnsupportedDatabaseError):
            storage.open_database(path, read_only=read_only)
    assert path.read_bytes() == b"Dear reader, " * 400
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_hold_a_database_are_unavailable(tmp_path: Path) -> None:
    """A directory, and a path below a file, cannot be opened."""
    (tmp_path / "file").write_text("x")
    for location in (tmp_path, tmp_path / "file" / "state.db"):
        with pytest.raises(storage.DatabaseUnavailableError):
            storage.open_database(location)


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
db = storage.open_database(sys.argv[1])
size = os.path.getsize(sys.argv[1] + '-wal')
db.write(lambda tx: tx.execute("INSERT INTO notes VALUES ('before', 1)"))
inherited = db._session().connection
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5000, resource.RLIM_INFINITY))
try:
    db.write(lambda tx: tx.execute("INSERT INTO notes VALUES ('lost', 1)"))
except storage.OutcomeUnknownError as exc:
    print('unknown', exc.__cause__.sqlite_errorname)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert db._session().connection is not inherited
db.write(lambda tx: tx.execute("INSERT INTO notes VALUES ('after', 1)"))
print(sorted(row['grant'] for row in db.read(lambda tx: tx.execute('SELECT * FROM notes'))))
"""


def test_an_io_error_at_commit_is_an_unknown_outcome_on_a_discarded_connection(stored: storage.Database) -> None:
    """When the disk fails under COMMIT the caller is told that its fate is unknown, and the next call works."""
    output = finish(start(FULL_DISK, stored.location)).splitlines()
    assert output[0].startswith("unknown SQLITE_IOERR")
    assert output[1] in {"['after', 'before']", "['after', 'before', 'lost']"}


def test_versions_that_can_lose_commits_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning names the version, comes once in a process, and spares the repaired versions."""
    monkeypatch.setattr(connection, "_warned_versions", set())
    with pytest.warns(storage.WalResetWarning, match=r"3\.40\.1.*lose commits") as caught:
        connection.warn_of_wal_reset((3, 40, 1))
    assert len(caught) == 1
    connection.warn_of_wal_reset((3, 40, 1))
    for version in ((3, 44, 6), (3, 50, 7), (3, 51, 3), (3, 52, 0)):
        connection.warn_of_wal_reset(version)
    for version in ((3, 35, 0), (3, 44, 5), (3, 50, 6), (3, 51, 2)):
        with pytest.warns(storage.WalResetWarning):
            connection.warn_of_wal_reset(version)


def test_sqlite_before_3_35_is_refused() -> None:
    """RETURNING came with 3.35, so nothing older can be used."""
    connection.check_version((3, 35, 0))
    with pytest.raises(storage.UnsupportedDatabaseError, match=r"found 3\.34\.1"):
        connection.check_version((3, 34, 1))


def test_a_database_in_rollback_journal_mode_is_switched_to_wal(tmp_path: Path) -> None:
    """A database that another program made gets the write-ahead log at its first write, and not a byte before."""
    path = tmp_path / "old.db"
    run_sql(path, "CREATE TABLE t (a)")
    content = path.read_bytes()
    handle = storage.open_database(path)
    assert handle.read(lambda tx: tx.execute("SELECT * FROM t")) == []
    assert path.read_bytes() == content
    handle.write(lambda tx: tx.execute("INSERT INTO t VALUES (1)"))
    handle.close()
    assert query(path, "PRAGMA journal_mode") == [("wal",)]


def test_every_connection_is_configured(stored: storage.Database, tmp_path: Path) -> None:
    """Foreign keys, the busy timeout and the synchronous mode hold on the connections that are used."""
    names = ("foreign_keys", "synchronous", "busy_timeout", "journal_mode")
    normal = storage.open_database(tmp_path / "normal.db", synchronous="normal")
    for handle in (stored, normal):
        handle.write(lambda _: None)
    found = [
        [handle._session().connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]  # type: ignore[attr-defined]  # looks behind the port
        for handle in (stored, normal)
    ]
    normal.close()
    assert found == [[1, 2, 10_000, "wal"], [1, 1, 10_000, "wal"]]
    assert stored.read(lambda tx: tx.execute(SELECT)) == []
