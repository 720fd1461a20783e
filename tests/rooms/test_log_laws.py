"""Laws of the event log that hold after any sequence of calls by two gateways, each of which may believe what is past.

The test keeps a log of its own: what each answered call says that it stored.
"""

import itertools
from collections import Counter
from typing import Any
from unittest.mock import patch

from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fsm.rooms import AuthorityConflictError, EventConflictError, EventView, HostedRoomError, RoomNotFoundError, pages
from tests.engines import Engine
from tests.laws import hold, never_seen
from tests.rooms.support import MIB, Gateway, check_books, size_of
from tests.world import ManualClock

ROOMS = st.sampled_from(["a", "b"])
GATEWAYS = st.sampled_from(["gw", "gw2"])
OTHER = {"gw": "gw2", "gw2": "gw"}
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
LIMITS = st.lists(st.integers(1, 3) | st.integers(1, 500), min_size=1, max_size=6)
PAGES = st.sampled_from([700, 1000, 2 * MIB])
STEPS = st.sampled_from([0.0, 1.0, -1.0, 0.25])

SEEN: Counter[str] = Counter()
EXPECTED = {
    "appended",
    "appended again",
    "appended again by a gateway of the past",
    "appended again in a closed room",
    "conflict",
    "stale",
    "closed",
    "full",
    "stopped",
    "stopped again",
    "renamed",
    "renamed again",
    "claimed",
    "disbanded",
    "page cut by its bytes",
    "page cut by its count",
    "whole log on one page",
}


@define
class Log:
    """A room by all that was asked of it: who owns it, and its events as they were answered."""

    gateway: str = "gw"
    epoch: int = 1
    closed: bool = False
    events: list[EventView] = field(factory=list)
    calls: dict[str, tuple[str, str, int, dict[str, Any]]] = field(factory=dict)


class Logs(RuleBasedStateMachine):
    """Two rooms, two gateways, and a clock that also steps back."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    @initialize()
    def start(self) -> None:
        """Begin with two rooms of one gateway, of which the other one knows as well."""
        self.clock = ManualClock()
        self.gateway = Gateway(self.engine.fresh(clock=self.clock), self.clock)
        self.logs = {"a": Log(), "b": Log()}
        for room in self.logs:
            self.gateway.create(room)
        self.believed = {(gateway, room): 1 for gateway in OTHER for room in self.logs}
        self.names = itertools.count(1)

    @rule(step=STEPS)
    def pass_time(self, step: float) -> None:
        """Move the clock, also back."""
        self.clock.advance(step)

    @rule(room=ROOMS, gateway=GATEWAYS)
    def look(self, room: str, gateway: str) -> None:
        """Let a gateway learn who owns a room."""
        self.believed[gateway, room] = self.gateway.state(room, closed_too=True)["authority_epoch"]

    def judge(self, room: str, gateway: str) -> type[Exception] | None:
        """Return how a new event of a gateway at the epoch that it believes in must end."""
        log = self.logs[room]
        if log.closed:
            SEEN["closed"] += 1
            return RoomNotFoundError
        if (log.gateway, log.epoch) != (gateway, self.believed[gateway, room]):
            SEEN["stale"] += 1
            return AuthorityConflictError
        return None

    def follow(self, room: str, view: EventView) -> None:
        """Note an event that was stored: it has the next number, and is new."""
        log = self.logs[room]
        assert view["idempotent"] is False
        assert view["seq"] == len(log.events) + 1
        log.events.append(view)

    def call(self, error: type[Exception] | None, function: Any, *args: Any) -> Any:
        """Make a call of which the log knows how it ends; a refusal changes nothing."""
        if error is None:
            return function(*args)
        with self.gateway.refuses(error):
            function(*args)
        return None

    def send(self, room: str, gateway: str, epoch: int, event_id: str, payload: dict[str, Any]) -> EventView:
        """Append a message of a member."""
        return self.gateway.append(
            event_id,
            room=room,
            kind="message.member",
            actor={"kind": "member", "id": "m"},
            payload=payload,
            authority_gateway_id=gateway,
            authority_epoch=epoch,
        )

    @rule(room=ROOMS, gateway=GATEWAYS, text=TEXTS, n=st.integers(-(2**63), 2**63 - 1))
    def append(self, room: str, gateway: str, text: str, n: int) -> None:
        """Append an event at the epoch that the gateway believes in."""
        event_id, epoch, payload = f"m{next(self.names)}", self.believed[gateway, room], {"text": text, "n": n}
        view = self.call(self.judge(room, gateway), self.send, room, gateway, epoch, event_id, payload)
        if view is not None:
            SEEN["appended"] += 1
            self.follow(room, view)
            self.logs[room].calls[event_id] = (room, gateway, epoch, payload)

    @rule(room=ROOMS, count=st.integers(2, 6))
    def append_many(self, room: str, count: int) -> None:
        """Let the room's own gateway append several events."""
        gateway = self.logs[room].gateway
        self.look(room, gateway)
        for _ in range(count):
            self.append(room, gateway, "x" * count, count)

    @rule(room=ROOMS, pick=st.integers(0, 99))
    def close_and_repeat(self, room: str, pick: int) -> None:
        """Close a room that has something to say, and repeat what was said in it."""
        if len(self.logs[room].calls) > pick % 8:
            self.disband(room, 0)
            self.append_again(room, pick, None)

    @rule(room=ROOMS, pick=st.integers(0, 99), twist=st.sampled_from([None, None, "payload", "epoch"]))
    def append_again(self, room: str, pick: int, twist: str | None) -> None:
        """Repeat an append that was answered, exactly or with other content, whatever has happened since."""
        log = self.logs[room]
        if not log.calls:
            return
        event_id = list(log.calls)[pick % len(log.calls)]
        _, gateway, epoch, payload = log.calls[event_id]
        if twist is not None:
            SEEN["conflict"] += 1
            payload, epoch = ({}, epoch) if twist == "payload" else (payload, epoch + 1)
            self.call(EventConflictError, self.send, room, gateway, epoch, event_id, payload)
            return
        past = (gateway, epoch) != (log.gateway, log.epoch)
        SEEN["appended again in a closed room" if log.closed else "appended again"] += 1
        SEEN["appended again by a gateway of the past"] += past
        before = self.gateway.everything()
        view = self.send(room, gateway, epoch, event_id, payload)
        (stored,) = (each for each in log.events if each["event_id"] == event_id)
        assert view == {**stored, "idempotent": True}
        assert self.gateway.everything() == before

    @rule(room=ROOMS, gateway=GATEWAYS, cancel=st.sampled_from(["c1", "c2"]))
    def stop(self, room: str, gateway: str, cancel: str) -> None:
        """Ask for a stop under an id that may have been used, by this gateway at this epoch or by another."""
        log, epoch = self.logs[room], self.believed[gateway, room]
        used = next((each for each in log.events if each["payload"] == {"cancel_id": cancel}), None)
        if used is None:
            view = self.call(self.judge(room, gateway), self.gateway.stop, cancel, gateway, epoch, room)
            if view is not None:
                SEEN["stopped"] += 1
                self.follow(room, view)
            return
        same = (used["actor"]["id"], used["authority_epoch"]) == (gateway, epoch)
        view = self.call(None if same else EventConflictError, self.gateway.stop, cancel, gateway, epoch, room)
        if same:
            SEEN["stopped again"] += 1
            assert view == {**used, "idempotent": True}

    @rule(room=ROOMS, name=st.sampled_from(["One", "Two"]), event_id=st.sampled_from(["r1", "r2", "r3"]))
    def rename(self, room: str, name: str, event_id: str) -> None:
        """Rename a room under an id that may have been used for this name or another."""
        log = self.logs[room]
        used = next((each for each in log.events if each["event_id"] == event_id), None)
        again = used is not None and used["payload"] == {"name": name}
        error = RoomNotFoundError if log.closed else None if used is None or again else EventConflictError
        view = self.call(error, self.gateway.rename, name, event_id, room)
        if error is not None:
            return
        SEEN["renamed again" if again else "renamed"] += 1
        assert view["idempotent"] is again
        if used is not None:
            assert view["event"] == {**used, "idempotent": True}
        else:
            self.follow(room, view["event"])

    @rule(room=ROOMS)
    def claim(self, room: str) -> None:
        """Let the gateway that does not own a room take it over; the other one does not learn of it."""
        log = self.logs[room]
        if not log.closed:
            SEEN["claimed"] += 1
            event_id, new = f"k{next(self.names)}", OTHER[log.gateway]
            view = self.gateway.claim_from(log.gateway, log.epoch, new, event_id, room)
            log.gateway, log.epoch = new, log.epoch + 1
            self.believed[new, room] = log.epoch
            self.follow(room, view["claim_event"])

    @rule(room=ROOMS, sure=st.integers(0, 3))
    def disband(self, room: str, sure: int) -> None:
        """Close a room, now and then."""
        log = self.logs[room]
        if sure == 0 and not log.closed:
            SEEN["disbanded"] += 1
            self.follow(room, self.gateway.disband(room, log.gateway, log.epoch)["event"])
            log.closed = True

    @rule(room=ROOMS)
    def append_in_vain(self, room: str) -> None:
        """Append while the room's row says that it is full: what is refused changes nothing, in no total either."""
        log = self.logs[room]
        if not log.closed:
            SEEN["full"] += 1
            held = self.gateway.stored(room)["event_bytes"]
            self.gateway.alter(room, event_bytes=16 * MIB)
            self.call(HostedRoomError, self.send, room, log.gateway, log.epoch, "never", {})
            self.gateway.alter(room, event_bytes=held)

    @rule(room=ROOMS, limits=LIMITS, largest=PAGES)
    def read_through(self, room: str, limits: list[int], largest: int) -> None:
        """Page through a log with any mix of limits: every event comes exactly once, in order, as it was answered."""
        found: list[Any] = []
        turns = itertools.cycle(limits)
        with patch.object(pages, "MAX_LOG_PAGE_BYTES", largest):
            while True:
                limit = next(turns)
                page = self.gateway.read(len(found), limit, room, closed_too=True)
                assert pages.page_bytes(page) <= largest
                assert page["latest_seq"] == len(self.logs[room].events)
                found += page["events"]
                assert page["cursor"] == len(found)
                cut = "by its count" if len(page["events"]) == limit else "by its bytes"
                SEEN[f"page cut {cut}" if page["has_more"] else "whole log on one page"] += 1
                if not page["has_more"]:
                    break
                assert page["events"]
        assert found == self.logs[room].events

    @invariant()
    def an_event_never_changes(self) -> None:
        """What is stored is what was answered, number by number without a gap, and the bytes are counted."""
        for room, log in self.logs.items():
            rows = self.gateway.events(room)
            assert [row["seq"] for row in rows] == list(range(1, len(log.events) + 1))
            for row, view in zip(rows, log.events, strict=True):
                same = ("room_id", "event_id", "kind", "authority_epoch", "created_at")
                assert [row[name] for name in same] == [view[name] for name in same]  # type: ignore[literal-required] # all are keys of it
            assert self.gateway.stored(room)["event_bytes"] == sum(map(size_of, rows))
            check_books(self.gateway, room)

    @invariant()
    def updated_at_is_the_latest_instant(self) -> None:
        """A room's `updated_at` is the greatest instant of its events, however the clock went."""
        for room, log in self.logs.items():
            row = self.gateway.stored(room)
            instants = [float(row["created_at"] or 0), *(each["created_at"] for each in log.events)]
            assert row["updated_at"] == max(instants)


def test_the_laws_of_the_log(engine: Engine) -> None:
    """No sequence of calls breaks a law, and everything that can happen to a log has happened in some sequence."""
    SEEN.clear()
    hold(Logs, engine, lambda: never_seen(EXPECTED, SEEN), examples=60, on_server=8, steps=40)
