"""A database with one table for each test of the storage layer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import storage
from tests.engines import Engine
from tests.storage.support import NOTES


@pytest.fixture
def notes(engine: Engine) -> storage.Database:
    """An open database with the table of notes, on every engine; SQLite's in a file and in memory."""
    handle = engine.open(engine.location(), synchronous="full")
    handle.require(NOTES)
    return handle


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[storage.Database]:
    """The same on disk only."""
    handle = storage.open_database(tmp_path / "stored.db")
    handle.require(NOTES)
    yield handle
    handle.close()
