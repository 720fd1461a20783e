"""A session under one owner for each test."""

import pytest

import storage
from tests.sessions.support import Owner
from tests.world import ManualClock


@pytest.fixture
def owner(db: storage.Database, clock: ManualClock) -> Owner:
    """The owner of the first epoch, with the session `s`."""
    return Owner.begin(db, clock)
