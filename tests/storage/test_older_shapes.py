"""Tables of an older shape: columns added, keys changed, rows filled in; everything kept, or nothing changed at all."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import storage
from storage import Added, Backfill, Column, ForeignKey, Index, Schema, Table
from tests.storage.support import executing, query, run_sql

OWNERS = Table("owners", (Column("id", "TEXT"),), ("id",))
NOTES = Table(
    "notes",
    (
        Column("id", "TEXT"),
        Column("owner", "TEXT", added=Added("it's nobody")),
        Column("rank", "INTEGER", default=1, minimum=1, added=Added(3)),
        Column("epoch", "INTEGER", nullable=True, minimum=1, added=Added()),
        Column("text", "TEXT", default=""),
        Column("size", "INTEGER", minimum=0, added=Added(0)),
        Column("at", "REAL"),
        Column("status", "TEXT", one_of=("open", "shut")),
    ),
    ("id",),
    unique=(("text", "at"),),
    foreign_keys=(ForeignKey(("owner",), "owners", ("id",)),),
    indexes=(Index("notes_by_at", ("at",)),),
)
COUNT = Backfill("UPDATE notes SET size = octet_length(text)", after=("notes", "size"))
LOG = Backfill("INSERT INTO log SELECT id FROM notes WHERE TRUE ON CONFLICT DO NOTHING")
LOGGED = Table("log", (Column("id", "TEXT"),), ("id",))
RUNS = Table(
    "runs",
    (Column("room", "TEXT"), Column("home", "TEXT", added=Added("legacy")), Column("run", "TEXT")),
    ("room", "home"),
    rekeyed=True,
)
SCHEMA = Schema("older", (OWNERS, NOTES, LOGGED, RUNS), backfills=(COUNT, LOG))

OLD = """CREATE TABLE notes ( -- (a comment, with a comma
    text TEXT NOT NULL DEFAULT '', id TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL,
    "extra, one" TEXT COLLATE NOCASE DEFAULT 'a, (b' CHECK ("extra, one" <> 'x'), -- the last, so to say
    at REAL NOT NULL, status TEXT NOT NULL CHECK (status IN ('open')),
    twice INT AS (at * 2) STORED /* computed */,
    UNIQUE (text, at), CONSTRAINT further CHECK ("extra, one" <> 'y'), CHECK (at < 1e9),
    FOREIGN KEY (owner) REFERENCES owners(id) -- done
)"""
BEFORE = [
    "PRAGMA journal_mode=WAL",
    "CREATE TABLE owners (id TEXT PRIMARY KEY)",
    OLD,
    'CREATE INDEX own ON notes("extra, one") WHERE at > 1',
    "CREATE TABLE seen (id)",
    "CREATE TRIGGER watch AFTER INSERT ON notes BEGIN INSERT INTO seen VALUES (new.id); END",
    "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, room TEXT NOT NULL, run TEXT NOT NULL)",
    "INSERT INTO owners VALUES ('ann')",
    (
        "INSERT INTO notes (id, owner, text, at, status)"
        " VALUES ('a', 'ann', 'é漢🌍', 1.5, 'open'), ('b', 'ann', '', 2, 'open')"
    ),
    "INSERT INTO runs (id, room, run) VALUES (7, 'r1', 'first'), (9, 'r2', 'other'), (8, 'r1', 'second')",
]


def shape_of(path: Path, table: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what SQLite says of a table: columns in order, keys and references."""
    indexes = query(path, f"SELECT name, \"unique\", origin, partial FROM pragma_index_list('{table}')")
    return {
        "columns": query(path, f"SELECT * FROM pragma_table_xinfo('{table}') ORDER BY cid"),
        "references": query(path, f"SELECT * FROM pragma_foreign_key_list('{table}')"),
        "keys": sorted(
            (*index[1:], *query(path, f"SELECT name FROM pragma_index_info('{index[0]}') ORDER BY seqno"))
            for index in indexes
        ),
    }


def migrated(path: Path, schema: Schema = SCHEMA) -> None:
    """Bring a database to a schema."""
    db = storage.open_database(path)
    try:
        db.require(schema)
    finally:
        db.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database from before three columns and a key, with further columns and everything that can hang on a table."""
    path = tmp_path / "old.db"
    run_sql(path, *BEFORE)
    return path


def test_missing_columns_are_added_where_they_are_declared(path: Path) -> None:
    """The columns stand in the declared order with their defaults and CHECKs, further ones behind them."""
    migrated(path)
    columns = [(row[1], row[3], row[4]) for row in shape_of(path, "notes")["columns"]]
    assert columns == [
        ("id", 1, None),
        ("owner", 1, None),
        ("rank", 1, "1"),
        ("epoch", 0, None),
        ("text", 1, "''"),
        ("size", 1, None),
        ("at", 1, None),
        ("status", 1, None),
        ("extra, one", 0, "'a, (b'"),
        ("twice", 0, None),
    ]
    db = storage.open_database(path)
    further = [f"\"extra, one\" = '{value}'" for value in ("x", "y")]
    for assignment in ("rank = 0", "epoch = 0", "size = -1", "status = 'x'", *further):
        with pytest.raises(storage.ConstraintError):
            db.write(executing(f"UPDATE notes SET {assignment}"))
    db.write(executing("UPDATE notes SET status = 'shut', at = 2e9 WHERE id = 'a'"))
    db.close()


def test_rows_get_what_older_ones_get(path: Path) -> None:
    """Each row has its old values, the declared ones in the new columns, and what the backfill worked out."""
    migrated(path)
    assert query(path, "SELECT * FROM notes ORDER BY id") == [
        ("a", "ann", 3, None, "é漢🌍", 9, 1.5, "open", "a, (b", 3),
        ("b", "ann", 3, None, "", 0, 2.0, "open", "a, (b", 4),
    ]


def test_what_hangs_on_the_table_stays(path: Path) -> None:
    """Indexes and triggers are there, the declared index is added, and copying was no insertion for the trigger."""
    migrated(path)
    names = query(path, "SELECT type, name FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL")
    assert sorted(names) == [("index", "notes_by_at"), ("index", "own"), ("trigger", "watch")]
    assert query(path, "SELECT * FROM seen") == [("a",), ("b",)]
    assert query(path, "PRAGMA foreign_key_check") == []
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_table_without_further_columns_becomes_a_fresh_one(tmp_path: Path) -> None:
    """Where nothing but declared columns was there, the text of the table itself is that of a new one."""
    path, fresh = tmp_path / "old.db", tmp_path / "fresh.db"
    run_sql(
        path,
        "CREATE TABLE owners (id TEXT PRIMARY KEY)",
        "CREATE TABLE notes (status TEXT, id TEXT, at REAL, text TEXT, owner REFERENCES owners, UNIQUE (text, at),"
        " PRIMARY KEY (id))",
        "CREATE TABLE runs (room TEXT, run TEXT)",
    )
    migrated(path)
    migrated(fresh)
    text = "SELECT name, sql FROM sqlite_master WHERE tbl_name IN ('notes', 'runs') ORDER BY name"
    assert query(path, text) == query(fresh, text)
    for table in ("notes", "runs"):
        assert shape_of(path, table) == shape_of(fresh, table)


def test_a_new_key_keeps_the_first_of_its_rows(path: Path) -> None:
    """Rows get the new key; of those that it does not tell apart the first stays; the old key's own column goes."""
    migrated(path)
    assert query(path, "SELECT * FROM runs ORDER BY room") == [("r1", "legacy", "first"), ("r2", "legacy", "other")]
    assert [row[1] for row in shape_of(path, "runs")["columns"] if row[5]] == ["room", "home"]


@pytest.mark.parametrize("key", ["PRIMARY KEY (run)", "PRIMARY KEY (room, run)", "UNIQUE (run, room)", "CHECK (1)"])
@pytest.mark.parametrize("tail", ["", " WITHOUT ROWID"])
def test_whatever_the_key_was(tmp_path: Path, key: str, tail: str) -> None:
    """A rekeyed table may have had any key, or none."""
    path = tmp_path / "old.db"
    if tail and "PRIMARY" not in key:
        key = f"{key}, PRIMARY KEY (run, room)"
    run_sql(path, f"CREATE TABLE runs (room TEXT, run TEXT, note TEXT, {key}){tail}")
    run_sql(path, "INSERT INTO runs VALUES ('r', '1', 'n'), ('s', '2', 'n'), ('r', '3', 'n')")
    migrated(path, Schema("runs", (RUNS,)))
    assert query(path, "SELECT room, home, run, note FROM runs ORDER BY room") == [
        ("r", "legacy", "1", "n"),
        ("s", "legacy", "2", "n"),
    ]


def test_the_first_is_the_one_that_was_stored_first(tmp_path: Path) -> None:
    """No index of the older table decides which row stays, though it might serve to read them."""
    path = tmp_path / "old.db"
    run_sql(
        path, "CREATE TABLE runs (id TEXT PRIMARY KEY, room TEXT, run TEXT)", "CREATE INDEX serving ON runs(run, room)"
    )
    run_sql(path, "INSERT INTO runs VALUES (2, 'r', 'z'), (1, 'r', 'a')")
    migrated(path, Schema("runs", (RUNS,)))
    assert query(path, "SELECT run FROM runs") == [("z",)]


def test_an_index_over_a_key_that_goes_is_refused(tmp_path: Path) -> None:
    """What hangs on a column that the table will not have any more refuses the database, to the byte as it was."""
    path = tmp_path / "old.db"
    run_sql(path, "CREATE TABLE runs (id TEXT PRIMARY KEY, room TEXT, run TEXT)", "CREATE INDEX own ON runs(id, run)")
    run_sql(path, "INSERT INTO runs VALUES (2, 'r', 'z')")
    before = path.read_bytes()
    with pytest.raises(storage.UnsupportedDatabaseError, match="table runs: expected no index on id"):
        migrated(path, Schema("runs", (RUNS,)))
    assert path.read_bytes() == before


def test_a_key_of_the_same_columns_in_another_order_is_another_key(tmp_path: Path) -> None:
    """The order of a key is part of its shape."""
    path = tmp_path / "old.db"
    run_sql(path, "CREATE TABLE runs (room TEXT, home TEXT, run TEXT, PRIMARY KEY (home, room))")
    migrated(path, Schema("runs", (RUNS,)))
    keys = query(path, "SELECT name FROM pragma_table_info('runs') WHERE pk > 0 ORDER BY pk")
    assert keys == [("room",), ("home",)]


def test_a_migrated_database_needs_no_second_migration(path: Path) -> None:
    """Opening it again writes nothing."""
    migrated(path)
    before = path.read_bytes()
    migrated(path)
    assert path.read_bytes() == before


def test_backfills_wait_for_what_they_fill_in(tmp_path: Path) -> None:
    """One that waits for a column runs where that was added, and never on a fresh or a complete table; one that waits
    for nothing runs in every migration
    """
    path = tmp_path / "state.db"
    migrated(path, Schema("all but the log", (OWNERS, NOTES, RUNS)))
    run_sql(
        path,
        "INSERT INTO owners VALUES ('ann')",
        "INSERT INTO notes (id, owner, size, at, status) VALUES ('a', 'ann', 77, 1, 'open')",
    )
    migrated(path)
    assert query(path, "SELECT size FROM notes") == [(77,)]
    assert query(path, "SELECT id FROM log") == [("a",)]
    run_sql(path, "DELETE FROM log")
    migrated(path)
    assert query(path, "SELECT id FROM log") == []
    run_sql(path, "DROP INDEX notes_by_at")
    migrated(path)
    assert query(path, "SELECT id FROM log") == [("a",)]


UNKNOWN: dict[str, tuple[str, str, str]] = {
    "another column missing": ("status TEXT NOT NULL CHECK (status IN ('open')),", "", "status"),
    "no unique key": ("UNIQUE (text, at),", "", "to be unique"),
    "no reference": (",\n    FOREIGN KEY (owner) REFERENCES owners(id)", "", "foreign key"),
    "another key": ("id TEXT PRIMARY KEY NOT NULL", "id TEXT NOT NULL", "primary key"),
    "another kind": ("at REAL NOT NULL", "at TEXT NOT NULL", "at to be REAL"),
    "another case": ("owner TEXT NOT NULL", '"Owner" TEXT NOT NULL', "owner"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_any_other_shape_is_refused_and_left_as_it_was(tmp_path: Path, case: str) -> None:
    """An older table that differs in anything else too is not touched."""
    path = tmp_path / "unknown.db"
    old, new, expected = UNKNOWN[case]
    assert old in OLD
    run_sql(path, "PRAGMA journal_mode=DELETE", BEFORE[1], OLD.replace(old, new))
    before = path.read_bytes()
    with pytest.raises(storage.UnsupportedDatabaseError, match=expected):
        migrated(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "row",
    [
        {"id": None},
        {"at": None},
        {"rank": 0},
        {"rank": None},
        {"epoch": 0},
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_found_before_anything_is_written(tmp_path: Path, row: dict[str, Any]) -> None:
    """A row that breaks a rule of the declared table refuses the database, to the byte as it was."""
    path = tmp_path / "old.db"
    columns = "id TEXT PRIMARY KEY, at REAL, status TEXT, text TEXT, rank INT, epoch INT, UNIQUE (text, at)"
    values = {"id": "a", "at": 1.0, "status": "open", "text": "", "rank": 1, "epoch": None} | row
    listed = ", ".join("NULL" if value is None else repr(value) for value in values.values())
    schema = Schema("notes", (evolve(NOTES, foreign_keys=()),))
    run_sql(path, f"CREATE TABLE notes ({columns})", f"INSERT INTO notes VALUES ({listed})")
    before = path.read_bytes()
    with pytest.raises(storage.UnsupportedDatabaseError, match="table notes: expected rows") as refusal:
        migrated(path, schema)
    assert "left as it was" in str(refusal.value)
    assert path.read_bytes() == before


def test_a_read_only_handle_refuses_what_lacks_a_column(path: Path) -> None:
    """It could not be read as the present one is; another key alone does not matter to a reader."""
    before = path.read_bytes()
    db = storage.open_database(path, read_only=True)
    with pytest.raises(storage.UnsupportedDatabaseError, match="notes") as refusal:
        db.require(SCHEMA)
    assert "open the database once for writing" in str(refusal.value)
    db.close()
    assert path.read_bytes() == before
    run_sql(path, "DROP TABLE runs", "CREATE TABLE runs (room TEXT, home TEXT, run TEXT)")
    db = storage.open_database(path, read_only=True)
    db.require(Schema("runs", (RUNS,)))
    db.close()


def test_what_cannot_be_filled_in_is_refused_when_it_is_declared() -> None:
    """A column that takes no NULL needs a value for older rows, and a backfill waits for a column that may be added."""
    with pytest.raises(ValueError, match="column at"):
        Column("at", "REAL", added=Added())
    with pytest.raises(ValueError, match=r"notes\.text"):
        Schema("x", (NOTES,), (Backfill("SELECT 1", after=("notes", "text")),))
    with pytest.raises(ValueError, match=r"log\.size"):
        Schema("x", (NOTES, LOGGED), (Backfill("SELECT 1", after=("log", "size")),))


def test_a_table_in_memory_is_made_anew_too() -> None:
    """The same holds where one connection serves all threads."""
    db = storage.open_database(":memory:")
    db.write(lambda tx: [tx.execute(statement) for statement in BEFORE[1:]])
    db.require(SCHEMA)
    assert db.read(executing("SELECT size FROM notes ORDER BY id")) == [{"size": 9}, {"size": 0}]
    db.close()


@pytest.mark.parametrize("measured", ["text", '"text"', "notes.text", 'notes."text"', " text "])
def test_bytes_of_text_are_counted_the_same_everywhere(measured: str) -> None:
    """`octet_length` counts UTF-8, past a NUL too, in any case, and is no function inside quotes."""
    db = storage.open_database(":memory:")
    db.write(executing("CREATE TABLE notes (text TEXT)"))
    for text, size in (("", 0), ("é漢🌍", 9), ("a\0b", 3), (None, None)):
        db.write(executing("DELETE FROM notes"))
        db.write(executing("INSERT INTO notes VALUES (:text)", {"text": text}))
        for function in ("octet_length", "OCTET_LENGTH", "Octet_Length "):
            sql = f"SELECT {function}({measured}) AS size, 'octet_length(text)' AS said FROM notes"
            assert db.read(executing(sql)) == [{"size": size, "said": "octet_length(text)"}]
    db.close()
