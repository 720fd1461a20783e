"""Transactions: all or nothing, one at a time in a thread, over when they are over."""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import storage
from storage.sqlite.database import SqliteDatabase
from tests.storage.support import INSERT, SELECT, add, executing, finish, grants, query, start


class BodyError(Exception):
    """What a body of these tests raises."""


def fail() -> None:
    """Raise it."""
    raise BodyError


def test_rows_come_back_as_dicts_and_extra_parameters_are_ignored(notes: storage.Database) -> None:
    """A statement uses the parameters that it names and no other, and RETURNING answers with whole rows."""
    rows = notes.write(lambda tx: tx.execute(INSERT + " RETURNING *", {**add("a", 2), "unused": "x"}))
    assert rows == [{"grant": "a", "rank": 2}]


def test_parameters_may_be_any_mapping_but_no_sequence(notes: storage.Database) -> None:
    """Parameters are named, on every engine."""

    class Lazy(dict[str, storage.Value]):
        pass

    assert notes.read(lambda tx: tx.execute("SELECT :x AS x", Lazy(x=1))) == [{"x": 1}]
    with pytest.raises(storage.StorageError, match="by name"):
        notes.read(lambda tx: tx.execute("SELECT ? AS x", (1,)))  # type: ignore[arg-type]  # the mistake under test


def test_an_exception_rolls_everything_back_and_comes_out_unchanged(notes: storage.Database) -> None:
    """Whatever a body raises undoes what it wrote and reaches the caller as it was raised."""

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("a"))
        fail()

    with pytest.raises(BodyError):
        notes.write(body)
    with pytest.raises(BodyError), notes.transaction() as tx:
        body(tx)
    assert grants(notes) == []


def test_a_held_transaction_commits_at_the_end_of_its_block(notes: storage.Database) -> None:
    """transaction() stores what its block wrote."""
    with notes.transaction() as tx:
        tx.execute(INSERT, add("a"))
        assert tx.database is notes
    assert grants(notes) == ["a"]


def test_changes_counts_rows_of_this_transaction_only(notes: storage.Database) -> None:
    """The change count moves with rows written and starts at zero each time."""
    notes.write(lambda tx: tx.execute(INSERT, add("a")))

    def body(tx: storage.Transaction) -> list[int]:
        counts = [tx.changes]
        for statement in ("SELECT 1", "UPDATE notes SET rank = 1", "UPDATE notes SET rank = 2 WHERE 1 = 0"):
            tx.execute(statement)
            counts.append(tx.changes)
        return counts

    assert notes.write(body) == [0, 0, 1, 1]


OPENERS: list[Callable[[storage.Database], object]] = [
    lambda db: db.write(lambda tx: tx.changes),
    lambda db: db.read(lambda tx: tx.changes),
    lambda db: db.transaction().__enter__(),
]


@pytest.mark.parametrize("inner", OPENERS, ids=["write", "read", "transaction"])
@pytest.mark.parametrize("kind", ["write", "read"])
def test_a_second_transaction_in_the_same_thread_is_refused(
    notes: storage.Database, kind: str, inner: Callable[[storage.Database], object]
) -> None:
    """Nesting is an error with advice, never a deadlock, and the outer transaction lives on."""

    def body(tx: storage.Transaction) -> None:
        with pytest.raises(storage.StorageError, match="use the open transaction"):
            inner(notes)
        tx.execute(SELECT)

    (notes.write if kind == "write" else notes.read)(body)


def test_handles_of_different_databases_may_be_open_at_once(tmp_path: Path, notes: storage.Database) -> None:
    """Nesting is judged for each handle."""
    other = storage.open_database(tmp_path / "other.db")
    notes.write(lambda _: other.write(lambda tx: tx.execute("CREATE TABLE t (a)")))
    other.close()


def test_a_transaction_that_is_over_refuses_everything(notes: storage.Database) -> None:
    """A transaction that escapes its body can do nothing any more."""
    for escaped in (notes.write(lambda tx: tx), notes.read(lambda tx: tx)):
        with pytest.raises(storage.StorageError, match="over"):
            escaped.execute("SELECT 1")
        with pytest.raises(storage.StorageError, match="over"):
            _ = escaped.changes
        with pytest.raises(storage.StorageError, match="over"):
            escaped.after_commit(fail)
        with pytest.raises(storage.StorageError, match="over"):
            escaped.table_exists("notes")


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "begin immediate",
        "/* x */ ROLLBACK",
        "-- x\nEND",
        "SAVEPOINT s",
        "RELEASE s",
        "PRAGMA user_version",
        "ATTACH ':memory:' AS other",
        "DETACH other",
        "VACUUM",
        "",
        " -- nothing",
        ";COMMIT",
        "SELECT 1; COMMIT",
    ],
)
def test_a_body_can_neither_end_its_transaction_nor_change_its_connection(notes: storage.Database, sql: str) -> None:
    """One statement at a time, and none that controls transactions."""

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("a"))
        with pytest.raises(storage.StorageError):
            tx.execute(sql)
        fail()

    with pytest.raises(BodyError):
        notes.write(body)
    assert grants(notes) == []


@pytest.mark.parametrize(
    "sql",
    [
        INSERT,
        "UPDATE notes SET rank = 1",
        "DELETE FROM notes",
        "REPLACE INTO notes VALUES (:grant, :rank)",
        "WITH x AS (SELECT 1) DELETE FROM notes",
        "WITH x AS (SELECT 1) INSERT INTO notes SELECT 'a', 1 FROM x",
        "WITH x AS (SELECT 1)\nREPLACE/**/INTO notes SELECT 'a', 1",
        "CREATE TABLE t (a)",
        "DROP TABLE notes",
        "ALTER TABLE notes ADD COLUMN more",
        "CREATE TEMP TABLE t (a)",
        "REINDEX",
        "ANALYZE",
    ],
)
def test_a_read_cannot_write(notes: storage.Database, sql: str) -> None:
    """Every kind of writing statement is refused in read(), whatever stands before its verb."""
    with pytest.raises(storage.StorageError, match=r"Database\.write"):
        notes.read(lambda tx: tx.execute(sql, add("a")))
    assert grants(notes) == []


def test_a_read_may_lock_but_not_write(notes: storage.Database) -> None:
    """What a body locks before it writes is found in a read too, so that the write is what is refused there."""
    notes.write(lambda tx: tx.execute(INSERT, add("a")))
    found = notes.read(lambda tx: [tx.lock(SELECT, shared=shared) for shared in (False, True)])
    assert [len(rows) for rows in found] == [1, 1]

    def body(tx: storage.Transaction) -> None:
        tx.lock(SELECT)
        tx.execute("DELETE FROM notes")

    with pytest.raises(storage.StorageError, match=r"Database\.write"):
        notes.read(body)


def test_a_query_that_only_mentions_writing_is_a_read(notes: storage.Database) -> None:
    """Words in literals, quoted names, comments and the function replace() do not make a query a write."""
    sql = "WITH \"delete\" AS (SELECT 'UPDATE' AS a) SELECT replace(a, 'U', 'u') AS a FROM \"delete\" /* INSERT INTO */"
    assert notes.read(lambda tx: tx.execute(sql)) == [{"a": "uPDATE"}]


def test_a_read_sees_one_snapshot(stored: storage.Database) -> None:
    """Rows committed by others while a read goes on are not seen by it."""

    def body(tx: storage.Transaction) -> tuple[int, int]:
        before = len(tx.execute(SELECT))
        other = threading.Thread(target=stored.write, args=(lambda other: other.execute(INSERT, add("a")),))
        other.start()
        other.join()
        return before, len(tx.execute(SELECT))

    assert stored.read(body) == (0, 0)
    assert grants(stored) == ["a"]


def test_an_unfinished_reader_blocks_no_writer(stored: storage.Database) -> None:
    """A listing that is slowly consumed in another process holds up no write."""
    script = """
db = storage.open_database(sys.argv[1])
def body(tx):
    rows = tx.execute('SELECT * FROM notes')
    print('reading', flush=True)
    sys.stdin.read(0); time.sleep(1.5)
    return len(rows)
print(db.read(body))
"""
    process = start(script, stored.location)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "reading"
    for number in range(20):
        stored.write(executing(INSERT, add(f"n{number}")))
    assert process.poll() is None
    assert finish(process) == "0"


def test_every_write_begins_immediate_and_every_read_begins_plain(stored: storage.Database) -> None:
    """A write takes its lock before it reads, so that it cannot fail after it has decided."""
    assert isinstance(stored, SqliteDatabase)
    seen: list[str] = []
    stored._session().connection.set_trace_callback(seen.append)
    stored.write(lambda tx: tx.execute("SELECT 1"))
    with stored.transaction() as tx:
        tx.execute("SELECT 2")
    stored.read(lambda tx: tx.execute("SELECT 3"))
    assert seen == [
        "BEGIN IMMEDIATE",
        "SELECT 1",
        "COMMIT",
        "BEGIN IMMEDIATE",
        "SELECT 2",
        "COMMIT",
        "BEGIN",
        "SELECT 3",
        "ROLLBACK",
    ]


def test_actions_run_in_order_after_the_commit_and_may_use_the_database(notes: storage.Database) -> None:
    """What is registered with after_commit sees the committed row and may open a transaction."""
    seen: list[object] = []

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("a"))
        tx.after_commit(lambda: seen.append(grants(notes)))
        tx.after_commit(lambda: notes.write(lambda later: later.after_commit(lambda: seen.append("later"))))
        tx.after_commit(lambda: seen.append("last"))
        assert seen == []

    notes.write(body)
    assert seen == [["a"], "later", "last"]


def test_a_rollback_drops_the_actions(notes: storage.Database) -> None:
    """Nothing that was registered runs when nothing was stored."""
    seen: list[str] = []

    def body(tx: storage.Transaction) -> None:
        tx.after_commit(lambda: seen.append("ran"))
        fail()

    with pytest.raises(BodyError):
        notes.write(body)
    notes.read(lambda tx: tx.after_commit(lambda: seen.append("ran")))
    assert seen == []


def test_an_action_that_raises_is_logged_and_changes_nothing(
    notes: storage.Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit stands, the later actions run, and the failure is reported."""
    seen: list[str] = []

    def body(tx: storage.Transaction) -> str:
        tx.execute(INSERT, add("a"))
        tx.after_commit(fail)
        tx.after_commit(lambda: seen.append("ran"))
        return "answer"

    with caplog.at_level(logging.ERROR, "storage"):
        assert notes.write(body) == "answer"
    assert [record.name for record in caplog.records] == ["storage"]
    assert (grants(notes), seen) == (["a"], ["ran"])


@pytest.mark.engines("sqlite", "memory")
def test_a_statement_that_rolls_back_by_itself_ends_the_transaction(notes: storage.Database) -> None:
    """After an automatic rollback nothing more is written, neither outside a transaction nor by a commit."""

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("a"))
        with pytest.raises(storage.ConstraintError):
            tx.execute(INSERT.replace("INSERT", "INSERT OR ROLLBACK"), add("a"))
        with pytest.raises(storage.StorageError, match="over"):
            tx.execute(INSERT, add("b"))

    with pytest.raises(storage.StorageError, match="over"):
        notes.write(body)
    assert grants(notes) == []
    notes.write(lambda tx: tx.execute(INSERT, add("c")))
    assert grants(notes) == ["c"]


def test_distinct_from_compares_with_null_and_leaves_quotes_alone(notes: storage.Database) -> None:
    """IS [NOT] DISTINCT FROM works on every engine, and text that holds the words stays as it is."""
    notes.write(lambda tx: tx.execute(INSERT, add("x")))
    sql = """SELECT rank IS NOT DISTINCT FROM :a AS same, rank is distinct
        from 1 AS other, 'x IS DISTINCT FROM y' AS "a IS DISTINCT FROM b" FROM notes -- IS DISTINCT FROM"""
    expected = {"same": 1, "other": 1, "a IS DISTINCT FROM b": "x IS DISTINCT FROM y"}
    assert notes.read(lambda tx: tx.execute(sql, {"a": None})) == [expected]


def test_a_percent_sign_and_a_colon_are_text_like_any_other(notes: storage.Database) -> None:
    """Only a name after a colon, outside quotes and comments, is a parameter."""
    sql = """SELECT 7 % 4 AS "rest %(x)s", '100 %s :x ::y' AS text, CAST(:x AS TEXT) AS x -- 50 % of :y"""
    expected = {"rest %(x)s": 3, "text": "100 %s :x ::y", "x": "a%b"}
    assert notes.read(lambda tx: tx.execute(sql, {"x": "a%b"})) == [expected]


def test_table_exists_tells_tables_only(notes: storage.Database) -> None:
    """An index is not a table, and a missing table is none."""
    found = notes.read(lambda tx: [tx.table_exists(name) for name in ("notes", "notes_by_rank", "missing")])
    assert found == [True, False, False]


def test_a_deferred_constraint_fails_the_commit_and_stores_nothing(stored: storage.Database, tmp_path: Path) -> None:
    """A COMMIT that a constraint refuses is a known outcome: rolled back, and the connection is usable again."""

    def body(tx: storage.Transaction) -> None:
        tx.execute("CREATE TABLE child (id INTEGER, up TEXT REFERENCES notes DEFERRABLE INITIALLY DEFERRED)")
        tx.execute("INSERT INTO child VALUES (1, 'missing')")

    with pytest.raises(storage.ConstraintError):
        stored.write(body)
    assert query(tmp_path / "stored.db", "SELECT name FROM sqlite_master WHERE name = 'child'") == []
    stored.write(lambda tx: tx.execute(INSERT, add("a")))


def test_a_transaction_block_is_a_context_manager(notes: storage.Database) -> None:
    """transaction() opens nothing before it is entered."""
    held: AbstractContextManager[storage.Transaction] = notes.transaction()
    assert grants(notes) == []
    with held as tx:
        tx.execute(SELECT)
