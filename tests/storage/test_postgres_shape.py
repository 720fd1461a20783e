"""Existing tables on PostgreSQL: accepted by their shape, amended where that can be done, else left as they were."""

from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

import storage
from storage import Column, Index, Schema, Table
from storage.statements import quoted
from tests.engines import Engine, on_server
from tests.storage.support import INSERT, NOTES, add, executing, finish, grants, start
from tests.storage.test_schema import INSERT as INSERT_TASK
from tests.storage.test_schema import ROOMS, SCHEMA

pytestmark = pytest.mark.engines("postgres", "serializable")

ROOMS_TABLE: Final = 'CREATE TABLE rooms (id TEXT COLLATE "C" PRIMARY KEY)'
TASKS_TABLE: Final = """CREATE TABLE tasks (
    seq bigserial PRIMARY KEY, room VARCHAR(9) COLLATE "C" NOT NULL REFERENCES rooms, "grant" TEXT COLLATE "POSIX",
    count NUMERIC, at NUMERIC(20, 3), epoch INT8,
    status TEXT COLLATE "C" CONSTRAINT own CHECK (((status) in ('queued', 'it''s on'))), outcome TEXT COLLATE "C",
    extra TEXT DEFAULT ')', CHECK (outcome = 'good' OR outcome IS NULL OR 'bad' = outcome), UNIQUE ("grant", room))"""
INDEXES: Final = (
    "CREATE UNIQUE INDEX tasks_by_at ON tasks (at)",
    "CREATE INDEX tasks_by_status ON tasks (status, at)",
)

SHAPE: Final = """
    SELECT concat_ws(' ', class.relkind, class.relname, attname, format_type(atttypid, atttypmod), attnotnull) AS part
    FROM pg_class AS class LEFT JOIN pg_attribute ON attrelid = class.oid AND attnum > 0
    WHERE relnamespace = to_regnamespace(%(schema)s)
    UNION ALL SELECT concat_ws(' ', conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace = to_regnamespace(%(schema)s)
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = %(schema)s
    ORDER BY part
"""


class Place:
    """A schema of the server, changed and looked at past the library."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.location = engine.location()
        self.schema = self.location.partition("search_path=")[2].partition("&")[0]
        on_server(f"CREATE SCHEMA {quoted(self.schema)}")

    def run(self, *statements: str) -> None:
        """Run statements as another program would."""
        for statement in statements:
            on_server(f"SET search_path = {quoted(self.schema)}")
            try:
                on_server(statement)
            finally:
                on_server("RESET search_path")

    def shape(self) -> list[object]:
        """Return all that there is, but rows."""
        return [part for (part,) in on_server(SHAPE, {"schema": self.schema})]

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """Return the rows of a table in the order of their first column."""
        return on_server(f"SELECT * FROM {quoted(self.schema)}.{quoted(table)} ORDER BY 1")

    def open_with(self, schema: Schema, *, read_only: bool = False) -> storage.Database:
        """Open a handle and require a schema."""
        handle = self.engine.open(self.location, read_only=read_only)
        try:
            handle.require(schema)
        except BaseException:
            handle.close()
            raise
        return handle


@pytest.fixture
def place(engine: Engine) -> Place:
    """An empty schema."""
    return Place(engine)


def test_a_missing_schema_is_created_with_every_rule(place: Place) -> None:
    """Keys, defaults, CHECKs, foreign keys and indexes of a declaration hold in a new database, and it is accepted."""
    db = place.open_with(SCHEMA)
    db.write(lambda tx: tx.execute("INSERT INTO rooms VALUES ('r')"))
    (row,) = db.write(lambda tx: tx.execute(INSERT_TASK + " RETURNING *", {"status": "it's on"}))
    assert row == {"seq": 1, "room": "r", "grant": "it's", "count": 0, "at": None, "epoch": None} | {
        "status": "it's on",
        "outcome": None,
    }
    refused = ["status = 'other'", "outcome = 'other'", "count = -1", "epoch = 0", "room = 'missing'", "status = NULL"]
    for assignment in refused:
        with pytest.raises(storage.ConstraintError):
            db.write(executing(f"UPDATE tasks SET {assignment}"))
    db.write(executing("UPDATE tasks SET count = 9223372036854775807, at = 0.1, epoch = NULL"))
    made = place.shape()
    db.close()
    place.open_with(SCHEMA).close()
    assert place.shape() == made


def test_text_is_ordered_by_its_bytes(place: Place) -> None:
    """No language of a server decides the order of a queue."""
    db = place.open_with(NOTES)
    for name in ("é", "a", "B", "z", "_"):
        db.write(executing(INSERT, add(name)))
    assert grants(db) == ["B", "_", "a", "z", "é"]
    # The server of a test may order like that by itself.
    sql = "SELECT collation_name FROM information_schema.columns WHERE table_schema = %s AND data_type = 'text'"
    assert on_server(sql, place.schema) == [("C",)]


def test_a_table_of_another_spelling_and_the_same_shape_is_accepted_untouched(place: Place) -> None:
    """Names of constraints, types that hold the same, further columns and other texts of a CHECK do not matter."""
    place.run(ROOMS_TABLE, TASKS_TABLE, *INDEXES)
    before = place.shape()
    place.open_with(SCHEMA).close()
    assert place.shape() == before


def test_a_missing_index_is_created(place: Place) -> None:
    """An index that an older version did not have is added, and nothing else changes."""
    place.run(ROOMS_TABLE, TASKS_TABLE)
    before = place.shape()
    place.open_with(SCHEMA).close()
    added = [str(part) for part in place.shape() if part not in before]
    made = [part.rpartition(" USING ")[2] for part in added if part.startswith("CREATE")]
    assert made == ["btree (status, at)", "btree (at)"]


def swapped(old: str, new: str, *further: str) -> tuple[str, ...]:
    """Return the statements of the accepted tables with one part of them changed."""
    assert old in TASKS_TABLE
    return (ROOMS_TABLE, TASKS_TABLE.replace(old, new), *further)


OTHERS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "column missing": (swapped("epoch INT8,", ""), "columns epoch"),
    "other type": (swapped("count NUMERIC", "count TEXT"), "count to be INTEGER, found text"),
    "type too small": (swapped("epoch INT8", "epoch INT4"), "epoch to be INTEGER, found integer"),
    "float too small": (swapped("at NUMERIC(20, 3)", "at REAL"), "at to be REAL, found real"),
    "other collation": (swapped('outcome TEXT COLLATE "C"', "outcome TEXT"), "outcome to be TEXT, found text in the"),
    "padded text": (swapped('status TEXT COLLATE "C"', "status CHAR(9)"), "status to be TEXT, found character"),
    "not null": (swapped("epoch INT8,", "epoch INT8 NOT NULL,"), "epoch to accept NULL"),
    "keys used twice": (swapped("seq bigserial", "seq INT8"), "AUTOINCREMENT"),
    "no key": (swapped("seq bigserial PRIMARY KEY", "seq bigserial"), r"primary key \(seq\)"),
    "no unique key": (swapped(', UNIQUE ("grant", room)', ""), r"\(room, grant\) to be unique"),
    "no foreign key": (swapped("REFERENCES rooms", ""), r"foreign key \(room\) to rooms\(id\)"),
    "partial key": (
        swapped(', UNIQUE ("grant", room)', "", 'CREATE UNIQUE INDEX own_key ON tasks ("grant", room) WHERE at > 0'),
        "to be unique",
    ),
    "wider key": (
        swapped(', UNIQUE ("grant", room)', "", 'CREATE UNIQUE INDEX own_key ON tasks ("grant", room, epoch)'),
        "to be unique",
    ),
    "key on an expression": (
        swapped(', UNIQUE ("grant", room)', "", 'CREATE UNIQUE INDEX own_key ON tasks (lower("grant"), room)'),
        "to be unique",
    ),
    "other index": ((ROOMS_TABLE, TASKS_TABLE, "CREATE INDEX tasks_by_at ON tasks (at)"), "tasks_by_at"),
    "index in another order": (
        (ROOMS_TABLE, TASKS_TABLE, "CREATE INDEX tasks_by_status ON tasks (at, status)"),
        "tasks_by_status",
    ),
    "index elsewhere": ((ROOMS_TABLE, TASKS_TABLE, "CREATE UNIQUE INDEX tasks_by_at ON rooms (id)"), "tasks_by_at"),
    "a view": (("CREATE VIEW rooms AS SELECT 'x' COLLATE \"C\" AS id",), "table rooms"),
    "a table for an index": ((ROOMS_TABLE, TASKS_TABLE, "CREATE TABLE tasks_by_at (a TEXT)"), "tasks_by_at"),
}


@pytest.mark.parametrize("case", sorted(OTHERS))
def test_another_shape_is_refused_and_left_as_it_was(place: Place, case: str) -> None:
    """Any other difference names the table, what was expected and what was found, and writes nothing at all."""
    statements, expected = OTHERS[case]
    place.run(*statements)
    before = place.shape()
    with pytest.raises(storage.UnsupportedDatabaseError, match=expected) as caught:
        place.open_with(SCHEMA)
    assert "left as it was" in str(caught.value)
    assert place.shape() == before


def test_a_key_that_carries_further_columns_along_is_the_key_of_its_own(place: Place) -> None:
    """What an index includes beside its columns is no part of what is unique."""
    place.run(*swapped(', UNIQUE ("grant", room)', ', UNIQUE ("grant", room) INCLUDE (epoch)'))
    place.open_with(SCHEMA).close()


def test_an_exact_table_may_have_no_further_column(place: Place) -> None:
    """`exact` asks for exactly the declared columns, and a column that was dropped is none."""
    place.run(ROOMS_TABLE, "ALTER TABLE rooms ADD COLUMN extra INT", "ALTER TABLE rooms ADD COLUMN gone INT")
    place.run("ALTER TABLE rooms DROP COLUMN gone")
    place.open_with(Schema("least", (ROOMS,))).close()
    exact = Schema("exact", (evolve(ROOMS, exact=True),))
    with pytest.raises(storage.UnsupportedDatabaseError, match="found also extra"):
        place.open_with(exact)
    place.run("ALTER TABLE rooms DROP COLUMN extra")
    place.open_with(exact).close()


def test_a_table_of_the_same_name_in_another_schema_is_another(place: Place, engine: Engine) -> None:
    """Only the first schema of the search path is judged and written to."""
    other = Place(engine)
    other.run("CREATE TABLE rooms (id INT)")
    place.location = place.location.replace(place.schema, f"{place.schema},{other.schema}")
    before = other.shape()
    db = place.open_with(SCHEMA)
    db.write(lambda tx: tx.execute("INSERT INTO rooms VALUES ('r')"))
    assert (place.rows("rooms"), other.shape()) == ([("r",)], before)


ROWS: Final = (
    "INSERT INTO rooms VALUES ('r')",
    "INSERT INTO tasks (room, status, outcome) VALUES ('r', 'queued', 'good'), ('r', 'queued', NULL)",
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'queued', 'it''s on'", "'queued'"),
        ("'queued', 'it''s on'", "'queued', 'it''s on', 'other'"),
        (
            "CONSTRAINT own CHECK (((status) in ('queued', 'it''s on')))",
            "CHECK (status = 'queued') CHECK (status > '')",
        ),
        ("outcome = 'good' OR outcome IS NULL OR 'bad' = outcome", "outcome IS NULL OR outcome = 'good'"),
    ],
    ids=["narrower", "wider", "in two", "of another column"],
)
def test_an_older_check_is_rebuilt_and_the_rows_stay(place: Place, old: str, new: str) -> None:
    """A CHECK that accepts other values than the declared ones is replaced where it stands; everything else stays."""
    place.run(*swapped(old, new), *INDEXES, *ROWS)
    rows, before = place.rows("tasks"), place.shape()
    db = place.open_with(SCHEMA)
    assert place.rows("tasks") == rows
    is_check = [str(part) for part in place.shape() if "CHECK" in str(part)]
    assert [part for part in place.shape() if "CHECK" not in str(part)] == [
        part for part in before if "CHECK" not in str(part)
    ]
    assert len(is_check) == 2
    db.write(executing("UPDATE tasks SET status = 'it''s on', outcome = 'bad'"))
    for assignment in ("status = 'other'", "outcome = 'other'"):
        with pytest.raises(storage.ConstraintError):
            db.write(executing(f"UPDATE tasks SET {assignment}"))
    db.close()
    after = place.shape()
    place.open_with(SCHEMA).close()
    assert place.shape() == after


def test_rows_that_a_new_check_would_refuse_refuse_the_database(place: Place) -> None:
    """What an older version wrote and this one does not know is named, and nothing is changed."""
    place.run(*swapped("'queued', 'it''s on'", "'queued', 'secret'"), ROWS[0])
    place.run("INSERT INTO tasks (room, status) VALUES ('r', 'secret')")
    before = place.shape()
    with pytest.raises(storage.UnsupportedDatabaseError, match="column status: expected only") as caught:
        place.open_with(SCHEMA)
    assert "secret" not in str(caught.value)
    assert place.shape() == before


def test_a_check_that_cannot_be_evaluated_is_refused(place: Place) -> None:
    """A CHECK that fails on a declared value cannot be judged, so that the database is not touched."""
    place.run('CREATE TABLE odd (status TEXT COLLATE "C" PRIMARY KEY CHECK (status::int > 0))')
    odd = Table("odd", (Column("status", "TEXT", one_of=("a",)),), ("status",))
    before = place.shape()
    with pytest.raises(storage.UnsupportedDatabaseError, match="cannot be evaluated"):
        place.open_with(Schema("odd", (odd,)))
    assert place.shape() == before


def test_rows_that_break_a_missing_unique_index_refuse_the_database(place: Place) -> None:
    """An index that the rows do not allow is an unsupported database, rolled back whole."""
    place.run(
        'CREATE TABLE once (id TEXT COLLATE "C" PRIMARY KEY, at FLOAT8)', "INSERT INTO once VALUES ('a', 1), ('b', 1)"
    )
    columns = (Column("id", "TEXT"), Column("at", "REAL"))
    table = Table("once", columns, ("id",), indexes=(Index("once_by_at", ("at",), unique=True),))
    before = place.shape()
    with pytest.raises(storage.UnsupportedDatabaseError, match="table once"):
        place.open_with(Schema("x", (ROOMS, table)))
    assert place.shape() == before


def test_a_read_only_handle_judges_and_creates_nothing(engine: Engine, place: Place) -> None:
    """A missing table refuses a read-only handle, and so does another shape; what could be amended does not."""
    absent = engine.location()
    handle = engine.open(absent, read_only=True)
    with pytest.raises(storage.UnsupportedDatabaseError, match="named rooms, tasks"):
        handle.require(SCHEMA)
    assert on_server("SELECT to_regnamespace(%s)", absent.partition("search_path=")[2].partition("&")[0]) == [(None,)]
    place.run(ROOMS_TABLE)
    with pytest.raises(storage.UnsupportedDatabaseError, match="named tasks"):
        place.open_with(SCHEMA, read_only=True)
    place.run(TASKS_TABLE.replace("'queued', 'it''s on'", "'queued'"))
    before = place.shape()
    reader = place.open_with(SCHEMA, read_only=True)
    with pytest.raises(storage.StorageError, match="read-only"):
        reader.write(lambda tx: tx.execute("SELECT 1"))
    reader.close()
    assert place.shape() == before
    place.run("ALTER TABLE tasks DROP COLUMN epoch")
    with pytest.raises(storage.UnsupportedDatabaseError, match="columns epoch"):
        place.open_with(SCHEMA, read_only=True)


def test_a_user_without_the_right_to_make_a_schema_may_use_one(place: Place) -> None:
    """Whoever may write to an existing schema need not be allowed to make one, and is told where that is needed."""
    place.open_with(SCHEMA).close()
    user = f"{place.schema}_user"
    on_server(f"CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA {place.schema} TO {user}")
    on_server(f"GRANT ALL ON ALL TABLES IN SCHEMA {place.schema} TO {user}")
    try:
        db = place.engine.open(f"{place.location}&user={user}")
        db.require(SCHEMA)
        db.write(lambda tx: tx.execute("INSERT INTO rooms VALUES ('r')"))
        other = place.engine.open(f"{place.engine.location()}&user={user}")
        with pytest.raises(storage.StorageError, match="42501"):
            other.require(SCHEMA)
    finally:
        db.close()
        on_server(f"DROP OWNED BY {user}; DROP ROLE {user}")


OPENING: Final = """
from fsm.schema import GATEWAY_SCHEMA
from tests.storage.support import INSERT, NOTES, add
print('ready', flush=True)
while not os.path.exists(sys.argv[2]):
    pass
db = storage.open_database(sys.argv[1])
db.require(GATEWAY_SCHEMA)
db.require(NOTES)
db.write(lambda tx: tx.execute(INSERT, add(sys.argv[3])))
print(len(db.read(lambda tx: tx.execute('SELECT * FROM hosted_rooms'))))
"""


def test_ten_processes_open_a_new_schema_at_once(engine: Engine, tmp_path: Path) -> None:
    """Ten gateways may start at once where nothing is yet: the schema and its tables are made once, and none fails."""
    location, signal = engine.location(), tmp_path / "now"
    processes = [start(OPENING, location, signal, number) for number in range(10)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    signal.touch()
    assert [finish(process) for process in processes] == ["0"] * 10
    assert grants(engine.open(location)) == [str(number) for number in range(10)]
