"""`fsm drive`: one process that works on a room's tasks."""

import os
import sys
import time
from typing import Annotated

import typer

from fsm.cli.driving import Driver
from fsm.cli.opening import opened
from fsm.cli.options import Events, Location, OptionalGateway, Room, require_existing, seconds
from fsm.cli.reporting import Reporter
from fsm.cli.stopping import StopRequests
from fsm.cli.terms import MARGIN_OF_TTL, Tempo
from fsm.cli.world import Job, World
from fsm.driver import new_process_generation
from fsm.observers import observe
from fsm.rooms import room_state

__all__ = ["drive"]

Command = Annotated[
    list[str],
    typer.Argument(metavar="COMMAND", help="After --: the command that answers the prompt on its standard input."),
]
Ttl = Annotated[
    float, typer.Option("--ttl", metavar="SECONDS", callback=seconds, help="How long the lease lasts unrenewed.")
]
Poll = Annotated[
    float,
    typer.Option(
        "--poll",
        metavar="SECONDS",
        callback=seconds,
        help="How often to look at the database; at least six times a ttl.",
    ),
]
Grace = Annotated[
    float,
    typer.Option("--grace", metavar="SECONDS", callback=seconds, help="What a terminated command gets before SIGKILL."),
]
Drain = Annotated[bool, typer.Option("--drain", help="End when no task is left to run or to resolve.")]


def drive(
    location: Location,
    room: Room,
    command: Command,
    *,
    gateway: OptionalGateway = None,
    ttl: Ttl = 30.0,
    poll: Poll = 0.25,
    grace: Grace = 5.0,
    drain: Drain = False,
    events: Events = False,
) -> None:
    """Take the room's tasks in order and run COMMAND for each, until SIGTERM; a second signal stops the command too."""
    require_existing(location)
    # A driver that looks more seldom than it must renew would lose its lease while it sleeps.
    often = min(poll, ttl * MARGIN_OF_TTL)
    job = Job(room, tuple(command), gateway_id=gateway, ttl=ttl, poll=often, grace=grace, drain=drain)
    stop = StopRequests()
    stop.listen()
    report = Reporter(sys.stdout if events else sys.stderr, time.time, as_json=events)
    warnings: list[str] = []
    with opened(location, read_only=True) as db:
        # Looked for first without writing: a database that is not a gateway's must not be given its tables.
        room_state(db, room_id=room)
    with opened(location, warn=warnings.append) as db:
        for text in warnings:
            report.notice("warning", text)
        observe(db, report.transition)
        tempo = Tempo(time.time, time.monotonic, time.sleep)
        Driver(job, World(db, tempo, new_process_generation(), dict(os.environ), report, stop)).run()
