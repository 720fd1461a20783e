"""Rooms brought into any state, and what is stored looked at past the library."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define

from fsm import rooms
from fsm.lifecycles.tables import EVENTS, RETIRED, ROOMS
from fsm.schema import GATEWAY_SCHEMA
from storage import Database, Row, Transaction, WrongTotal, wrong_totals
from tests.world import ManualClock, dump

DAY = 24 * 60 * 60.0
RETENTION = 90 * DAY
MIB = 1024 * 1024

STATES = ("absent", "live", "legacy", "claimed", "superseded", "disbanded", "retired")
"""`legacy`: live under no real authority; `claimed`: taken over by gw2 at epoch 2; `superseded`: then by gw3 at 3."""


@define
class Gateway:
    """A database of rooms with short ways to call the library and to look past it."""

    db: Database
    clock: ManualClock

    def create(self, room: str = "room", **changes: Any) -> rooms.RoomView:
        """Create a room of gateway `gw`."""
        arguments = {"room_id": room, "name": "Room", "members": [], "authority_gateway_id": "gw"}
        return rooms.create_room(self.db, **{**arguments, **changes})

    def create_for(self, room: str, gateway: str) -> rooms.RoomView:
        """Create a room of a gateway."""
        return self.create(room, authority_gateway_id=gateway)

    def claim(self, event_id: str = "e1", room: str = "room", **changes: Any) -> rooms.RoomClaim:
        """Move a room from `gw` at epoch 1 to `gw2`."""
        arguments = {"expected_gateway_id": "gw", "expected_epoch": 1, "new_gateway_id": "gw2"}
        return rooms.claim_authority(self.db, room_id=room, event_id=event_id, **{**arguments, **changes})

    def claim_from(self, gateway: str, epoch: int, new: str, event_id: str, room: str = "room") -> rooms.RoomClaim:
        """Move a room from one gateway to another."""
        return self.claim(event_id, room, expected_gateway_id=gateway, expected_epoch=epoch, new_gateway_id=new)

    def disband(self, room: str = "room", gateway: str = "gw", epoch: int = 1, **changes: Any) -> rooms.RoomDisbanding:
        """Disband a room of `gw` at epoch 1."""
        return rooms.disband_room(self.db, room_id=room, expected_gateway_id=gateway, expected_epoch=epoch, **changes)

    def append(self, event_id: str = "m1", text: str = "hello", room: str = "room", **changes: Any) -> rooms.EventView:
        """Append a user's message for `gw` at epoch 1."""
        arguments: dict[str, Any] = {
            "kind": "message.user",
            "actor": {"kind": "user", "id": "ann"},
            "payload": {"text": text},
            "authority_gateway_id": "gw",
            "authority_epoch": 1,
        }
        return rooms.append_event(self.db, room_id=room, event_id=event_id, **{**arguments, **changes})

    def append_by(self, gateway: str, epoch: int, event_id: str, room: str = "room") -> rooms.EventView:
        """Append a user's message for a gateway."""
        return self.append(event_id, room=room, authority_gateway_id=gateway, authority_epoch=epoch)

    def rename(
        self, name: str = "Other", event_id: str = "r1", room: str = "room", now: float | None = None
    ) -> rooms.RoomRenaming:
        """Rename a room."""
        return rooms.rename_room(self.db, room_id=room, event_id=event_id, name=name, now=now)

    def stop(self, cancel_id: str = "c1", gateway: str = "gw", epoch: int = 1, room: str = "room") -> rooms.EventView:
        """Ask a room of `gw` at epoch 1 to stop."""
        return rooms.request_room_stop(
            self.db, room_id=room, cancel_id=cancel_id, expected_gateway_id=gateway, expected_epoch=epoch
        )

    def read(
        self, since: int = 0, limit: int = 500, room: str = "room", *, closed_too: bool = False
    ) -> rooms.EventPage:
        """Read a page of a room's log."""
        return rooms.read_events(self.db, room_id=room, since_seq=since, limit=limit, include_disbanded=closed_too)

    def prune(self, now: float | None = None) -> int:
        """Prune what is due."""
        return rooms.prune_disbanded_rooms(self.db, now=now)

    def state(self, room: str = "room", *, closed_too: bool = False) -> rooms.RoomState:
        """Read a room."""
        return rooms.room_state(self.db, room_id=room, include_disbanded=closed_too)

    def execute(self, sql: str, **values: Any) -> list[Row]:
        """Change or read the database past the library, as damage or another program would."""
        return self.db.write(lambda tx: tx.execute(sql, values))

    def make_legacy(self, room: str = "room") -> None:
        """Take the room's authority away, as in a database from before rooms had one."""
        self.execute(f"UPDATE {ROOMS.name} SET authority_gateway_id = 'legacy' WHERE room_id = :room_id", room_id=room)

    def alter(self, room: str = "room", **columns: Any) -> None:
        """Set columns of a room past the library."""
        settings = ", ".join(f"{column} = :{column}" for column in columns)
        self.execute(f"UPDATE {ROOMS.name} SET {settings} WHERE room_id = :room_id", room_id=room, **columns)

    def add_event(self, event_id: str, text: str, room: str = "room") -> int:
        """Store a user's message as a gateway that has events would; return its UTF-8 bytes."""
        actor, payload = '{"id":"ann","kind":"user"}', f'{{"text":"{text}"}}'
        size = sum(len(each.encode()) for each in (event_id, "message.user", actor, payload))
        self.execute(
            f"INSERT INTO {EVENTS.name} SELECT room_id, next_seq, :event_id, 'message.user', :actor, authority_epoch,"
            f" :payload, updated_at FROM {ROOMS.name} WHERE room_id = :room_id",
            room_id=room,
            event_id=event_id,
            actor=actor,
            payload=payload,
        )
        self.execute(
            f"UPDATE {ROOMS.name} SET next_seq = next_seq + 1, event_bytes = event_bytes + :size"
            " WHERE room_id = :room_id",
            room_id=room,
            size=size,
        )
        return size

    def add_closed(self, room: str, at: float, size: int = 0, *, retired: bool = True) -> None:
        """Store a room that was disbanded at an instant; an old database does not list its id as retired."""
        self.execute(
            f"INSERT INTO {ROOMS.name} VALUES (:room_id, 'Old', '[]', 'gw', 1, 1, :size, 1, :at, :at, :at)",
            room_id=room,
            size=size,
            at=at,
        )
        if retired:
            self.execute(f"INSERT INTO {RETIRED.name} VALUES (:room_id, :at)", room_id=room, at=at)

    def add_closed_many(self, count: int, at: float, prefix: str = "old") -> None:
        """Store many rooms, `old-0001` and on, each disbanded a second after the one before."""
        insert = f"INSERT INTO {ROOMS.name} VALUES (:room_id, 'Old', '[]', 'gw', 1, 1, 0, 1, :at, :at, :at)"

        def body(tx: Transaction) -> None:
            for number in range(1, count + 1):
                tx.execute(insert, {"room_id": f"{prefix}-{number:04d}", "at": at + number})

        self.db.write(body)

    def row(self, room: str = "room") -> Row | None:
        """Return the room's row as stored."""
        rows = self.execute(f"SELECT * FROM {ROOMS.name} WHERE room_id = :room_id", room_id=room)
        return rows[0] if rows else None

    def stored(self, room: str = "room") -> Row:
        """Return the row of a room that must be there."""
        row = self.row(room)
        assert row is not None
        return row

    def events(self, room: str = "room") -> list[Row]:
        """Return the room's events as stored."""
        return self.execute(f"SELECT * FROM {EVENTS.name} WHERE room_id = :room_id ORDER BY seq", room_id=room)

    def room_ids(self) -> list[str]:
        """Return the ids of all rooms that have a row."""
        return [str(row["room_id"]) for row in self.execute(f"SELECT room_id FROM {ROOMS.name} ORDER BY room_id")]

    def retired(self) -> dict[str, float]:
        """Return the ids that are never used again, and when their rooms were disbanded."""
        rows = self.execute(f"SELECT * FROM {RETIRED.name}")
        return {str(row["room_id"]): float(row["retired_at"] or 0) for row in rows}

    def everything(self) -> dict[str, list[Row]]:
        """Return every row of every table."""
        return dump(self.db)

    def wrong_totals(self) -> tuple[WrongTotal, ...]:
        """Return the totals that a scan of the rooms finds to be others."""
        return self.db.read(lambda tx: wrong_totals(tx, GATEWAY_SCHEMA))

    def bring(self, state: str) -> None:
        """Bring the room `room` into one of STATES."""
        _WAYS[state](self)

    @contextmanager
    def refuses(self, error: type[Exception]) -> Iterator[None]:
        """Expect exactly this class of refusal, and every row as it was."""
        before = self.everything()
        with pytest.raises(error) as refusal:
            yield
        assert type(refusal.value) is error
        assert self.everything() == before


def _legacy(gateway: Gateway) -> None:
    gateway.create()
    gateway.make_legacy()


def _claimed(gateway: Gateway) -> None:
    gateway.create()
    gateway.claim()


def _superseded(gateway: Gateway) -> None:
    _claimed(gateway)
    gateway.claim_from("gw2", 2, "gw3", "e2")


def _disbanded(gateway: Gateway) -> None:
    gateway.create()
    gateway.disband()


def _retired(gateway: Gateway) -> None:
    _disbanded(gateway)
    gateway.clock.advance(RETENTION)
    assert gateway.prune() == 1


_WAYS: dict[str, Callable[[Gateway], object]] = {
    "absent": lambda gateway: gateway.prune(),
    "live": Gateway.create,
    "legacy": _legacy,
    "claimed": _claimed,
    "superseded": _superseded,
    "disbanded": _disbanded,
    "retired": _retired,
}


def size_of(event: Row) -> int:
    """Return the UTF-8 bytes by which a stored event counts."""
    return sum(len(str(event[name]).encode()) for name in ("event_id", "kind", "actor_json", "payload_json"))


def check_books(gateway: Gateway, room: str) -> None:
    """A room's events have the numbers 1 to n without a gap; its row and the gateway's totals count them exactly."""
    row, events = gateway.stored(room), gateway.events(room)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert row["next_seq"] == len(events) + 1
    assert row["event_bytes"] == sum(map(size_of, events))
    assert gateway.wrong_totals() == ()
