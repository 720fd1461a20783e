"""A database of rooms for each test."""

import pytest

import storage
from tests.rooms.peers import Peers
from tests.rooms.support import Gateway
from tests.world import ManualClock


@pytest.fixture
def gateway(db: storage.Database, clock: ManualClock) -> Gateway:
    """A gateway without a room, its tables in place."""
    made = Gateway(db, clock)
    made.prune()
    return made


@pytest.fixture
def peers(db: storage.Database, clock: ManualClock) -> Peers:
    """A gateway without a link, its tables in place."""
    made = Peers(db, clock)
    assert made.links() == []
    return made
