"""Appending stays flat and reading stays near raw SQL: ratios, printed by `make bench`; time is not a law."""

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from attrs import define, field

import storage
from fsm import rooms
from fsm.lifecycles.tables import EVENTS, ROOMS
from fsm.schema import GATEWAY_SCHEMA
from storage import Database, Row, wrong_totals
from tests.world import START, ManualClock

pytestmark = pytest.mark.benchmark_ratio

WARM_UP: Final = 50
APPENDS: Final = 500
READS: Final = 120
FLAT: Final = 1.3
READING: Final = 3.0
ACTOR: Final = {"kind": "member", "id": "member-1", "display_name": "Ada"}
PAYLOAD: Final = {"text": "Say what the crew found out about the harbour, in a sentence or two.", "turn": 7}


@define
class Log:
    """A database with a live room `room` and so much beside it; `taken` holds nanoseconds a call."""

    name: str
    db: Database
    taken: list[int] = field(factory=list)
    number: int = 0

    def append(self) -> None:
        """Append one event; timed."""
        self.number += 1
        began = time.perf_counter_ns()
        rooms.append_event(
            self.db,
            room_id="room",
            event_id=f"new-{self.number}",
            kind="message.member",
            actor=ACTOR,
            payload=PAYLOAD,
            authority_gateway_id="gw",
            authority_epoch=1,
        )
        self.taken.append(time.perf_counter_ns() - began)


def make(path: Path, name: str, *, others: int = 0, events: int = 0) -> Log:
    """Make a database with the room, so many events in it, and so many other rooms, 200 of them live."""
    db = storage.open_database(path / f"{name.replace(' ', '-')}.db", clock=ManualClock(), synchronous="normal")
    rooms.create_room(db, room_id="room", name="Room", members=[{"id": "m"}] * 8, authority_gateway_id="gw")
    with db.transaction() as tx:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) SELECT"
        if others:
            tx.execute(
                f"INSERT INTO {ROOMS.name} {numbers} 'other-' || i, 'Other', '[{{}}]', 'gw', 1, 2, 5000, 1, :at, :at,"
                " CASE WHEN i > 200 THEN :at END FROM n",
                {"count": others, "at": START},
            )
        if events:
            values: Row = {"count": events, "at": START, "actor": _json(ACTOR), "payload": _json(PAYLOAD)}
            tx.execute(
                f"INSERT INTO {EVENTS.name} {numbers} 'room', i, 'old-' || i, 'message.member', :actor, 1, :payload,"
                " :at FROM n",
                values,
            )
            tx.execute(
                f"UPDATE {ROOMS.name} SET next_seq = :count + 1, event_bytes = 200 * :count WHERE room_id = 'room'",
                values,
            )
        assert wrong_totals(tx, GATEWAY_SCHEMA) == ()
    return Log(name, db)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@contextmanager
def opened(*logs: Log) -> Iterator[tuple[Log, ...]]:
    """Close the databases at the end."""
    try:
        yield logs
    finally:
        for log in logs:
            log.db.close()


def race(logs: tuple[Log, ...]) -> None:
    """Let each append in turn, from another first one each time."""
    for number in range(WARM_UP + APPENDS):
        first = number % len(logs)
        for log in (*logs[first:], *logs[:first]):
            log.append()
    for log in logs:
        del log.taken[:WARM_UP]


def told(logs: tuple[Log, ...], what: str) -> str:
    """Return the lines of a table: each median, and its ratio to the smallest log's."""
    smallest = median(logs[0].taken)
    lines = [f"\nappend_event {what}, median of {APPENDS} in turn, synchronous=normal"]
    for log in logs:
        ratio = median(log.taken) / smallest
        wanted = "" if log is logs[0] else f"<= {FLAT}  {'met' if ratio <= FLAT else 'MISSED'}"
        lines.append(f"  {log.name:<16} {median(log.taken) / 1000:8.1f} µs  {ratio:5.2f}  {wanted}")
    return "\n".join(lines) + "\n"


def test_appending_does_not_depend_on_the_rooms_beside(tmp_path: Path) -> None:
    """An append beside 699 rooms is stored as one beside none is, at a cost that is printed."""
    counts = (1, 200, 700)
    with opened(*(make(tmp_path, f"{count} rooms", others=count - 1) for count in counts)) as logs:
        race(logs)
        ends = [rooms.room_state(log.db, room_id="room")["latest_seq"] for log in logs]
    assert ends == [WARM_UP + APPENDS] * 3
    sys.stdout.write(told(logs, "by stored rooms"))


def test_appending_does_not_depend_on_the_events_before(tmp_path: Path) -> None:
    """The 40,000th event of a room is stored as its first is, at a cost that is printed."""
    counts = (1, 40_000)
    with opened(*(make(tmp_path, f"{count} events", events=count) for count in counts)) as logs:
        race(logs)
        ends = [rooms.room_state(log.db, room_id="room")["latest_seq"] for log in logs]
    assert ends == [count + WARM_UP + APPENDS for count in counts]
    sys.stdout.write(told(logs, "by events in the room"))


def test_reading_a_page_costs_little_more_than_decoding_it(tmp_path: Path) -> None:
    """A page of 500 events holds what a raw SELECT and json.loads of its rows do, at a cost that is printed."""
    log = make(tmp_path, "reading", events=5000)
    sql = f"SELECT * FROM {EVENTS.name} WHERE room_id = ? AND seq > ? ORDER BY seq LIMIT ?"
    with opened(log), closing(sqlite3.connect(tmp_path / "reading.db", isolation_level=None)) as raw:

        def decoded() -> list[tuple[Any, ...]]:
            rows = raw.execute(sql, ("room", 1000, 500)).fetchall()
            return [(row, json.loads(row[4]), json.loads(row[6])) for row in rows]

        def page() -> rooms.EventPage:
            return rooms.read_events(log.db, room_id="room", since_seq=1000, limit=500)

        times: dict[str, list[int]] = {"raw": [], "page": []}
        for _ in range(READS):
            _timed(decoded, times["raw"])
            _timed(page, times["page"])
        assert [(each["seq"], each["payload"]) for each in page()["events"]] == [(r[0][1], r[2]) for r in decoded()]
    raw_time, page_time = (median(times[name]) for name in ("raw", "page"))
    ratio = page_time / raw_time
    sys.stdout.write(
        f"\nread_events of 500 events {page_time / 1000:.1f} µs, raw SELECT and json.loads {raw_time / 1000:.1f} µs:"
        f" {ratio:.2f}  <= {READING}  {'met' if ratio <= READING else 'MISSED'}\n"
    )


def _timed(call: Callable[[], object], times: list[int]) -> None:
    began = time.perf_counter_ns()
    call()
    times.append(time.perf_counter_ns() - began)
