"""A room on disk, under the clock of the machine: other processes work on it too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import open_database
from tests.cli.processes import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A live room without tasks."""
    handle = open_database(tmp_path / "state.db", synchronous="normal")
    yield Room.make(handle)
    handle.close()
