"""Fixtures shared by all tests: a fresh database on disk for each, with a clock and ids that the test owns."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import storage
from tests.world import ManualClock, World


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when the test says so."""
    return ManualClock()


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[storage.Database]:
    """A fresh database on disk, without fsync: no test here pulls the plug."""
    numbers = itertools.count(1)
    handle = storage.open_database(
        tmp_path / "state.db", clock=clock, new_id=lambda: f"id-{next(numbers)}", synchronous="normal"
    )
    yield handle
    handle.close()


@pytest.fixture
def world(db: storage.Database, clock: ManualClock) -> World:
    """A live room with a held lease, and short ways to bring a task into any state."""
    return World(db, clock)
