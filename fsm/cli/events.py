"""`fsm events`: a room's log, as far as it goes or as it grows."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from fsm.cli.damage import damage_refused
from fsm.cli.facts import printable, say_stored, shown_instant
from fsm.cli.opening import opened
from fsm.cli.options import ASK_SECONDS, AsJson, Location, Room, require_existing
from fsm.cli.output import say
from fsm.lifecycles.limits import MAX_LOG_LIMIT
from fsm.rooms import ListedEvent, read_events, room_state
from storage import Database
from storage.validate import INTEGER_MAXIMUM

__all__ = ["events"]

Since = Annotated[
    int,
    typer.Option("--since", metavar="N", min=0, max=INTEGER_MAXIMUM, help="Only the events after number N."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most N events.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for further events until the room is closed.")]


def events(
    location: Location,
    room: Room,
    *,
    since: Since = 0,
    limit: Limit = None,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show the events of a room's log in order, one a line. Nothing is written.

    The log of a closed room is shown too, while it is kept; times are UTC. With --json each line is an object.
    """
    require_existing(location)
    with opened(location, read_only=True) as db, damage_refused():
        for page in _pages(db, room, since, limit, follow=follow):
            for event in page:
                say_stored(event) if as_json else say(printable(_line(event)))
            sys.stdout.flush()


def _pages(db: Database, room_id: str, since: int, limit: int | None, *, follow: bool) -> Iterator[list[ListedEvent]]:
    cursor, left = since, limit
    while left is None or left > 0:
        # Asked before the log is read: a room that was closed by then has no further event.
        closed = not follow or "disbanded_at" in room_state(db, room_id=room_id, include_disbanded=True)
        most = MAX_LOG_LIMIT if left is None else min(left, MAX_LOG_LIMIT)
        page = read_events(db, room_id=room_id, since_seq=cursor, limit=most, include_disbanded=True)
        yield page["events"]
        cursor = page["cursor"]
        left = None if left is None else left - len(page["events"])
        if page["has_more"] and page["events"]:
            continue
        if closed:
            return
        time.sleep(ASK_SECONDS)


def _line(event: ListedEvent) -> str:
    said = f"corrupt: {event['corrupt']}" if "corrupt" in event else json.dumps(event["payload"], ensure_ascii=False)
    return f"{event['seq']}  {shown_instant(event['created_at'])}  {event['kind']}  {_actor(event)}  {said}"


def _actor(event: ListedEvent) -> str:
    actor = event["actor"]
    if not isinstance(actor, dict):
        return "-"
    shown = f" ({actor['display_name']})" if "display_name" in actor else ""
    return f"{actor.get('kind')} {actor.get('id')}{shown}"
