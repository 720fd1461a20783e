"""What is decided over several rows is decided under a named lock, which engines with row locks need."""

from collections.abc import Callable
from typing import Any

import pytest

from fsm.lifecycles.tables import LINKS, PEER_RESERVATIONS
from storage.postgres.transaction import PostgresTransaction
from storage.sqlite.transaction import SqliteTransaction
from tests.rooms.peers import Peers

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
