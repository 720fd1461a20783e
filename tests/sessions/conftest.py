"""A session under one owner for each test."""

from pathlib import Path

import pytest

import storage
from tests.sessions.mutating import Desk
from tests.sessions.support import Owner
from tests.world import ManualClock


@pytest.fixture
def owner(db: storage.Database, clock: ManualClock) -> Owner:
    """The owner of the first epoch, with the session `s`."""
    return Owner.begin(db, clock)


@pytest.fixture
def desk(owner: Owner) -> Desk:
    """A caller who mutates sessions; `s` has three messages and a title."""
    desk = Desk(owner)
    desk.mutate("rename", {"title": "first title"})
    desk.say("one", "two", "three")
    return desk


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The place of the older gateway's file, in a directory of its own."""
    (place := tmp_path / "old").mkdir()
    return place / "prompts.db"
