"""Totals: kept by the database itself whoever writes, summed up anew where they were not, proven by a scan."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import storage
from storage import Column, Schema, Table, Total, WrongTotal, wrong_totals
from storage.sqlite.transaction import SqliteTransaction
from storage.totals import read_total
from tests.engines import Engine
from tests.storage.support import executing, finish, query, run_sql, start

KEPT = Table("kept", (Column("name", "TEXT"), Column("total", "INTEGER")), ("name",))
SIZE, OPEN = Total("size", KEPT, column="size"), Total("open", KEPT, while_null="closed")
OPEN_SIZE, ALL = Total("it's open", KEPT, column="size", while_null="closed"), Total("all", KEPT)
BOXES = Table(
    "boxes",
    (
        Column("id", "INTEGER"),
        Column("size", "INTEGER", default=0),
        Column("closed", "REAL", nullable=True),
        Column("kind", "TEXT", default="a", one_of=("a", "b")),
    ),
    ("id",),
    totals=(SIZE, OPEN, OPEN_SIZE, ALL),
)
SCHEMA = Schema("boxes", (BOXES, KEPT))
MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
INSERT = "INSERT INTO boxes (id, size, closed) VALUES (:id, :size, :closed)"
OLD = "CREATE TABLE boxes (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, closed REAL, kind TEXT)"
FOUR = "INSERT INTO boxes VALUES (1, 10, NULL, 'a'), (2, 20, 1.5, 'a'), (3, 30, NULL, 'a'), (4, 0, 2, 'a')"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database of a test is."""
    return tmp_path / "state.db"


@pytest.fixture
def boxes(db: storage.Database) -> storage.Database:
    """A database with an empty table that keeps four totals."""
    db.require(SCHEMA)
    return db


def opened(path: Path, schema: Schema = SCHEMA, *, read_only: bool = False) -> storage.Database:
    """Open a database and require a schema; the handle is closed when that fails."""
    handle = storage.open_database(path, read_only=read_only)
    try:
        handle.require(schema)
    except BaseException:
        handle.close()
        raise
    return handle


def kept(db: storage.Database) -> dict[str, storage.Value]:
    """Return what is kept, by the total's name."""
    return {str(row["name"]): row["total"] for row in db.read(executing("SELECT name, total FROM kept"))}


def wrong(db: storage.Database, schema: Schema = SCHEMA) -> tuple[WrongTotal, ...]:
    """Return the totals that a scan finds to be others."""
    return db.read(lambda tx: wrong_totals(tx, schema))


def as_kept(size: int, live: int, live_size: int, count: int) -> dict[str, int]:
    """Return the four totals by name."""
    return {"size": size, "open": live, "it's open": live_size, "all": count}


def test_a_new_table_keeps_totals_of_nothing(boxes: storage.Database) -> None:
    """Every total is there from the start, and is zero."""
    assert kept(boxes) == as_kept(0, 0, 0, 0)
    assert wrong(boxes) == ()


def test_totals_follow_every_kind_of_write(boxes: storage.Database) -> None:
    """Inserted, changed, closed, opened again, moved to another key and deleted rows all count at once."""
    steps: list[tuple[str, dict[str, int]]] = [
        ("INSERT INTO boxes (id, size) VALUES (1, 10), (2, 20)", as_kept(30, 2, 30, 2)),
        ("UPDATE boxes SET size = size + 5 WHERE id = 2", as_kept(35, 2, 35, 2)),
        ("UPDATE boxes SET closed = 1.5 WHERE id = 1", as_kept(35, 1, 25, 2)),
        ("UPDATE boxes SET size = 11, closed = 2.5 WHERE id = 1", as_kept(36, 1, 25, 2)),
        ("INSERT INTO boxes (id, size) VALUES (1, 99) ON CONFLICT DO NOTHING", as_kept(36, 1, 25, 2)),
        (
            "INSERT INTO boxes (id, size) VALUES (1, 99) ON CONFLICT (id) DO UPDATE SET size = excluded.size",
            as_kept(124, 1, 25, 2),
        ),
        ("UPDATE boxes SET closed = NULL", as_kept(124, 2, 124, 2)),
        ("UPDATE boxes SET id = 7 WHERE id = 1", as_kept(124, 2, 124, 2)),
        ("DELETE FROM boxes WHERE id = 7", as_kept(25, 1, 25, 1)),
        ("DELETE FROM boxes", as_kept(0, 0, 0, 0)),
    ]
    for statement, expected in steps:
        boxes.write(executing(statement))
        assert kept(boxes) == expected, statement
        assert wrong(boxes) == ()


def test_a_write_that_adds_nothing_leaves_the_total_alone(boxes: storage.Database) -> None:
    """A change of no share of a row is one change, so that whoever makes it waits for nobody else's total."""
    boxes.write(executing("INSERT INTO boxes (id, size) VALUES (1, 10)"))
    for statement in ("UPDATE boxes SET size = size", "UPDATE boxes SET kind = 'b'"):

        def body(tx: storage.Transaction, statement: str = statement) -> int:
            tx.execute(statement)
            return tx.changes

        assert boxes.write(body) == 1


def test_a_transaction_that_comes_to_nothing_adds_nothing(boxes: storage.Database) -> None:
    """What is rolled back, and what is undone to a mark, is not in any total."""

    def fails(tx: storage.Transaction) -> None:
        tx.execute(INSERT, {"id": 1, "size": 10, "closed": None})
        raise RuntimeError

    with pytest.raises(RuntimeError):
        boxes.write(fails)
    with boxes.transaction() as tx:
        tx.execute(INSERT, {"id": 2, "size": 20, "closed": None})
        mark = tx.mark()
        tx.execute(INSERT, {"id": 3, "size": 30, "closed": None})
        tx.undo(mark)
    assert kept(boxes) == as_kept(20, 1, 20, 1)


def test_another_programs_writes_count(path: Path) -> None:
    """A connection that knows nothing of totals keeps them nevertheless."""
    opened(path).close()
    run_sql(path, FOUR, "DELETE FROM boxes WHERE id = 2", "UPDATE boxes SET size = 31 WHERE id = 3")
    db = opened(path)
    assert kept(db) == as_kept(41, 2, 41, 3)
    assert wrong(db) == ()
    db.close()


def test_rows_that_were_there_before_are_summed_up(path: Path) -> None:
    """An older database without totals gets them with the sums of its rows, and keeps them from then on."""
    run_sql(path, OLD, FOUR)
    db = opened(path)
    assert kept(db) == as_kept(60, 2, 40, 4)
    db.write(executing(INSERT, {"id": 5, "size": 1, "closed": None}))
    assert kept(db) == as_kept(61, 3, 41, 5)
    db.close()


def test_a_missing_trigger_is_made_again_and_the_total_summed_up_anew(path: Path) -> None:
    """What was written while a trigger was gone is in the total once the schema is required again."""
    opened(path).close()
    triggers = [str(row[0]) for row in query(path, "SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    assert len(triggers) == 4 * 3
    before = query(path, MASTER)
    for number, trigger in enumerate(triggers, start=1):
        run_sql(path, f'DROP TRIGGER "{trigger}"', f"INSERT INTO boxes VALUES ({number}, 7, NULL, 'a')")
        run_sql(path, f"UPDATE boxes SET size = 8 WHERE id = {number}")
        db = opened(path)
        assert wrong(db) == ()
        db.close()
        assert query(path, MASTER) == before


def test_a_total_that_was_deleted_is_summed_up_anew(path: Path) -> None:
    """A missing row of a total comes back with the sum, a missing table with all of them."""
    run_sql(path, OLD, FOUR)
    opened(path).close()
    for damage in ("DELETE FROM kept WHERE name = 'open'", "DROP TABLE kept"):
        run_sql(path, damage)
        db = opened(path)
        assert kept(db) == as_kept(60, 2, 40, 4)
        db.close()


def test_a_current_database_is_not_written_to(path: Path) -> None:
    """Requiring a schema whose totals are kept changes no byte of the file."""
    run_sql(path, OLD, FOUR)
    opened(path).close()
    before = path.read_bytes()
    opened(path).close()
    assert path.read_bytes() == before


def test_a_trigger_of_another_spelling_is_the_same_trigger(path: Path) -> None:
    """Case, spacing, quoting and comments of what another program dumped and loaded again do not matter."""
    opened(path).close()
    (text,) = (str(row[0]) for row in query(path, "SELECT sql FROM sqlite_master WHERE name = 'boxes_size_insert'"))
    spelt = text.replace(" AFTER INSERT ON ", "\n  after /* any */ insert on [boxes] -- so\n").replace('"boxes"', "", 1)
    assert spelt != text
    run_sql(path, "DROP TRIGGER boxes_size_insert", spelt)
    before = query(path, MASTER)
    opened(path).close()
    assert query(path, MASTER) == before


@pytest.mark.parametrize("elsewhere", ["boxes", "kept"])
def test_another_trigger_of_that_name_refuses_the_database(path: Path, elsewhere: str) -> None:
    """What somebody else's trigger does is not overwritten: the refusal names it, and no byte changes."""
    opened(path).close()
    other = f"CREATE TRIGGER boxes_size_insert AFTER INSERT ON {elsewhere} BEGIN DELETE FROM kept; END"
    run_sql(path, "DROP TRIGGER boxes_size_insert", other)
    before = path.read_bytes()
    with pytest.raises(storage.UnsupportedDatabaseError, match="boxes_size_insert"):
        opened(path)
    assert path.read_bytes() == before


def test_a_rebuilt_table_keeps_its_totals(path: Path) -> None:
    """Rebuilding a CHECK copies the rows without counting them twice, and the triggers go on afterwards."""
    run_sql(path, OLD.replace("kind TEXT", "kind TEXT CHECK (kind IN ('a'))"), FOUR)
    narrow = evolve(BOXES, columns=(*BOXES.columns[:3], Column("kind", "TEXT", one_of=("a",))))
    opened(path, Schema("narrow", (narrow, KEPT))).close()
    db = opened(path)
    assert kept(db) == as_kept(60, 2, 40, 4)
    db.write(executing("UPDATE boxes SET size = 11, kind = 'b' WHERE id = 1"))
    assert kept(db) == as_kept(61, 2, 41, 4)
    assert wrong(db) == ()
    db.close()


def test_a_reader_of_an_older_database_does_without_totals(path: Path) -> None:
    """A read-only handle neither needs nor makes what only writers need."""
    run_sql(path, OLD, FOUR)
    before = path.read_bytes()
    db = opened(path, read_only=True)
    assert [each.found for each in wrong(db)] == [None] * 4
    db.close()
    assert path.read_bytes() == before


def test_the_proof_names_what_is_wrong(boxes: storage.Database) -> None:
    """A total that was written by hand, and one that is missing, are each named with what a scan finds."""
    boxes.write(executing("INSERT INTO boxes (id, size) VALUES (1, 10)"))
    boxes.write(executing("UPDATE kept SET total = 11 WHERE name = 'size'"))
    boxes.write(executing("DELETE FROM kept WHERE name = 'all'"))
    assert wrong(boxes) == (WrongTotal("boxes", "size", 10, 11), WrongTotal("boxes", "all", 1, None))
    empty = Schema("other", (evolve(BOXES, name="others"), evolve(KEPT)))
    assert [(each.expected, each.found) for each in wrong(boxes, empty)] == [(0, 11), (0, 1), (0, 10), (0, None)]


def test_a_replacing_program_is_found_out(path: Path) -> None:
    """REPLACE goes past the triggers of SQLite, as its documents say; the proof tells, and nothing is hidden."""
    db = opened(path)
    run_sql(path, FOUR, "REPLACE INTO boxes VALUES (1, 1, NULL, 'a')")
    assert wrong(db)[0] == WrongTotal("boxes", "size", 51, 61)
    db.close()


def test_a_total_is_read_without_touching_the_table(path: Path) -> None:
    """The kept row is found by its key: what the table holds does not matter to a reader."""
    opened(path).close()
    plan = query(path, f"EXPLAIN QUERY PLAN {read_total(SIZE)}")
    assert ["SEARCH kept" in str(row[3]) for row in plan] == [True]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert or nothing", "size", "close", "open", "key", "delete", "undo"]),
        st.integers(1, 4),
        st.integers(0, 5),
    ),
    max_size=30,
)
STATEMENTS = {
    "insert": "INSERT INTO boxes (id, size) SELECT :id, :n WHERE NOT EXISTS (SELECT 1 FROM boxes WHERE id = :id)",
    "insert or nothing": "INSERT INTO boxes (id, size, closed) VALUES (:id, :n, :n) ON CONFLICT DO NOTHING",
    "size": "UPDATE boxes SET size = :n WHERE id = :id",
    "close": "UPDATE boxes SET closed = :n WHERE id >= :id",
    "open": "UPDATE boxes SET closed = NULL, size = size + :n WHERE id <= :id",
    "key": "UPDATE boxes SET id = id + 100 * :n WHERE id = :id AND NOT EXISTS (SELECT 1 FROM boxes WHERE id > 100)",
    "delete": "DELETE FROM boxes WHERE id >= :id",
    "undo": "UPDATE boxes SET size = size + :n, closed = CASE WHEN closed IS NULL THEN 1.0 END",
}


@settings(max_examples=100)
@given(operations=OPERATIONS)
def test_no_sequence_of_writes_makes_a_total_wrong(engine: Engine, operations: list[tuple[str, int, int]]) -> None:
    """Whatever is written, kept or undone, each total is the sum of the rows."""
    db = engine.fresh()
    db.require(SCHEMA)
    with db.transaction() as tx:
        for name, number, n in operations:
            mark = tx.mark()
            tx.execute(STATEMENTS[name], {"id": number, "n": n})
            tx.undo(mark) if name == "undo" else tx.keep(mark)
            assert wrong_totals(tx, SCHEMA) == ()


def test_two_processes_meet_an_older_database_at_once(path: Path) -> None:
    """Each sums up or finds it done, each writes rows meanwhile, and the totals are right."""
    script = """
from tests.storage.test_totals import INSERT, SCHEMA
while time.time() < float(sys.argv[2]):
    pass
db = storage.open_database(sys.argv[1])
db.require(SCHEMA)
for number in range(20):
    db.write(lambda tx: tx.execute(INSERT, {"id": int(sys.argv[3]) + number, "size": 3, "closed": None}))
"""
    run_sql(path, "PRAGMA journal_mode=WAL", OLD, FOUR)
    when = time.time() + 1.5
    for process in [start(script, path, when, 100 * number) for number in (1, 2, 3)]:
        finish(process)
    db = opened(path)
    assert kept(db) == as_kept(60 + 180, 62, 220, 64)
    assert wrong(db) == ()
    db.close()


def test_a_failure_while_summing_up_leaves_the_database_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers and totals come in one transaction with the tables: all of them or none."""
    run_sql(path, OLD, FOUR)
    before = query(path, MASTER)
    execute = SqliteTransaction.execute

    def failing(tx: SqliteTransaction, sql: str, parameters: storage.Parameters = {}) -> list[storage.Row]:  # noqa: B006 - never written to
        if sql.startswith('INSERT INTO "kept"') and "'all'" in sql:
            raise storage.StorageError("no")
        return execute(tx, sql, parameters)

    monkeypatch.setattr(SqliteTransaction, "execute", failing)
    with pytest.raises(storage.StorageError, match="no"):
        opened(path)
    monkeypatch.undo()
    assert query(path, MASTER) == before


def test_damage_in_a_summed_column_stops_no_writer(path: Path) -> None:
    """A text or nothing where a number belongs counts as SQLite counts it, in the total and in the proof alike."""
    db = opened(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("INSERT INTO boxes VALUES (1, 'many', NULL, 'a'), (2, x'00', 'soon', 'a')")
        raw.execute("UPDATE boxes SET size = 12 WHERE id = 1")
    assert kept(db)["size"] == 12
    assert wrong(db) == ()
    db.close()


@pytest.mark.parametrize(
    "declare",
    [
        lambda: evolve(BOXES, totals=(Total("x", KEPT, column="nope"),)),
        lambda: evolve(BOXES, totals=(Total("x", KEPT, while_null="nope"),)),
        lambda: evolve(BOXES, totals=(Total("x", BOXES),)),
        lambda: Schema("x", (BOXES,)),
        lambda: Schema("x", (BOXES, evolve(BOXES, name="more"), KEPT)),
    ],
    ids=["column", "while_null", "kept_in", "kept nowhere", "two of a name"],
)
def test_a_total_that_could_not_be_kept_is_refused(declare: Callable[[], object]) -> None:
    """A total sums up a declared column, in a table of totals that its schema has, under a name of its own."""
    with pytest.raises(ValueError, match=r"total|undeclared"):
        declare()
