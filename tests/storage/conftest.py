"""A database with one table for each test of the storage layer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import storage
from tests.storage.support import NOTES


@pytest.fixture(params=["file", "memory"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[storage.Database]:
    """An open database with the table of notes, on disk and in memory."""
    handle = storage.open_database(tmp_path / "notes.db" if request.param == "file" else ":memory:")
    handle.require(NOTES)
    yield handle
    handle.close()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[storage.Database]:
    """The same on disk only."""
    handle = storage.open_database(tmp_path / "stored.db")
    handle.require(NOTES)
    yield handle
    handle.close()
