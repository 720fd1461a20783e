"""What an engine is to `open_database`: it names the databases that its URLs mean, and opens handles on them."""

import time
import uuid
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, Protocol

from attrs import frozen

from storage.port import Database

__all__ = ["Engine", "Handle", "Options", "Synchronous", "random_id"]

Synchronous = Literal["full", "normal"]


def random_id() -> str:
    """Return a new identifier: 32 hexadecimal digits of a random UUID."""
    return uuid.uuid4().hex


@frozen
class Options:
    """How a handle was opened; opening the same database again with others is refused."""

    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = random_id
    synchronous: Synchronous = "full"


class Handle(Database):
    """A Database, and what the list of open handles asks of it."""

    @property
    @abstractmethod
    def usable(self) -> bool:
        """Whether the handle is neither closed nor inherited without its data."""

    @property
    def replaced(self) -> bool:
        """Whether what was opened is no longer what its location names."""
        return False

    def retire(self) -> None:
        """Close a handle that was replaced.

        Raises:
            DatabaseUnavailableError: a transaction is open on it; the handle takes no other.
        """

    def close_before_fork(self) -> None:
        """Let go, ahead of a fork, of what a child must not inherit."""

    @abstractmethod
    def forget_inherited(self) -> bool:
        """Let go, in a forked child, of what is the parent's; say whether the child must keep off the database."""


class Engine(Protocol):
    """The module `storage.<scheme>` offers one as `ENGINE`: that is how a URL finds it."""

    def name_of(self, url: str) -> str | None:
        """Return the same text for every URL of one database, None where the URL is wrong; it may hold a secret."""

    def open(self, url: str, options: Options, *, read_only: bool) -> Handle:
        """Open a handle; raises as `open_database` does."""
