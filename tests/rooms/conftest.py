"""A database of rooms for each test."""

import pytest

import storage
from tests.rooms.support import Gateway
from tests.world import ManualClock


@pytest.fixture
def gateway(db: storage.Database, clock: ManualClock) -> Gateway:
    """A gateway without a room, its tables in place."""
    made = Gateway(db, clock)
    made.prune()
    return made
