"""Handles on PostgreSQL: found again by their URL, shared by threads, closed at any time, inherited by forked children,
and gone from a connection when a transaction is.
"""

import math
import threading
from typing import Any, Final

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors

import storage
from storage import Transaction
from storage.postgres.connection import LostRaceError, translate
from storage.postgres.database import PostgresDatabase
from tests.engines import Engine, on_server, url_of
from tests.storage.support import INSERT, NOTES, SELECT, add, executing, finish, grants, start

pytestmark = pytest.mark.engines("postgres", "serializable")

PATIENCE: Final = 30.0
PID: Final = "SELECT pg_backend_pid() AS pid"


def backend(db: storage.Database) -> int:
    """Return the server's process behind the connection that is used next."""
    (row,) = db.read(lambda tx: tx.execute(PID))
    return int(row["pid"] or 0)


def is_gone(pid: int) -> bool:
    """Wait until a process of the server has ended; say if it did."""
    pause = threading.Event()
    for _ in range(1000):
        if not on_server("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid):
            return True
        pause.wait(0.02)
    return False


def opened(engine: Engine, parameters: str = "") -> PostgresDatabase:
    """Open a database with the table of notes."""
    handle = engine.open(engine.location() + parameters)
    handle.require(NOTES)
    assert isinstance(handle, PostgresDatabase)
    return handle


def test_a_handle_is_found_again_by_every_spelling_of_its_url(engine: Engine) -> None:
    """One database has one handle in a process, by whatever URL it is asked for, until it is closed; options must be
    the same
    """
    location = engine.location()
    handle = engine.open(location)
    spelled = location.replace("postgresql://", " PostgreSQL://").replace("search_path=", "pool_size=4&search_path=")
    assert spelled != location
    assert storage.open_database(spelled, synchronous="normal") is handle
    with pytest.raises(storage.StorageError, match="options"):
        storage.open_database(spelled)
    assert storage.open_database(spelled, synchronous="normal", read_only=True) is not handle
    assert storage.open_database(url_of("other"), synchronous="normal") is not handle
    storage.open_database(spelled, synchronous="normal", read_only=True).close()
    storage.open_database(url_of("other"), synchronous="normal").close()
    handle.close()
    again = storage.open_database(spelled, synchronous="normal")
    assert again is not handle
    again.close()


def test_a_wrong_setting_is_said_at_the_opening(engine: Engine) -> None:
    """A timeout that the server does not take is refused before the first call."""
    for value in ("soon", "99999999999999d", "1s'; SELECT 1; --"):
        with pytest.raises(storage.StorageError, match="expected timeouts such as 2s"):
            engine.open(f"{engine.location()}&lock_timeout={value.replace(' ', '%20').replace(';', '%3B')}")


def test_closing_inside_a_transaction_lets_that_end_well(engine: Engine) -> None:
    """The open transaction commits, its connection goes with it, and nothing more begins."""
    db = opened(engine, "&pool_size=3")
    with db.transaction() as tx:
        tx.execute(INSERT, add("before"))
        ((pid,),) = (row.values() for row in tx.execute(PID))
        db.close()
        db.close()
        tx.execute(INSERT, add("after"))
        tx.after_commit(lambda: None)
    assert not db.usable
    for use in (lambda: grants(db), lambda: db.write(executing(SELECT)), lambda: db.require(NOTES)):
        with pytest.raises(storage.StorageError, match="closed"):
            use()
    assert is_gone(int(pid or 0))
    assert grants(engine.open(db.location)) == ["after", "before"]


def test_a_thread_that_waits_for_a_connection_hears_that_the_handle_was_closed(engine: Engine) -> None:
    """Closing does not leave a thread waiting for what will not come."""
    db, heard = opened(engine, "&pool_size=1"), list[BaseException]()

    def wait() -> None:
        try:
            grants(db)
        except storage.StorageError as exc:
            heard.append(exc)

    with db.transaction():
        thread = threading.Thread(target=wait)
        thread.start()
        pause = threading.Event()
        while not db._pool.get_stats().get("requests_waiting"):
            pause.wait(0.01)
        db.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert ["closed" in str(exc) for exc in heard] == [True]


def test_more_threads_than_connections_take_turns(engine: Engine) -> None:
    """Threads share the connections of a handle, and nothing of them is lost or seen by another."""
    db, failures = opened(engine, "&pool_size=2"), list[BaseException]()

    def work(number: int) -> None:
        try:
            for turn in range(10):
                db.write(executing(INSERT, add(f"{number}-{turn}")))
        except BaseException as exc:  # noqa: BLE001 - reported by the thread that waits
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert len(grants(db)) == 80
    assert db._pool.get_stats()["pool_size"] <= 2


def state_of(connection: "psycopg.Connection[Any]") -> dict[str, Any]:
    """Return what a session is set to, holds and has prepared."""
    cursor = psycopg.rows.tuple_row
    with connection.cursor(row_factory=cursor) as rows:
        settings = rows.execute("SELECT name, setting FROM pg_settings").fetchall()
        locks = rows.execute("SELECT locktype FROM pg_locks WHERE pid = pg_backend_pid()").fetchall()
        prepared = rows.execute("SELECT name FROM pg_prepared_statements").fetchall()
        path = rows.execute("SELECT current_schemas(false)").fetchall()
    return {**dict(settings), "locks": [each for each in locks if each == ("advisory",)]} | {
        "prepared": prepared,
        "path": path,
    }


def test_nothing_of_a_transaction_is_left_in_its_session(engine: Engine) -> None:
    """After a transaction, however it ended, its session is as if new: a pooler may hand it to anybody."""
    db = opened(engine, "&pool_size=1&statement_timeout=5s&lock_timeout=1s&idle_in_transaction_session_timeout=9s")

    def locking(tx: Transaction) -> None:
        tx.lock_name("name")
        tx.lock("SELECT * FROM notes", shared=True)
        tx.keep(tx.mark())
        for _ in range(12):
            tx.execute(SELECT)

    def failing(tx: Transaction) -> None:
        locking(tx)
        tx.execute("SELECT 1 / (SELECT count(*) FROM notes)")

    first = backend(db)
    db.write(locking)
    with pytest.raises(storage.StorageError):
        db.write(failing)
    db.read(lambda tx: tx.execute(SELECT))
    assert backend(db) == first
    connection = db._pool.getconn()
    try:
        with psycopg.connect(db._target.conninfo, autocommit=True) as fresh:
            assert state_of(connection) == state_of(fresh)
    finally:
        db._pool.putconn(connection)


def test_an_error_that_was_swallowed_cannot_be_committed(engine: Engine) -> None:
    """The server answers such a COMMIT with ROLLBACK, and the caller is told rather than believed."""
    db, ran = opened(engine), list[str]()

    def swallowing(tx: Transaction) -> None:
        tx.after_commit(lambda: ran.append("ran"))
        tx.execute(INSERT, add("a"))
        with pytest.raises(storage.ConstraintError):
            tx.execute(INSERT, add("a"))

    def going_on(tx: Transaction) -> None:
        swallowing(tx)
        tx.execute(SELECT)

    with pytest.raises(storage.StorageError, match="its error was caught"):
        db.write(swallowing)
    with pytest.raises(storage.StorageError, match="25P02"):
        db.write(going_on)
    assert (grants(db), ran) == ([], [])


def test_a_constraint_that_is_judged_at_the_commit_is_one(engine: Engine) -> None:
    """What does not hold at the COMMIT is a constraint error with nothing stored, and no unknown outcome."""
    db, ran = opened(engine, "&pool_size=1"), list[str]()
    db.write(executing("ALTER TABLE notes ADD UNIQUE (rank) DEFERRABLE INITIALLY DEFERRED"))
    pid = backend(db)

    def body(tx: Transaction) -> None:
        tx.after_commit(lambda: ran.append("ran"))
        for name in ("a", "b"):
            tx.execute(INSERT, add(name, 1))

    with pytest.raises(storage.ConstraintError, match="23505"):
        db.write(body)
    assert (grants(db), ran, backend(db)) == ([], [], pid)


@pytest.mark.parametrize(
    "sql",
    [
        "PREPARE TRANSACTION 'x'",
        "PREPARE plan AS SELECT 1",
        "DEALLOCATE ALL",
        "EXECUTE plan",
        "DISCARD ALL",
        "RESET ALL",
        "SET search_path = public",
        "LISTEN x",
        "UNLISTEN *",
        "ABORT",
        "START TRANSACTION",
        "LOAD 'x'",
    ],
)
def test_a_body_leaves_the_session_alone(engine: Engine, sql: str) -> None:
    """What would end the transaction, or outlive it in the session, never reaches the server."""
    db = opened(engine)
    with pytest.raises(storage.StorageError, match="expected a statement that reads or writes rows"):
        db.write(executing(sql))


NUMBERS: Final = """
    SELECT sum(n) AS total, avg(n) AS average, count(*) AS counted, sum(n) > 1 AS more, sum(n) < 1 AS less,
        max(n) AS greatest, sum(n::float8) AS real, 'NaN'::numeric AS nan, '1e400'::numeric AS huge
    FROM (VALUES (1::bigint), (2::bigint)) AS numbers (n)
"""


def test_results_are_plain_numbers(engine: Engine) -> None:
    """Whatever the server makes of them, sums, averages and conditions come back as the numbers that columns hold."""
    (row,) = opened(engine).read(lambda tx: tx.execute(NUMBERS))
    assert math.isnan(float(row.pop("nan") or 0))
    assert row.pop("huge") == 10**400
    assert row == {"total": 3, "average": 1.5, "counted": 2, "more": 1, "less": 0, "greatest": 2, "real": 3.0}
    assert {name: type(value) for name, value in row.items()} == dict.fromkeys(row, int) | {
        "average": float,
        "real": float,
    }


def test_an_infinite_sum_is_a_float(engine: Engine) -> None:
    """Infinity, which servers from 14 on know, is no integer."""
    sql = "SELECT CAST('infinity' AS numeric) AS a, CAST('-infinity' AS numeric) AS b"
    assert opened(engine).read(lambda tx: tx.execute(sql)) == [{"a": math.inf, "b": -math.inf}]


@given(
    integer=st.integers(-(2**63), 2**63 - 1),
    real=st.floats(allow_nan=False),
    text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    flag=st.booleans(),
)
def test_values_come_back_as_they_went(engine: Engine, integer: int, real: float, text: str, flag: bool) -> None:
    """Integers of 64 bits, floats and text are the same afterwards, and a bool is the integer that it is."""
    db = engine.open(url_of("public"))
    values: dict[str, storage.Value] = {"integer": integer, "real": real, "text": text, "flag": flag, "none": None}
    sql = "SELECT " + ", ".join(f":{name} AS {name}" for name in values)
    (row,) = db.read(lambda tx: tx.execute(sql, values))
    assert row == values
    assert type(row["flag"]) is int


def test_every_error_of_a_server_is_told_without_what_it_said() -> None:
    """Each class of error has its meaning, a text with its code, and none of the server's text."""
    expected = {
        "23505": storage.ConstraintError,
        "40001": LostRaceError,
        "40P01": LostRaceError,
        "55P03": LostRaceError,
        "57014": storage.DatabaseUnavailableError,
        "25P03": storage.DatabaseUnavailableError,
        "25006": storage.DatabaseUnavailableError,
        "53100": storage.DatabaseUnavailableError,
        "53300": storage.DatabaseUnavailableError,
        "57P01": storage.DatabaseUnavailableError,
        "08006": storage.DatabaseUnavailableError,
        "22003": storage.StorageError,
        "42P01": storage.StorageError,
        "54000": storage.StorageError,
        "54001": storage.StorageError,
        "42501": storage.StorageError,
    }
    for code, kind in expected.items():
        error = translate(errors.lookup(code)("s3cret"))
        assert type(error) is kind
        assert code in str(error)
        assert "s3cret" not in str(error)


FORK: Final = """
from tests.storage.support import INSERT, NOTES, add, executing, grants
PID = 'SELECT pg_backend_pid() AS pid'
db = storage.open_database(sys.argv[1])
db.require(NOTES)
"""

FORKED_OUTSIDE: Final = (
    FORK
    + """
before = db.read(executing(PID))
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        assert db.read(executing(PID)) != before
        db.write(executing(INSERT, add(f'child {number}')))
        sys.exit(0)
    children.append(child)
db.write(executing(INSERT, add('parent')))
assert all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)
assert db.read(executing(PID)) == before
print(grants(db))
"""
)


def test_a_forked_child_has_connections_of_its_own(engine: Engine) -> None:
    """Parent and children go on with the same handle, and no end of a child ends a connection of its parent."""
    found = finish(start(FORKED_OUTSIDE, engine.location()))
    assert found == "['child 0', 'child 1', 'child 2', 'parent']"


FORKED_WITHIN: Final = (
    FORK
    + """
child, told = None, None
try:
    with db.transaction() as tx:
        tx.execute(INSERT, add('parent'))
        child = os.fork()
        if child == 0:
            try:
                tx.execute(INSERT, add('child'))
            except storage.StorageError:
                pass
            else:
                raise SystemExit('the inherited transaction was usable')
            db.write(executing(INSERT, add('child again')))
        else:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            tx.execute(INSERT, add('parent again'))
except storage.StorageError as exc:
    assert child == 0 and 'over' in str(exc), exc
    sys.exit(0)
assert child
print(grants(db))
"""
)


def test_a_transaction_open_at_a_fork_belongs_to_the_parent(engine: Engine) -> None:
    """The child can neither use nor end it, and begins transactions of its own; the parent's commit stands."""
    assert finish(start(FORKED_WITHIN, engine.location())) == "['child again', 'parent', 'parent again']"


UNCLOSED: Final = (
    FORK
    + """
warnings.simplefilter('error')
db.write(executing(INSERT, add('a')))
held = db.transaction()
held.__enter__().execute(INSERT, add('b'))
"""
)


def test_a_program_that_closes_nothing_ends_quietly(engine: Engine) -> None:
    """No thread and no warning of an open handle holds up the end; what was not committed is not stored."""
    location = engine.location()
    assert finish(start(UNCLOSED, location)) == ""
    assert grants(engine.open(location)) == ["a"]
