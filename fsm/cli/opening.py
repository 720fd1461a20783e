"""Opening the database that a command was pointed at, for the time of the command."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from storage import Database, open_database

__all__ = ["opened"]


def _ignore(_warning: str) -> None:
    """Drop a warning: a command that is over at once would only repeat it each time."""


@contextmanager
def opened(location: str, *, read_only: bool = False, warn: Callable[[str], None] = _ignore) -> Iterator[Database]:
    """Open the database, and close it when the command is done with it; `warn` is told what opening warns of."""
    with warnings.catch_warnings(record=True) as caught:
        handle = open_database(location, read_only=read_only)
    for each in caught:
        warn(str(each.message))
    with closing(handle) as db:
        yield db
