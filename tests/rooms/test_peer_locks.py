"""What is decided over several rows is decided under locks in one order, which engines with row locks need."""

from collections.abc import Callable
from typing import Any

import pytest

from fsm.lifecycles.tables import LINKS, PEER_RESERVATIONS, TOTALS
from storage.postgres.transaction import PostgresTransaction
from storage.sqlite.transaction import SqliteTransaction
from tests.rooms.peers import Peers
from tests.rooms.support import RETENTION, Gateway

CALLS: dict[str, tuple[Callable[[Peers], None], str]] = {
    "reserve": (Peers.reserve, PEER_RESERVATIONS.name),
    "link": (Peers.put, LINKS.name),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_lock_comes_first(peers: Peers, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The lock is named once, under one name for all, before the first statement of the transaction."""
    done: list[str] = []
    kind: Any = PostgresTransaction if peers.db.location.startswith("postgresql:") else SqliteTransaction
    execute = kind.execute

    def executing(tx: object, sql: str, *parameters: object) -> object:
        done.append("statement")
        return execute(tx, sql, *parameters)

    monkeypatch.setattr(kind, "execute", executing)
    monkeypatch.setattr(kind, "lock_name", lambda _, name: done.append(name))
    function, lock = CALLS[call]
    function(peers)
    assert (done[0], done.count(lock)) == (lock, 1)


@pytest.mark.engines("postgres")
@pytest.mark.parametrize("call", ["prune", "disband"])
def test_whoever_prunes_holds_the_total_first(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Pruning locks the total of bytes before the choice of rooms, as disbanding does: neither waits for the other."""
    gateway.bring("disbanded")
    gateway.create("other")
    gateway.clock.advance(RETENTION)
    held: list[str] = []
    lock, lock_name = PostgresTransaction.lock, PostgresTransaction.lock_name

    def locking(tx: PostgresTransaction, sql: str, *parameters: Any, **options: Any) -> Any:
        held.append("total" if TOTALS.name in sql else "row")
        return lock(tx, sql, *parameters, **options)

    def naming(tx: PostgresTransaction, name: str) -> None:
        held.append(name)
        lock_name(tx, name)

    monkeypatch.setattr(PostgresTransaction, "lock", locking)
    monkeypatch.setattr(PostgresTransaction, "lock_name", naming)
    if call == "prune":
        assert gateway.prune() == 1
    else:
        gateway.disband("other")
    assert gateway.room_ids() == ["other"]
    chosen = held.index("rooms to prune")
    assert "total" in held[:chosen]
    assert "row" in held[chosen:]
