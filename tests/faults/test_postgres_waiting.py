"""What a transaction waits for: others' locks, its own statements, a caller that dawdles, a connection of the pool."""

import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import pytest

import storage
from fsm import driver
from fsm.schema import GATEWAY_SCHEMA
from storage import Transaction
from storage.postgres.database import PostgresDatabase
from tests.engines import SERVER, Engine, on_server
from tests.faults.figures import Figures
from tests.storage.support import INSERT, NOTES, SELECT, add, executing, grants
from tests.world import ManualClock, World, identity

pytestmark = pytest.mark.engines("postgres")

Report = Callable[[Figures], None]

PATIENCE: Final = 30.0
SERIALIZABLE: Final = "&options=-c%20default_transaction_isolation%3Dserializable"
UPDATE: Final = 'UPDATE notes SET rank = coalesce(rank, 0) + 1 WHERE "grant" = :grant RETURNING rank'


def opened(engine: Engine, parameters: str = "") -> storage.Database:
    """Open a database with two notes; more may stand in its URL."""
    handle = engine.open(engine.location() + parameters)
    handle.require(NOTES)
    for name in ("a", "b"):
        handle.write(executing(INSERT, add(name)))
    return handle


@contextmanager
def elsewhere(db: storage.Database, statement: str) -> Iterator["psycopg.Connection[Any]"]:
    """Run a statement in another program's transaction and leave that open."""
    schema = db.location.partition("search_path=")[2].partition("&")[0]
    with psycopg.connect(SERVER, options=f"-c search_path={schema}") as other:
        other.execute(statement.encode())
        yield other
        other.rollback()


def test_a_lock_held_too_long_is_unavailable_and_nothing_is_stored(
    engine: Engine, report_faults: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call waits for a lock a bounded number of times, then says so, with nothing stored; when the lock is free it
    is done
    """
    db = engine.open(engine.location() + "&lock_timeout=100ms")
    db.require(GATEWAY_SCHEMA)
    world, pauses = World(db, ManualClock()), list[int]()
    monkeypatch.setattr(db, "_pause", pauses.append)
    task, before = world.admit(), world.everything()
    with elsewhere(db, "SELECT * FROM hosted_rooms FOR UPDATE"):
        with pytest.raises(storage.DatabaseUnavailableError, match="55P03.*nothing of it was stored"):
            driver.start_task(db, task, world.lease, expected_cancel_generation=0)
        assert pauses == [0, 1, 2, 3]
        assert world.everything() == before
    assert driver.start_task(db, task, world.lease, expected_cancel_generation=0).execution_generation == 1
    report_faults(Figures(injected=1))


def test_a_lock_that_is_let_go_in_time_costs_nothing_but_time(
    engine: Engine, report_faults: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that has lost the wait for a lock is run again, and its caller hears nothing of that."""
    db = engine.open(engine.location() + "&lock_timeout=100ms")
    db.require(GATEWAY_SCHEMA)
    World(db, ManualClock())
    with elsewhere(db, "SELECT * FROM hosted_rooms FOR UPDATE") as other:
        monkeypatch.setattr(db, "_pause", lambda attempt: other.rollback() if attempt == 2 else None)
        driver.admit_task(db, identity(), payload={"target_profile": "p", "prompt": "q", "source_event_seq": 1})
    assert len(driver.list_tasks(db, room_id="room")) == 1
    report_faults(Figures(injected=1))


def test_a_read_that_has_to_wait_is_run_again_too(
    engine: Engine, report_faults: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that waits for a table which another program changes is answered once that is done, or told in the end."""
    db = opened(engine, "&lock_timeout=50ms")
    with elsewhere(db, "LOCK TABLE notes"), pytest.raises(storage.DatabaseUnavailableError, match="55P03"):
        grants(db)
    with elsewhere(db, "LOCK TABLE notes") as other:
        monkeypatch.setattr(db, "_pause", lambda attempt: other.rollback() if attempt == 2 else None)
        assert grants(db) == ["a", "b"]
    report_faults(Figures(injected=2))


def test_a_statement_that_runs_too_long_is_unavailable(engine: Engine, report_faults: Report) -> None:
    """statement_timeout ends the call in a clear error; nothing is stored, nothing is run again, and the next works."""
    db, runs = opened(engine, "&statement_timeout=100ms"), list[int]()

    def body(tx: Transaction) -> None:
        runs.append(len(runs))
        tx.execute(INSERT, add("c"))
        tx.execute("SELECT pg_sleep(60)")

    with pytest.raises(storage.DatabaseUnavailableError, match="statement_timeout"):
        db.write(body)
    with pytest.raises(storage.DatabaseUnavailableError, match="statement_timeout"):
        db.read(lambda tx: tx.execute("SELECT pg_sleep(60)"))
    assert (grants(db), runs) == (["a", "b"], [0])
    report_faults(Figures(injected=2))


def dawdle(tx: Transaction) -> None:
    """Do something in the transaction, then nothing, until the server has ended it."""
    (row,) = tx.execute("SELECT pg_backend_pid() AS pid")
    tx.execute(INSERT, add("c"))
    over = threading.Event()
    while on_server("SELECT 1 FROM pg_stat_activity WHERE pid = %s", row["pid"]):
        over.wait(0.01)


def test_a_body_that_dawdles_is_ended_and_told(engine: Engine, report_faults: Report) -> None:
    """idle_in_transaction_session_timeout ends the transaction: the next statement, or the end of the body, says so,
    nothing is stored, and the next call has another connection
    """
    db = opened(engine, "&idle_in_transaction_session_timeout=100ms")

    def going_on(tx: Transaction) -> None:
        dawdle(tx)
        tx.execute(SELECT)

    for body in (going_on, dawdle):
        with pytest.raises(storage.DatabaseUnavailableError, match="idle_in_transaction_session_timeout"):
            db.write(body)
        assert grants(db) == ["a", "b"]
    report_faults(Figures(injected=2))


def both(db: storage.Database, bodies: tuple[Callable[[Transaction], object], ...]) -> list[BaseException]:
    """Run each body in a thread of its own at the same time; return what was raised."""
    raised: list[BaseException] = []

    def run(body: Callable[[Transaction], object]) -> None:
        try:
            db.write(body)
        except BaseException as exc:  # noqa: BLE001 - reported by the thread that waits
            raised.append(exc)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def test_a_deadlock_is_run_again_to_success(engine: Engine, report_faults: Report) -> None:
    """Of two transactions that lock two rows crosswise one loses, is run again, and both are done once."""
    db, together, runs = opened(engine), threading.Barrier(2), list[str]()

    def crosswise(first: str, second: str) -> Callable[[Transaction], None]:
        def body(tx: Transaction) -> None:
            runs.append(first)
            tx.execute(UPDATE, {"grant": first})
            if runs.count(first) == 1:
                together.wait(PATIENCE)
            tx.execute(UPDATE, {"grant": second})

        return body

    assert both(db, (crosswise("a", "b"), crosswise("b", "a"))) == []
    assert [row["rank"] for row in db.read(lambda tx: tx.execute(SELECT))] == [2, 2]
    assert len(runs) == 3
    report_faults(Figures(injected=1))


def test_two_serializable_transactions_that_contradict_each_other_are_run_one_after_the_other(
    engine: Engine, report_faults: Report
) -> None:
    """Where the server's default is SERIALIZABLE, each of two that read what the other writes must not both commit as
    if alone: one is run again and sees the other's row
    """
    db, together, runs = opened(engine, SERIALIZABLE), threading.Barrier(2), list[str]()

    def counting(name: str) -> Callable[[Transaction], None]:
        def body(tx: Transaction) -> None:
            runs.append(name)
            (row,) = tx.execute("SELECT count(*) AS n FROM notes")
            if runs.count(name) == 1:
                together.wait(PATIENCE)
            tx.execute(INSERT, add(name, int(row["n"] or 0)))
            if runs.count(name) == 1:
                # The server finds out at a COMMIT, when both have said everything else.
                together.wait(PATIENCE)

        return body

    assert both(db, (counting("c"), counting("d"))) == []
    assert sorted(int(row["rank"] or 0) for row in db.read(lambda tx: tx.execute(SELECT))) == [0, 0, 2, 3]
    assert len(runs) >= 3
    report_faults(Figures(injected=1))


def test_a_body_that_swallows_a_lost_race_is_run_again_all_the_same(engine: Engine, report_faults: Report) -> None:
    """Whether the body goes on after the error, or raises another in its place, the race decides: again, until won."""
    db, runs = opened(engine, "&lock_timeout=50ms"), list[int]()

    def swallowing(tx: Transaction) -> str:
        runs.append(len(runs))
        try:
            tx.execute(UPDATE, {"grant": "a"})
        except storage.StorageError:
            if len(runs) == 1:
                return "swallowed"
            other.rollback()
            raise LookupError from None
        return "won"

    with elsewhere(db, "SELECT * FROM notes FOR UPDATE") as other:
        assert db.write(swallowing) == "won"
    assert runs == [0, 1, 2]
    assert db.read(lambda tx: tx.execute(SELECT))[0]["rank"] == 1
    report_faults(Figures(injected=2))


def test_the_waits_of_a_body_that_hides_them_are_counted_too(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, report_faults: Report
) -> None:
    """Whatever the body makes of its lost waits, it is run a bounded number of times, and the wait is what is told."""
    db, pauses = opened(engine, "&lock_timeout=50ms"), list[int]()
    monkeypatch.setattr(db, "_pause", pauses.append)

    def hiding(tx: Transaction) -> None:
        try:
            tx.execute(UPDATE, {"grant": "a"})
        except storage.StorageError:
            raise LookupError from None

    with (
        elsewhere(db, "SELECT * FROM notes FOR UPDATE"),
        pytest.raises(storage.DatabaseUnavailableError, match="55P03"),
    ):
        db.write(hiding)
    assert pauses == [0, 1, 2, 3]
    report_faults(Figures(injected=1))


def test_an_interrupt_after_a_lost_race_is_not_taken_for_the_race(engine: Engine) -> None:
    """Only an error can be what a body made of a race: whoever interrupts the program gets no further try."""
    db, runs = opened(engine, "&lock_timeout=50ms"), list[int]()

    def interrupted(tx: Transaction) -> None:
        runs.append(len(runs))
        with pytest.raises(storage.DatabaseUnavailableError):
            tx.execute(UPDATE, {"grant": "a"})
        raise KeyboardInterrupt

    with elsewhere(db, "SELECT * FROM notes FOR UPDATE"), pytest.raises(KeyboardInterrupt):
        db.write(interrupted)
    assert runs == [0]


def test_a_block_that_lost_a_race_is_not_run_again_and_raises(engine: Engine, report_faults: Report) -> None:
    """What stands in a `with` block cannot be run again: it is rolled back and told, also where the block hid it."""
    db = opened(engine, "&lock_timeout=50ms")

    def block(*, swallow: bool) -> None:
        with db.transaction() as tx:
            tx.execute(INSERT, add("c"))
            try:
                tx.execute(UPDATE, {"grant": "a"})
            except storage.StorageError:
                if not swallow:
                    raise

    for swallow in (False, True):
        with (
            elsewhere(db, "SELECT * FROM notes FOR UPDATE"),
            pytest.raises(storage.DatabaseUnavailableError, match="55P03"),
        ):
            block(swallow=swallow)
        assert grants(db) == ["a", "b"]
    report_faults(Figures(injected=2))


def test_an_exhausted_pool_is_unavailable_until_a_transaction_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, report_faults: Report
) -> None:
    """Where other threads have every connection a call waits a bounded time and says so; then it works as before."""
    db = opened(engine, "&pool_size=1")
    begun, over = threading.Event(), threading.Event()

    def body(tx: Transaction) -> None:
        tx.execute(INSERT, add("held"))
        begun.set()
        over.wait(PATIENCE)

    holder = threading.Thread(target=db.write, args=(body,))
    holder.start()
    assert begun.wait(PATIENCE)
    assert isinstance(db, PostgresDatabase)
    monkeypatch.setattr(db._pool, "timeout", 0.1)
    for operation in (lambda: grants(db), lambda: db.write(lambda tx: tx.execute(INSERT, add("late")))):
        with pytest.raises(storage.DatabaseUnavailableError, match="pool_size"):
            operation()
    monkeypatch.undo()
    over.set()
    holder.join(PATIENCE)
    assert grants(db) == ["a", "b", "held"]
    report_faults(Figures(injected=2))


def test_a_server_that_cannot_be_reached_at_the_start_is_unavailable_without_the_password(
    report_faults: Report, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening says at once that the server is not there, and no text of it or of its causes holds the password."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for userinfo, query in (("ann:s3cret", ""), ("ann", "?password=s3cret")):
        with pytest.raises(storage.DatabaseUnavailableError, match="see that the server runs") as caught:
            storage.open_database(f"postgresql://{userinfo}@127.0.0.1:{port}/x{query}")
        told = "".join(traceback.format_exception(caught.value))
        assert caught.value.__cause__ is not None
        assert "s3cret" not in told
    assert "s3cret" not in caplog.text
    report_faults(Figures(injected=2))
