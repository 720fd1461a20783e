"""Closing and waiting: what one thread does to a handle while another uses it ends in an answer, never in a hang."""

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

import storage
from storage.migrating import Migrator
from storage.sqlite import connection
from tests.storage.support import INSERT, NOTES, add, executing, grants

MORE = storage.Schema("more", (storage.Table("more", (storage.Column("id", "TEXT"),), ("id",)),))


def in_thread(work: Callable[[], object]) -> list[BaseException]:
    """Run something in a thread of its own to its end and return what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as exc:  # noqa: BLE001 - reported by the thread that waits
            raised.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return raised


@contextmanager
def held(db: storage.Database) -> Any:
    """Keep a transaction of another thread open."""
    begun, over = threading.Event(), threading.Event()

    def body(tx: storage.Transaction) -> None:
        tx.execute(INSERT, add("held"))
        begun.set()
        over.wait(30)

    thread = threading.Thread(target=db.write, args=(body,), daemon=True)
    thread.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join(10)


@pytest.mark.parametrize("step", ["is_current", "migrate"])
def test_closing_under_a_migration_is_a_storage_error_or_nothing(
    notes: storage.Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whenever another thread closes the handle, require() ends cleanly or in a storage error of the handle."""
    original = getattr(Migrator, step)

    def closing(*arguments: object) -> object:
        assert in_thread(notes.close) == []
        return original(*arguments)

    monkeypatch.setattr(Migrator, step, closing)
    try:
        notes.require(MORE)
    except storage.StorageError as exc:
        assert step != "migrate", exc  # noqa: PT017 - a migration that was under way is carried through
    with pytest.raises(storage.StorageError, match="closed"):
        notes.read(lambda tx: tx.changes)


@pytest.mark.engines("sqlite", "memory")
def test_foreign_keys_are_back_after_a_migration(notes: storage.Database) -> None:
    """What a migration sets on its connection it sets back, on disk and in memory."""
    notes.require(MORE)
    inside = notes._session().connection  # type: ignore[attr-defined]  # looks behind the port
    found = [inside.execute(f"PRAGMA {name}").fetchone()[0] for name in ("foreign_keys", "legacy_alter_table")]
    assert found == [1, 0]


@pytest.mark.parametrize("operation", ["read", "write", "transaction", "require"])
def test_a_turn_in_memory_is_waited_for_as_long_as_a_lock(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """While another thread holds its transaction open, an operation waits the busy timeout, then is unavailable."""
    memory = storage.open_database(":memory:")
    memory.require(NOTES)
    operations: dict[str, Callable[[], object]] = {
        "read": lambda: memory.read(lambda tx: tx.changes),
        "write": lambda: memory.write(lambda tx: tx.changes),
        "transaction": lambda: memory.transaction().__enter__(),
        "require": lambda: memory.require(MORE),
    }
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_SECONDS", 0.1)
    with held(memory):
        begun = time.monotonic()
        with pytest.raises(storage.DatabaseUnavailableError, match="another thread"):
            operations[operation]()
        assert 0.1 <= time.monotonic() - begun < 5
    memory.write(executing(INSERT, add("a")))
    assert grants(memory) == ["a", "held"]
    memory.close()


def test_closing_a_database_in_memory_does_not_wait_for_its_turn() -> None:
    """The transaction of another thread may end, and takes the connection with it."""
    memory = storage.open_database(":memory:")
    memory.require(NOTES)
    inside = memory._session().connection  # type: ignore[attr-defined]  # looks behind the port
    with held(memory):
        begun = time.monotonic()
        memory.close()
        assert time.monotonic() - begun < 5
        assert inside.in_transaction
    with pytest.raises(storage.StorageError, match="closed"):
        grants(memory)
    with pytest.raises(Exception, match="closed database"):
        inside.execute("SELECT 1")
