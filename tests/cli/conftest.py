"""A room at a location, under the clock of the machine: other processes work on it too."""

import pytest

from tests.cli.processes import Room
from tests.engines import Engine


@pytest.fixture
def room(engine: Engine) -> Room:
    """A live room without tasks."""
    return Room.make(engine)
