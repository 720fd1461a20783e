"""Opening: one handle per database in a process, nothing created by reading, bad locations refused."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import storage
from storage.sqlite import connection, filesystem
from tests.storage.support import INSERT, NOTES, SELECT, add, executing, finish, grants, run_sql, start


class CallerError(ValueError):
    """The error class that an operation hands down."""


def contents(directory: Path) -> dict[str, bytes]:
    """Return what every file of a directory holds; no connection may be open on one of them."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_location_is_opened_once_whichever_way_it_is_spelled(tmp_path: Path) -> None:
    """Relative, indirect and symbolic paths of one file lead to one handle."""
    (tmp_path / "link").symlink_to(tmp_path)
    db = storage.open_database(tmp_path / "state.db")
    others: list[storage.Location] = [tmp_path / "x" / ".." / "state.db", tmp_path / "link" / "state.db"]
    others.append(str(tmp_path / "state.db"))
    others.append(os.path.relpath(tmp_path / "state.db"))
    assert {storage.open_database(other) for other in others} == {db}
    assert storage.resolve(str(tmp_path / "state.db"), error=CallerError) is db
    db.close()


def test_directories_are_created_for_a_writable_database(tmp_path: Path) -> None:
    """The parent directories of a new database are made."""
    db = storage.open_database(tmp_path / "a" / "b" / "state.db")
    assert (tmp_path / "a" / "b" / "state.db").exists()
    db.close()


@pytest.mark.parametrize(
    "options",
    [{"clock": time.monotonic}, {"new_id": lambda: "x"}, {"synchronous": "normal"}],
    ids=("clock", "new_id", "synchronous"),
)
def test_opening_again_with_other_options_is_refused(tmp_path: Path, options: dict[str, object]) -> None:
    """Two callers cannot believe in two clocks on one handle; a bare location takes what is open."""
    path = tmp_path / "state.db"
    first = storage.open_database(path, **options)  # type: ignore[arg-type]  # one option of three
    assert storage.open_database(path, **options) is first  # type: ignore[arg-type]  # as above
    with pytest.raises(storage.StorageError, match="close the open handle"):
        storage.open_database(path)
    assert storage.resolve(path, error=CallerError) is first
    first.close()
    storage.open_database(path).close()


@pytest.mark.parametrize(
    "options",
    [{"clock": 5}, {"new_id": None}, {"synchronous": "off"}, {"synchronous": []}],
    ids=("clock", "new_id", "text", "list"),
)
def test_options_that_are_none_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    """A wrong option is refused before a file is made."""
    with pytest.raises(storage.StorageError):
        storage.open_database(tmp_path / "state.db", **options)  # type: ignore[arg-type]  # the mistake under test
    assert list(tmp_path.iterdir()) == []


class OtherPath:
    """A path that is no text."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __fspath__(self) -> object:
        return self.value


@pytest.mark.parametrize(
    "value",
    [None, 3, True, b"x.db", "", "a\0b", "a\ud800", 1.5, [], OtherPath(b"x.db"), OtherPath(3), OtherPath(None)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_location_is_refused_by_the_callers_error(value: object) -> None:
    """Whatever is neither a handle nor a path is the caller's validation error, and a storage error in opening."""
    with pytest.raises(CallerError):
        storage.resolve(value, error=CallerError)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(storage.StorageError):
        storage.open_database(value)  # type: ignore[arg-type]  # as above


SERVERS = [
    "postgresql://user:s3cret@127.0.0.1:1/x?connect_timeout=1",
    "POSTGRES://user:s3cret@127.0.0.1:1/x",
    " PostgreSQL://user@127.0.0.1:1/x?password=s3cret&search_path=a",
]
URLS = [
    "postgresql+psycopg://user:s3cret@host/x",
    "postgresql://user:s3cret@host/x?nonsense=1",
    "postgresql://user:s3cret@host/x?pool_size=s3cret",
    "postgresql://user:s3cret@host:x/y?pool_size=0",
    "opening://s3cret",
    "mysql://user:s3cret@host/x",
    "File:///s3cret.db",
    "jdbc:postgresql://user:s3cret@host",
    "a b://s3cret",
]


@pytest.mark.parametrize("wrap", [str, Path])
@pytest.mark.parametrize("location", SERVERS)
def test_a_server_that_is_not_there_is_unavailable_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, wrap: Callable[[str], storage.Location]
) -> None:
    """A server out of reach is said to be so, however its URL is spelled; nothing is made, no password is shown."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(storage.DatabaseUnavailableError, match="server") as opening:
        storage.open_database(wrap(location))
    with pytest.raises(storage.DatabaseUnavailableError, match="server") as resolving:
        storage.resolve(wrap(location), error=CallerError)
    assert "s3cret" not in f"{opening.value}{resolving.value}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", URLS)
def test_a_url_is_no_location_and_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    """Whatever else has a scheme is refused as a bad location, before anything of that name is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(storage.StorageError, match="URL") as opening:
        storage.open_database(location)
    with pytest.raises(CallerError, match="URL") as resolving:
        storage.resolve(location, error=CallerError)
    assert "s3cret" not in f"{opening.value}{resolving.value}"
    assert list(tmp_path.iterdir()) == []


def test_a_colon_makes_no_url_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colons may stand in the names of files and directories."""
    monkeypatch.chdir(tmp_path)
    for location in ("a:b.db", "c:/d.db", str(tmp_path / "e://f.db")):
        storage.open_database(location).close()
        assert Path(location).exists()


def test_a_failure_to_open_does_not_show_the_location(tmp_path: Path) -> None:
    """Neither the message nor its cause names the path, for a location that is none can hold a password."""
    (tmp_path / "s3cret").write_text("x")
    with pytest.raises(storage.DatabaseUnavailableError) as blocked:
        storage.open_database(tmp_path / "s3cret" / "state.db")
    assert blocked.value.__cause__ is None
    storage.open_database(tmp_path / "s3cret.db")
    with pytest.raises(storage.StorageError) as other:
        storage.open_database(tmp_path / "s3cret.db", synchronous="normal")
    storage.open_database(tmp_path / "s3cret.db").close()
    assert "s3cret" not in f"{blocked.value}{other.value}"


def test_resolve_opens_a_location_and_returns_a_handle_as_it_is(tmp_path: Path) -> None:
    """A location that nobody has open is opened with the defaults."""
    db = storage.resolve(tmp_path / "state.db", error=CallerError)
    assert storage.resolve(db, error=CallerError) is db
    assert storage.open_database(tmp_path / "state.db") is db
    db.close()


def test_memory_is_a_new_database_each_time_and_no_location_for_operations() -> None:
    """Two databases in memory share nothing, and a bare ":memory:" would be another in every call."""
    first, second = storage.open_database(":memory:"), storage.open_database(":memory:")
    first.require(NOTES)
    assert not second.read(lambda tx: tx.table_exists("notes"))
    with pytest.raises(CallerError, match="pass the handle"):
        storage.resolve(":memory:", error=CallerError)
    with pytest.raises(storage.StorageError):
        storage.open_database(":memory:", read_only=True)


def test_a_closed_handle_refuses_and_the_location_opens_anew(notes: storage.Database) -> None:
    """After close every use is a storage error; closing twice is harmless."""
    notes.close()
    notes.close()
    with pytest.raises(storage.StorageError, match="closed"):
        notes.write(lambda tx: tx.changes)
    with pytest.raises(storage.StorageError, match="closed"):
        notes.read(lambda tx: tx.changes)
    with pytest.raises(storage.StorageError, match="closed"):
        notes.require(NOTES)
    with pytest.raises(storage.StorageError, match="closed"), notes.transaction():
        pass
    if notes.location != ":memory:":
        again = storage.resolve(notes.location, error=CallerError)
        assert again is not notes
        assert grants(again) == []
        again.close()


def test_closing_waits_for_no_transaction_and_breaks_none(notes: storage.Database) -> None:
    """A transaction that is open when its handle is closed may end; then the handle is closed."""
    with notes.transaction() as tx:
        notes.close()
        tx.execute(INSERT, add("a"))
    with pytest.raises(storage.StorageError, match="closed"):
        grants(notes)


def test_reading_a_missing_database_creates_nothing(tmp_path: Path) -> None:
    """A read-only handle makes neither file nor directory."""
    for path in (tmp_path / "missing.db", tmp_path / "nowhere" / "missing.db"):
        with pytest.raises(storage.DatabaseUnavailableError):
            storage.open_database(path, read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plain.db", "a b?c#d%20é'.db"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_reading_leaves_the_directory_as_it_was(tmp_path: Path, mode: str, name: str) -> None:
    """Beside a database that nobody has open a read-only handle leaves no file and changes none."""
    path = tmp_path / name
    run_sql(path, f"PRAGMA journal_mode={mode}", "CREATE TABLE t (a)", "INSERT INTO t VALUES (7)")
    before = contents(tmp_path)
    db = storage.open_database(path, read_only=True)
    assert db.read(lambda tx: tx.execute("SELECT a FROM t")) == [{"a": 7}]
    with pytest.raises(storage.StorageError, match="read-only"):
        db.write(lambda tx: tx.execute("INSERT INTO t VALUES (8)"))
    db.close()
    assert contents(tmp_path) == before


def test_reading_after_a_crash_sees_the_log_and_leaves_it(tmp_path: Path) -> None:
    """What a killed process committed is read from its log, which is neither folded in nor removed."""
    script = """
db = storage.open_database(sys.argv[1])
db.write(lambda tx: (tx.execute('CREATE TABLE t (a)'), tx.execute('INSERT INTO t VALUES (7)')))
os._exit(0)
"""
    finish(start(script, tmp_path / "crashed.db"))
    before = contents(tmp_path)
    assert "crashed.db-wal" in before
    db = storage.open_database(tmp_path / "crashed.db", read_only=True)
    assert db.read(lambda tx: tx.execute("SELECT a FROM t")) == [{"a": 7}]
    db.close()
    after = contents(tmp_path)
    assert [after[name] for name in ("crashed.db", "crashed.db-wal")] == [
        before[name] for name in ("crashed.db", "crashed.db-wal")
    ]


def test_a_reader_and_a_writer_of_one_file_are_kept_apart(stored: storage.Database) -> None:
    """The read-only handle is another one, sees what is committed, and may read inside a write of the other."""
    reader = storage.open_database(stored.location, read_only=True)
    assert reader is not stored
    assert storage.open_database(stored.location, read_only=True) is reader
    with stored.transaction() as tx:
        tx.execute(INSERT, add("a"))
        assert grants(reader) == []
    assert grants(reader) == ["a"]
    reader.close()


def test_threads_get_connections_of_their_own_that_end_with_them(stored: storage.Database) -> None:
    """A thread's connection is closed once the thread has ended and another connection is made."""
    seen: list[object] = []

    def work() -> None:
        stored.write(lambda tx: tx.execute(INSERT, add(f"t{len(seen)}")))
        seen.append(stored._session().connection)  # type: ignore[attr-defined]  # looks behind the port

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(set(map(id, seen))) == 5
    assert len(stored._sessions._all) == 2  # type: ignore[attr-defined]  # this thread's, and the last one's


@pytest.mark.parametrize("count", [8])
def test_threads_share_a_handle(notes: storage.Database, count: int) -> None:
    """Threads write through one handle at once, on disk and in memory, and nothing is lost."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(25):
                notes.write(executing(INSERT, add(f"{number}-{turn}")))
                notes.read(lambda tx: tx.execute(SELECT))
        except BaseException as exc:  # noqa: BLE001 - reported by the thread that waits
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(grants(notes)) == count * 25


def test_eight_processes_open_a_new_database_at_once(tmp_path: Path) -> None:
    """The switch to WAL and the creation of tables by many processes at once fail in none of them."""
    script = """
from tests.storage.support import INSERT, NOTES, add
while time.time() < float(sys.argv[2]):
    pass
db = storage.open_database(sys.argv[1])
db.require(NOTES)
db.write(lambda tx: tx.execute(INSERT, add(sys.argv[3])))
"""
    for attempt in range(3):
        path = tmp_path / f"new{attempt}.db"
        when = time.time() + 1.5
        for process in [start(script, path, when, number) for number in range(8)]:
            finish(process)
        db = storage.open_database(path)
        assert grants(db) == [str(number) for number in range(8)]
        db.close()


MOUNTS = r"""/dev/root / ext4 rw 0 0
server:/export /mnt/shared nfs4 rw 0 0
//host/x /mnt/with\040space cifs rw 0 0
/dev/sdb /mnt/shared/local xfs rw 0 0
host /mnt/over fuse.sshfs rw 0 0
/dev/sdc /mnt/over ext4 rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x.db", "ext4"),
        ("/mnt/shared/a/x.db", "nfs4"),
        ("/mnt/sharedish/x.db", "ext4"),
        ("/mnt/with space/x.db", "cifs"),
        ("/mnt/shared/local/x.db", "xfs"),
        ("/mnt/over/x.db", "ext4"),
    ],
)
def test_the_filesystem_of_a_path_is_that_of_its_deepest_mount(path: str, expected: str) -> None:
    """Mount points are matched by whole names, octal escapes are read, and the last mount on a point counts."""
    assert filesystem.filesystem_type(path, MOUNTS) == expected


def test_a_shared_filesystem_falls_back_loudly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There the rollback journal is used, and one warning names PostgreSQL as the way out."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {tmp_path}/shared nfs rw 0 0\n")
    monkeypatch.setattr(filesystem, "_MOUNTS", mounts)
    with caplog.at_level(logging.WARNING, "storage"):
        for _ in range(2):
            db = storage.open_database(tmp_path / "shared" / "state.db")
            db.require(NOTES)
            db.write(lambda tx: tx.execute("DELETE FROM notes"))
            assert sorted(path.name for path in (tmp_path / "shared").iterdir()) == ["state.db"]
            db.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "PostgreSQL" in caplog.text


def test_a_database_without_write_ahead_log_falls_back_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the switch does not answer `wal`, the rollback journal is used and said."""
    asked: list[str] = []

    def answer(_connection: object, assignment: str) -> str:
        asked.append(assignment)
        return "delete"

    monkeypatch.setattr(connection, "_journal", answer)
    with caplog.at_level(logging.WARNING, "storage"):
        handle = storage.open_database(tmp_path / "state.db")
        for _ in range(2):
            handle.write(lambda _: None)
        handle.close()
    assert asked == ["", "=wal", ""]
    assert "PostgreSQL" in caplog.text
