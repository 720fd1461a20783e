"""A database that belongs to somebody else."""

import os
from pathlib import Path
from typing import Any

import pytest

import storage
from tests.storage.support import run_sql


def test_reading_leaves_nothing_beside_a_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file may not be written and its directory may, reading is refused: it would lock the owner out."""
    path = tmp_path / "state.db"
    run_sql(path, "PRAGMA journal_mode = wal", "CREATE TABLE t (a)")
    real = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != path and real(place, mode))
    with pytest.raises(storage.DatabaseUnavailableError, match="as a user who may write the file"):
        storage.open_database(path, read_only=True)
    assert [each.name for each in tmp_path.iterdir()] == ["state.db"]
    monkeypatch.setattr(os, "access", real)
    handle: Any = storage.open_database(path, read_only=True)
    assert handle.read(lambda tx: tx.execute("SELECT * FROM t")) == []
    handle.close()
