"""The server goes away and comes back: in the middle of a call, and while connections wait in the pool."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import psycopg
import pytest

import storage
from fsm import driver
from fsm.driver import TaskAttempt
from fsm.schema import GATEWAY_SCHEMA
from storage.postgres import database
from storage.postgres.transaction import PostgresTransaction
from tests.faults.figures import Figures
from tests.faults.server import Server, own_server
from tests.world import ManualClock, World, dump, identity

Mode = Literal["fast", "immediate"]

MODES: Final = ("fast", "immediate")
POOL_SIZE: Final = 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests may stop; each leaves it running."""
    with own_server() as running:
        yield running


@pytest.fixture
def world(server: Server) -> Iterator[World]:
    """A live room with a held lease on that server, in a schema of its own."""
    clock = ManualClock()
    handle = storage.open_database(f"{server.url}?search_path=gateway&pool_size={POOL_SIZE}", clock=clock)
    yield World(handle, clock)
    handle.close()
    with psycopg.connect(server.url, autocommit=True) as plain:
        plain.execute("SET client_min_messages = warning")
        plain.execute("DROP SCHEMA gateway CASCADE")


def before_statement(monkeypatch: pytest.MonkeyPatch, word: str, harm: Callable[[], None]) -> None:
    """Do harm once, right before the first statement that begins with a word."""
    original, harms = PostgresTransaction._run, [harm]

    def run(self: PostgresTransaction, text: str, parameters: storage.Parameters) -> list[storage.Row]:
        if text.lstrip().startswith(word) and harms:
            harms.pop()()
        return original(self, text, parameters)

    monkeypatch.setattr(PostgresTransaction, "_run", run)


def before_commit(monkeypatch: pytest.MonkeyPatch, harm: Callable[[], None]) -> None:
    """Do harm once, right before the next COMMIT."""
    original, harms = database._commit, [harm]

    def commit(*arguments: Any) -> None:
        while harms:
            harms.pop()()
        original(*arguments)

    monkeypatch.setattr(database, "_commit", commit)


@pytest.mark.parametrize("mode", MODES)
def test_a_restart_between_two_statements_leaves_nothing_of_the_call(
    server: Server,
    world: World,
    mode: Mode,
    monkeypatch: pytest.MonkeyPatch,
    report_faults: Callable[[Figures], None],
) -> None:
    """The call that a restart interrupts is told that nothing of it is stored, and so it is; made again, it is done."""
    task = world.admit()
    before = world.everything()
    before_statement(monkeypatch, "UPDATE", lambda: server.restart(mode))
    with pytest.raises(storage.DatabaseUnavailableError, match="nothing of the transaction was stored"):
        driver.start_task(world.db, task, world.lease, expected_cancel_generation=0)
    assert world.everything() == before
    attempt = driver.start_task(world.db, task, world.lease, expected_cancel_generation=0)
    assert attempt == TaskAttempt(identity(), world.lease, 1, 0)
    report_faults(Figures(injected=1))


@pytest.mark.parametrize("mode", MODES)
def test_a_restart_before_the_commit_is_an_unknown_outcome(
    server: Server,
    world: World,
    mode: Mode,
    monkeypatch: pytest.MonkeyPatch,
    report_faults: Callable[[Figures], None],
) -> None:
    """Whoever cannot know whether the commit arrived says so; the exact retry tells, and carries the call through."""
    attempt = world.start()
    before = world.everything()
    before_commit(monkeypatch, lambda: server.restart(mode))
    settlement: dict[str, Any] = {"settlement_id": "s1", "status": "settled", "result": None}
    with pytest.raises(storage.OutcomeUnknownError, match="an exact retry returns what is stored"):
        driver.settle_task(world.db, attempt, **settlement)
    assert world.everything() == before
    assert not driver.settle_task(world.db, attempt, **settlement)["idempotent"]
    assert driver.settle_task(world.db, attempt, **settlement)["idempotent"]
    report_faults(Figures(injected=1, unknown_not_stored=1))


def at_once(work: Callable[[int], object], count: int) -> list[BaseException]:
    """Let so many threads do something at once; return what they raised."""
    raised: list[BaseException] = []
    together = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            together.wait(20)
            work(number)
        except BaseException as exc:  # noqa: BLE001 - reported by the thread that waits
            raised.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def fill_pool(db: storage.Database) -> None:
    """Let the pool hold as many idle connections as it may."""
    together = threading.Barrier(POOL_SIZE)
    assert at_once(lambda _: db.read(lambda _tx: together.wait(20)), POOL_SIZE) == []


@pytest.mark.parametrize("mode", MODES)
def test_idle_connections_that_a_restart_has_ended_are_noticed_before_use(
    server: Server, world: World, mode: Mode, report_faults: Callable[[Figures], None]
) -> None:
    """However many dead connections wait in the pool, the next calls are served by new ones and see no error."""
    fill_pool(world.db)
    server.restart(mode)
    world.admit("t0")
    fill_pool(world.db)
    server.restart(mode)
    assert at_once(lambda number: world.admit(f"t{number}", number + 1), POOL_SIZE) == []
    assert {view["identity"].task_id for view in driver.list_tasks(world.db, room_id="room")} == {
        f"t{number}" for number in range(POOL_SIZE)
    }
    report_faults(Figures(injected=2))


def test_a_server_that_is_down_is_unavailable_until_it_is_back(
    server: Server, monkeypatch: pytest.MonkeyPatch, report_faults: Callable[[Figures], None]
) -> None:
    """While the server is down every call says that the database is unavailable; nothing need be opened anew after."""
    handle = storage.open_database(f"{server.url}?search_path=down")
    handle.require(GATEWAY_SCHEMA)
    world = World(handle, ManualClock())
    assert isinstance(handle, database.PostgresDatabase)
    monkeypatch.setattr(handle._pool, "timeout", 1.0)
    server.stop()
    try:
        for _ in range(2):
            with pytest.raises(storage.DatabaseUnavailableError, match="try again"):
                world.admit()
    finally:
        server.start()
    monkeypatch.undo()
    world.admit()
    assert len(dump(handle)["hosted_room_driver_tasks"]) == 1
    handle.close()
    report_faults(Figures(injected=2))
