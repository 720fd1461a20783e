"""Schemas: created when missing, judged by shape when there, never half changed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

import storage
from storage import Column, ForeignKey, Index, Schema, Table
from tests.storage.support import NOTES, executing, query, run_sql

ROOMS = Table("rooms", (Column("id", "TEXT"),), ("id",))
TASKS = Table(
    "tasks",
    (
        Column("seq", "INTEGER"),
        Column("room", "TEXT"),
        Column("grant", "TEXT", default="it's"),
        Column("count", "INTEGER", default=0, minimum=0),
        Column("at", "REAL", nullable=True),
        Column("epoch", "INTEGER", nullable=True, minimum=1),
        Column("status", "TEXT", one_of=("queued", "it's on")),
        Column("outcome", "TEXT", nullable=True, one_of=("good", "bad")),
    ),
    ("seq",),
    unique=(("room", "grant"),),
    foreign_keys=(ForeignKey(("room",), "rooms", ("id",)),),
    indexes=(Index("tasks_by_status", ("status", "at")), Index("tasks_by_at", ("at",), unique=True)),
    autoincrement=True,
)
SCHEMA = Schema("tasks", (ROOMS, TASKS))
INSERT = "INSERT INTO tasks (room, status) VALUES ('r', :status)"
MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"

EXISTING = """CREATE TABLE tasks (  -- CHECK (status IN ('comment'))
    seq integer primary key autoincrement, room VARCHAR(9) NOT NULL REFERENCES rooms, "grant" TEXT, [count] BIGINT,
    at DOUBLE, epoch INT, `status` TEXT CHECK(((status) in ('queued','it''s on'))), outcome, extra TEXT DEFAULT ')',
    CHECK (outcome = 'good' OR outcome IS NULL OR 'bad' = "outcome"), UNIQUE ("grant", room))"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database of a test is."""
    return tmp_path / "state.db"


def open_with(path: Path, schema: Schema, *, read_only: bool = False) -> storage.Database:
    """Open a database and require a schema; the handle is closed when that fails."""
    db = storage.open_database(path, read_only=read_only)
    try:
        db.require(schema)
    except BaseException:
        db.close()
        raise
    return db


def test_a_missing_schema_is_created_with_every_rule(path: Path) -> None:
    """Keys, defaults, CHECKs, foreign keys and indexes of a declaration hold in a new database."""
    db = open_with(path, SCHEMA)
    db.write(lambda tx: tx.execute("INSERT INTO rooms VALUES ('r')"))
    (row,) = db.write(lambda tx: tx.execute(INSERT + " RETURNING *", {"status": "it's on"}))
    assert row == {"seq": 1, "room": "r", "grant": "it's", "count": 0, "at": None, "epoch": None} | {
        "status": "it's on",
        "outcome": None,
    }
    refused = ["status = 'other'", "outcome = 'other'", "count = -1", "epoch = 0", "room = 'missing'", "status = NULL"]
    for assignment in refused:
        with pytest.raises(storage.ConstraintError):
            db.write(executing(f"UPDATE tasks SET {assignment}"))
    with pytest.raises(storage.ConstraintError):
        db.write(lambda tx: tx.execute(INSERT, {"status": "queued"}))
    db.close()


def test_keys_of_an_autoincrement_table_are_never_used_twice(path: Path) -> None:
    """A deleted row's key stays used."""
    db = open_with(path, SCHEMA)
    db.write(lambda tx: tx.execute("INSERT INTO rooms VALUES ('r')"))
    insert = INSERT + " RETURNING seq"
    db.write(lambda tx: tx.execute(insert, {"status": "queued"}))
    db.write(lambda tx: tx.execute("DELETE FROM tasks"))
    assert db.write(lambda tx: tx.execute(insert, {"status": "queued"})) == [{"seq": 2}]
    db.close()


def test_requiring_again_asks_the_database_nothing(path: Path) -> None:
    """The second require on a connection is a lookup, also for an equal schema built anew."""
    db = open_with(path, SCHEMA)
    seen: list[str] = []
    db._session().connection.set_trace_callback(seen.append)  # type: ignore[attr-defined]  # looks behind the port
    db.require(SCHEMA)
    db.require(Schema("tasks", (ROOMS, TASKS)))
    assert seen == []
    db.close()


def test_a_table_of_another_spelling_and_the_same_shape_is_accepted_untouched(path: Path) -> None:
    """Quoting, case, types of the same affinity, further columns and other texts of a CHECK do not matter."""
    index = ["CREATE UNIQUE INDEX tasks_by_at ON tasks(at)", "CREATE INDEX tasks_by_status ON tasks(status, at)"]
    run_sql(path, "CREATE TABLE rooms (id TEXT PRIMARY KEY)", EXISTING, *index)
    before = query(path, MASTER)
    open_with(path, SCHEMA).close()
    assert query(path, MASTER) == before


def test_a_missing_index_is_created(path: Path) -> None:
    """An index that an older version did not have is added, and nothing else changes."""
    run_sql(path, "CREATE TABLE rooms (id TEXT PRIMARY KEY)", EXISTING)
    before = query(path, MASTER)
    open_with(path, SCHEMA).close()
    added = [row for row in query(path, MASTER) if row not in before]
    assert [row[1] for row in added] == ["tasks_by_at", "tasks_by_status"]


def swap(old: str, new: str) -> Callable[[], list[str]]:
    """Return the statements of the accepted table with one part of them changed."""
    assert old in EXISTING
    return lambda: ["CREATE TABLE rooms (id TEXT PRIMARY KEY)", EXISTING.replace(old, new)]


UNKNOWN: dict[str, tuple[Callable[[], list[str]], str]] = {
    "column missing": (swap("epoch INT,", ""), "epoch"),
    "other kind": (swap("[count] BIGINT", "[count] TEXT"), "count to be INTEGER"),
    "not null": (swap("epoch INT,", "epoch INT NOT NULL,"), "epoch to accept NULL"),
    "no autoincrement": (swap("autoincrement", ""), "AUTOINCREMENT"),
    "other key": (swap("seq integer primary key autoincrement", "seq integer"), r"primary key \(seq\)"),
    "no unique key": (swap(', UNIQUE ("grant", room)', ""), r"\(room, grant\) to be unique"),
    "no foreign key": (swap("REFERENCES rooms", ""), r"foreign key \(room\) to rooms\(id\)"),
    "other foreign key": (swap("REFERENCES rooms", "REFERENCES rooms(other)"), "foreign key"),
    "partial key": (
        lambda: [
            *swap(', UNIQUE ("grant", room)', "")(),
            'CREATE UNIQUE INDEX part ON tasks(room, "grant") WHERE at IS NULL',
        ],
        "to be unique",
    ),
    "other index": (lambda: [*swap("tasks", "tasks")(), "CREATE INDEX tasks_by_at ON tasks(at)"], "tasks_by_at"),
    "index elsewhere": (lambda: [*swap("tasks", "tasks")(), "CREATE INDEX tasks_by_at ON rooms(id)"], "tasks_by_at"),
    "a view": (lambda: ["CREATE VIEW rooms AS SELECT 'x' AS id"], "table rooms"),
}


@pytest.mark.parametrize("case", sorted(UNKNOWN))
def test_another_shape_is_refused_and_left_as_it_was(path: Path, case: str) -> None:
    """Any other difference names the table, what was expected and what was found, and writes nothing at all."""
    statements, expected = UNKNOWN[case]
    run_sql(path, "PRAGMA journal_mode=WAL", *statements())
    before = path.read_bytes()
    with pytest.raises(storage.UnsupportedDatabaseError, match=expected) as caught:
        open_with(path, SCHEMA)
    assert "left as it was" in str(caught.value)
    assert path.read_bytes() == before


def test_an_exact_table_may_have_no_further_column(path: Path) -> None:
    """`exact` asks for exactly the declared columns."""
    run_sql(path, "CREATE TABLE rooms (id TEXT PRIMARY KEY, extra)")
    open_with(path, Schema("least", (ROOMS,))).close()
    with pytest.raises(storage.UnsupportedDatabaseError, match="also extra"):
        open_with(path, Schema("exact", (evolve(ROOMS, exact=True),)))


def test_nothing_is_created_when_a_later_table_is_refused(path: Path) -> None:
    """A schema is judged whole before anything is written."""
    run_sql(path, "CREATE TABLE tasks (seq INTEGER)")
    before = query(path, MASTER)
    with pytest.raises(storage.UnsupportedDatabaseError, match="table tasks"):
        open_with(path, SCHEMA)
    assert query(path, MASTER) == before


def test_rows_that_break_a_missing_unique_index_refuse_the_database(path: Path) -> None:
    """An index that the rows do not allow is an unsupported database, rolled back whole."""
    run_sql(path, "CREATE TABLE tasks_like (at REAL)", "INSERT INTO tasks_like VALUES (1), (1)")
    table = Table("tasks_like", (Column("at", "REAL"),), (), indexes=(Index("once", ("at",), unique=True),))
    with pytest.raises(storage.UnsupportedDatabaseError, match="table tasks_like"):
        open_with(path, Schema("x", (ROOMS, table)))
    assert [row[1] for row in query(path, MASTER)] == ["tasks_like"]


def test_a_read_only_handle_judges_and_creates_nothing(path: Path) -> None:
    """A missing table refuses a read-only handle; a missing index does not."""
    run_sql(path, "CREATE TABLE rooms (id TEXT PRIMARY KEY)")
    with pytest.raises(storage.UnsupportedDatabaseError, match="named tasks"):
        open_with(path, SCHEMA, read_only=True)
    run_sql(path, EXISTING)
    before = query(path, MASTER)
    open_with(path, SCHEMA, read_only=True).close()
    assert query(path, MASTER) == before


def test_a_schema_is_not_required_inside_a_transaction(notes: storage.Database) -> None:
    """An operation asks for its schema first; inside a transaction only what is known already passes."""

    def body(_: storage.Transaction) -> None:
        notes.require(NOTES)
        with pytest.raises(storage.StorageError, match="use the open transaction"):
            notes.require(SCHEMA)

    notes.write(body)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: evolve(ROOMS, primary_key=("nope",)),
        lambda: evolve(ROOMS, unique=(("nope",),)),
        lambda: evolve(ROOMS, indexes=(Index("i", ("nope",)),)),
        lambda: evolve(ROOMS, foreign_keys=(ForeignKey(("nope",), "rooms", ("id",)),)),
        lambda: evolve(ROOMS, autoincrement=True),
    ],
    ids=["primary_key", "unique", "indexes", "foreign_keys", "autoincrement"],
)
def test_a_declaration_over_undeclared_columns_is_refused(declare: Callable[[], Table]) -> None:
    """Keys and indexes name declared columns, and only a single INTEGER key counts by itself."""
    with pytest.raises(ValueError, match="table rooms"):
        declare()


def test_a_check_that_cannot_be_evaluated_is_refused(path: Path) -> None:
    """A CHECK that calls what this connection does not know cannot be judged, so the database is not touched."""
    run_sql(path, "CREATE TABLE odd (status TEXT PRIMARY KEY CHECK (status IN ('a')))", "PRAGMA writable_schema=ON")
    run_sql(
        path,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'status IN (''a'')', 'unknown(status)')",
    )
    odd = Table("odd", (Column("status", "TEXT", one_of=("a",)),), ("status",))
    with pytest.raises(storage.UnsupportedDatabaseError):
        open_with(path, Schema("odd", (odd,)))
