"""A session with a worker's owner for each test."""

import pytest

import storage
from tests.sessions.support import Owner
from tests.workers.support import Works
from tests.world import ManualClock


@pytest.fixture
def owner(db: storage.Database, clock: ManualClock) -> Owner:
    """The owner of the first epoch, with the session `s`."""
    return Owner.begin(db, clock)


@pytest.fixture
def works(owner: Owner) -> Works:
    """The owner's works on session `s`, at generation 0, with no worker yet."""
    return Works(owner)
