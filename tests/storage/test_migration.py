"""Rebuilding a CHECK: every row kept, everything around the table kept, or nothing changed at all."""

import time
from pathlib import Path

import pytest

import storage
from storage import Column, ForeignKey, Index, Schema, Table
from storage.errors import StorageError
from storage.sqlite.transaction import SqliteTransaction
from tests.storage.support import executing, finish, query, run_sql, start

STATES = ("queued", "running", "stopping")
JOBS = Table(
    "jobs",
    (
        Column("seq", "INTEGER"),
        Column("status", "TEXT", one_of=STATES),
        Column("outcome", "TEXT", nullable=True, one_of=("good", "bad")),
    ),
    ("seq",),
    indexes=(Index("jobs_by_status", ("status",)),),
    autoincrement=True,
)
CHILDREN = Table(
    "children",
    (Column("id", "TEXT"), Column("job", "INTEGER")),
    ("id",),
    foreign_keys=(ForeignKey(("job",), "jobs", ("seq",)),),
)
SCHEMA = Schema("jobs", (JOBS, CHILDREN))
MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
OLD = """CREATE TABLE "jobs" (seq INTEGER PRIMARY KEY AUTOINCREMENT,
    status TEXT NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running')), outcome TEXT,
    extra TEXT COLLATE NOCASE DEFAULT 'CHECK (x)', twice INT AS (seq * 2) STORED, up INTEGER REFERENCES jobs(seq),
    CHECK (seq < 1000 OR status <> 'x'), CHECK (outcome IN ('good')))"""
AROUND = [
    "CREATE TABLE children (id TEXT PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(seq) ON DELETE CASCADE)",
    "CREATE INDEX jobs_by_status ON jobs(status)",
    "CREATE UNIQUE INDEX own ON jobs(extra) WHERE extra <> 'CHECK (x)'",
    "CREATE TABLE log (seq)",
    "CREATE TRIGGER logged AFTER INSERT ON jobs BEGIN INSERT INTO log VALUES (new.seq); END",
    "CREATE VIEW running AS SELECT seq FROM jobs WHERE status = 'running'",
]
ROWS = [
    "INSERT INTO jobs (seq, status, outcome, extra) VALUES (1, 'queued', NULL, 'One'), (5, 'running', 'good', 'Five')",
    "INSERT INTO jobs (seq) VALUES (9)",
    "DELETE FROM jobs WHERE seq = 9",
    "INSERT INTO children VALUES ('c', 5)",
    "UPDATE jobs SET up = 1 WHERE seq = 5",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An older database with everything that can hang on a table."""
    path = tmp_path / "old.db"
    run_sql(path, "PRAGMA journal_mode=WAL", OLD, *AROUND, *ROWS)
    return path


def migrated(path: Path) -> storage.Database:
    """Open the database and bring it to the schema."""
    db = storage.open_database(path)
    try:
        db.require(SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def test_an_older_check_is_rebuilt_and_everything_else_stays(path: Path) -> None:
    """Rows, further columns, indexes, triggers, views and references survive; only the accepted values change."""
    rows, before = query(path, "SELECT * FROM jobs"), query(path, MASTER)
    db = migrated(path)
    assert query(path, "SELECT * FROM jobs") == rows
    assert query(path, "SELECT * FROM children") == [("c", 5)]
    after = query(path, MASTER)
    assert [row for row in after if row[1] != "jobs"] == [row for row in before if row[1] != "jobs"]
    db.write(lambda tx: tx.execute("UPDATE jobs SET status = 'stopping', outcome = 'bad' WHERE seq = 5"))
    for statement in ("UPDATE jobs SET status = 'x'", "UPDATE jobs SET outcome = 'x'"):
        with pytest.raises(storage.ConstraintError):
            db.write(executing(statement))
    assert query(path, "SELECT * FROM running") == []
    db.close()


def test_references_hold_after_a_rebuild(path: Path) -> None:
    """Foreign keys of other tables, and the table's own, still point at it and are enforced."""
    db = migrated(path)
    for statement in ("INSERT INTO children VALUES ('d', 77)", "UPDATE jobs SET up = 77"):
        with pytest.raises(storage.ConstraintError):
            db.write(executing(statement))
    db.write(lambda tx: tx.execute("DELETE FROM jobs WHERE seq = 5"))
    assert query(path, "SELECT * FROM children") == []
    assert query(path, "PRAGMA foreign_key_check") == []
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    db.close()


def test_a_rebuild_forgets_no_key_that_was_ever_given(path: Path) -> None:
    """The key of a row deleted before the rebuild is not given again after it."""
    db = migrated(path)
    assert db.write(lambda tx: tx.execute("INSERT INTO jobs DEFAULT VALUES RETURNING seq")) == [{"seq": 10}]
    db.close()


def test_a_migrated_database_needs_no_second_migration(path: Path) -> None:
    """What was rebuilt has the shape of the declaration, so that opening it again writes nothing."""
    migrated(path).close()
    before = path.read_bytes()
    migrated(path).close()
    assert path.read_bytes() == before


def test_a_rebuild_touches_no_table_that_it_did_not_make(path: Path) -> None:
    """Whatever bears the name that the copy would get, in whichever case, keeps its rows, and the rebuild succeeds."""
    foreign = (
        "CREATE TABLE Jobs_Next (x)",
        "CREATE INDEX jobs_next1 ON log(seq)",
        "CREATE VIEW jobs_next2 AS SELECT 1",
    )
    run_sql(path, *foreign, "INSERT INTO jobs_next VALUES (1)")
    before = query(path, MASTER)
    db = migrated(path)
    db.write(executing("UPDATE jobs SET status = 'stopping'"))
    db.close()
    assert query(path, "SELECT x FROM jobs_next") == [(1,)]
    assert [row for row in query(path, MASTER) if row[1] != "jobs"] == [row for row in before if row[1] != "jobs"]


def test_a_temporary_table_does_not_take_the_rows_of_a_rebuild(path: Path) -> None:
    """A table of the connection's own that would hide the copy is left alone, and no row gets lost in it."""
    db = storage.open_database(path)
    db.write(executing("CREATE TEMP TABLE jobs_next AS SELECT 'kept' AS x"))
    db.require(SCHEMA)
    assert db.read(executing("SELECT x FROM temp.jobs_next")) == [{"x": "kept"}]
    assert query(path, "SELECT count(*) FROM jobs") == [(2,)]
    db.close()


def test_a_row_that_the_new_check_refuses_leaves_the_file_untouched(tmp_path: Path) -> None:
    """The refusal names table and column, and not a byte of the database changes."""
    path = tmp_path / "newer.db"
    wider = OLD.replace("'running')", "'running', 'unheard-of')")
    run_sql(path, "PRAGMA journal_mode=WAL", wider, *AROUND, *ROWS, "UPDATE jobs SET status = 'unheard-of'")
    before = path.read_bytes()
    with pytest.raises(storage.UnsupportedDatabaseError, match="table jobs, column status") as caught:
        migrated(path)
    assert "unheard-of" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_table_without_a_check_is_left_as_it_is(tmp_path: Path) -> None:
    """Where nothing limits a column, nothing is added, whatever the rows hold."""
    path = tmp_path / "free.db"
    free = "CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, status TEXT, outcome TEXT)"
    run_sql(path, free, "INSERT INTO jobs VALUES (1, 'anything', NULL)")
    migrated(path).close()
    assert query(path, "SELECT sql FROM sqlite_master WHERE name = 'jobs'") == [(free,)]
    assert query(path, "SELECT * FROM jobs") == [(1, "anything", None)]


@pytest.mark.parametrize("step", ["CREATE TABLE", "INSERT", "DROP TABLE", "ALTER", "CREATE UNIQUE INDEX", "COMMIT"])
def test_a_failure_in_the_middle_leaves_schema_and_rows_as_they_were(
    path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step fails, everything is rolled back, and the connection goes on with foreign keys on."""
    execute = SqliteTransaction.execute

    def failing(tx: SqliteTransaction, sql: str, parameters: storage.Parameters = {}) -> list[storage.Row]:  # noqa: B006 - never written to
        if sql.startswith(step) and "IF EXISTS" not in sql:
            raise StorageError(step)
        rows = execute(tx, sql, parameters)
        if step == "COMMIT" and sql.startswith("CREATE TRIGGER"):
            raise StorageError(step)
        return rows

    before = query(path, MASTER), query(path, "SELECT * FROM jobs"), query(path, "SELECT * FROM sqlite_sequence")
    monkeypatch.setattr(SqliteTransaction, "execute", failing)
    db = storage.open_database(path)
    with pytest.raises(StorageError, match=step):
        db.require(SCHEMA)
    monkeypatch.undo()
    after = query(path, MASTER), query(path, "SELECT * FROM jobs"), query(path, "SELECT * FROM sqlite_sequence")
    assert after == before
    with pytest.raises(storage.ConstraintError):
        db.write(lambda tx: tx.execute("INSERT INTO children VALUES ('d', 77)"))
    db.require(SCHEMA)
    db.close()


def test_a_copy_that_lost_rows_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are counted before the old table is dropped."""
    execute = SqliteTransaction.execute

    def losing(tx: SqliteTransaction, sql: str, parameters: storage.Parameters = {}) -> list[storage.Row]:  # noqa: B006 - never written to
        return execute(tx, sql + " WHERE seq < 2" if sql.startswith('INSERT INTO "jobs_next"') else sql, parameters)

    monkeypatch.setattr(SqliteTransaction, "execute", losing)
    with pytest.raises(storage.UnsupportedDatabaseError, match="expected 2 rows in its copy, found 1"):
        migrated(path)
    assert query(path, "SELECT count(*) FROM jobs") == [(2,)]


def test_two_processes_migrate_at_once_and_lose_no_row(path: Path) -> None:
    """Both succeed, the second finds the work done, and rows written meanwhile are kept."""
    script = """
from tests.storage.test_migration import SCHEMA
while time.time() < float(sys.argv[2]):
    pass
db = storage.open_database(sys.argv[1])
db.require(SCHEMA)
db.write(lambda tx: tx.execute("INSERT INTO jobs (status) VALUES ('stopping')"))
"""
    run_sql(path, *[f"INSERT INTO jobs (status) VALUES ('queued') /* {number} */" for number in range(500)])
    when = time.time() + 1.5
    for process in [start(script, path, when) for _ in range(4)]:
        finish(process)
    assert query(path, "SELECT count(*) FROM jobs") == [(506,)]


def test_a_database_in_memory_is_migrated_too() -> None:
    """The same holds where one connection serves all threads."""
    db = storage.open_database(":memory:")
    db.write(lambda tx: [tx.execute(statement) for statement in (OLD, *AROUND, *ROWS)])
    db.require(SCHEMA)
    db.write(lambda tx: tx.execute("UPDATE jobs SET status = 'stopping'"))
    with pytest.raises(storage.ConstraintError):
        db.write(lambda tx: tx.execute("INSERT INTO children VALUES ('d', 77)"))
    db.close()
