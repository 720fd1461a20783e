"""`fsm rooms`: which rooms there are, and under whose authority."""

from typing import Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fsm.cli.damage import damage_refused
from fsm.cli.facts import printable, say_one_by_one, say_stored, shown_instant
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, require_existing
from fsm.cli.output import NARROW_COLUMNS, console
from fsm.lifecycles.limits import MAX_ROOM_LIST_LIMIT
from fsm.rooms import RoomView, list_rooms
from storage import Database

__all__ = ["rooms"]

COLUMNS: Final = ("room", "name", "authority", "epoch", "revision", "log", "changed", "closed", "mark")
NUMBERS: Final = frozenset({"epoch", "revision", "log"})

All = Annotated[bool, typer.Option("--all", help="Closed rooms too, while their history is kept.")]


def rooms(location: Location, *, everything: All = False, as_json: AsJson = False) -> None:
    """List the rooms, most recently changed first. Nothing is written.

    The log's length is that of its whole life; times are UTC.
    """
    require_existing(location)
    with opened(location, read_only=True) as db, damage_refused():
        found = _all_pages(db, closed_too=everything)
    if as_json:
        say_stored(found)
    elif (terminal := console()).width < NARROW_COLUMNS:
        say_one_by_one(COLUMNS, map(_cells, found))
    else:
        terminal.print(_table(found))


def _all_pages(db: Database, *, closed_too: bool) -> list[RoomView]:
    """Return every room once: one that changes while the pages are read may stand on two of them."""
    found: dict[str, RoomView] = {}
    offset = 0
    while page := list_rooms(db, include_disbanded=closed_too, limit=MAX_ROOM_LIST_LIMIT, offset=offset):
        for room in page:
            found.setdefault(room["room_id"], room)
        offset += len(page)
    return list(found.values())


def _table(found: list[RoomView]) -> Table:
    table = Table(title=Text(f"{len(found)} room{'' if len(found) == 1 else 's'}"), box=SIMPLE_HEAD)
    for column in COLUMNS:
        narrow = column in NUMBERS
        table.add_column(column, overflow="fold", no_wrap=narrow, justify="right" if narrow else "left")
    for room in found:
        table.add_row(*(Text(cell) for cell in _cells(room)))
    return table


def _cells(room: RoomView) -> tuple[str, ...]:
    plain = (room["room_id"], room["name"], room["authority_gateway_id"], room["authority_epoch"], room["revision"])
    return (
        *map(printable, plain),
        printable(room["latest_seq"]),
        shown_instant(room["updated_at"]),
        shown_instant(room.get("disbanded_at")),
        f"corrupt: {room['corrupt']}" if "corrupt" in room else "",
    )
