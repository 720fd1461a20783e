"""What a driver is given from outside: what to drive, and everything that is not decided by its own code."""

from collections.abc import Mapping

from attrs import field, frozen

from fsm.cli.reporting import Reporter
from fsm.cli.stopping import StopRequests
from fsm.cli.terms import Tempo
from storage import Database

__all__ = ["Job", "World"]


@frozen
class Job:
    """Which room to drive, with which command and how; durations are seconds.

    `poll` is the time between two looks at the database, `grace` what a terminated command gets to end by itself.
    """

    room_id: str
    command: tuple[str, ...]
    gateway_id: str | None = field(default=None)
    ttl: float = field(default=30.0)
    poll: float = field(default=0.25)
    grace: float = field(default=5.0)
    drain: bool = field(default=False)


@frozen
class World:
    """The database, the time, the name of this process, its environment, its report and the requests to stop it."""

    db: Database
    tempo: Tempo
    process_generation: str
    environment: Mapping[str, str]
    report: Reporter
    stop: StopRequests
