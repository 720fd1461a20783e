"""A handle that nobody closed."""

import gc
import sqlite3
from pathlib import Path

import pytest

import storage
from storage.sqlite.database import SqliteDatabase


@pytest.mark.parametrize("location", [":memory:", "file"])
def test_a_handle_that_is_dropped_closes_its_connections(tmp_path: Path, location: str) -> None:
    """The last reference to a handle takes its connections along, so that no interpreter complains of them."""
    handle = storage.open_database(location if location == ":memory:" else tmp_path / "state.db")
    assert isinstance(handle, SqliteDatabase)
    with handle.transaction() as tx:
        connection: sqlite3.Connection = tx.connection  # type: ignore[attr-defined] # behind the port, to see it close
    if location != ":memory:":
        handle.close()
    del handle, tx
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
