"""Gateways that link their rooms: claims, links and receipts as they hand them over, and short ways to call."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define

from fsm import rooms
from fsm.lifecycles.tables import PEER_RESERVATIONS, REVOKED_GRANTS
from storage import Database, Row
from tests.world import ManualClock, dump

HOUR = 3600.0


def scope(**changes: Any) -> dict[str, Any]:
    """Return the claims of a grant that member `ann` of `room` got from gateway `gw` at epoch 2."""
    return {
        "room_id": "room",
        "member_id": "ann",
        "target_profile": "helper",
        "authority_gateway_id": "gw",
        "authority_epoch": 2,
        "home_install_id": "install:home",
        "target_install_id": "install:there",
        **changes,
    }


def link(**changes: Any) -> dict[str, Any]:
    """Return the link to member `ann` of `room`."""
    return {
        "room_id": "room",
        "member_id": "ann",
        "target_url": "https://there.example/rooms",
        "target_profile": "helper",
        "grant": "s3cret.grant",
        "catalog_json": '{"tools":[]}',
        "cancellation_scope_id": "scope-1",
        "trace_id": "trace-1",
        "transport_security": "tls",
        "status": "ready",
        "updated_at": 1.5,
        **changes,
    }


def receipt(**changes: Any) -> dict[str, Any]:
    """Return the receipt of the first execution of task `t1`."""
    return {
        **scope(),
        "task_id": "t1",
        "execution_generation": 1,
        "run_id": "run-1",
        "session_id": "session 1",
        **changes,
    }


@define
class Peers:
    """A database with short ways to call the library and to look past it."""

    db: Database
    clock: ManualClock

    def reserve(self, lasting: float = HOUR, **changes: Any) -> None:
        """Reserve for so many seconds from now."""
        rooms.reserve_peer_room(self.db, claims=scope(**changes), expires_at=self.clock.now + lasting)

    def revoke(self, lasting: float = HOUR, **changes: Any) -> None:
        """Revoke a scope whose grants last so many seconds from now."""
        rooms.revoke_room_grant_scope(self.db, claims=scope(**changes), expires_at=self.clock.now + lasting)

    def reserved(self, room: str = "room", profile: str = "helper") -> bool:
        """Ask whether a profile is reserved, in both ways, which agree."""
        names = {"room_id": room, "target_profile": profile}
        asked = rooms.peer_room_is_reserved(self.db, **names)
        assert rooms.probe_peer_room_reservation(self.db, **names) is asked
        return asked

    def current(self, **changes: Any) -> bool:
        """Ask whether a grant is that of the live reservation."""
        return rooms.peer_room_grant_is_current(self.db, claims=scope(**changes))

    def revoked(self, issued_at: float | None = None, **changes: Any) -> bool:
        """Ask whether a grant is revoked."""
        return rooms.room_grant_is_revoked(self.db, claims=scope(issued_at=issued_at, **changes))

    def put(self, most: int = 8, **changes: Any) -> None:
        """Store a link."""
        rooms.upsert_room_link_record(self.db, record=link(**changes), max_links=most)

    def links(self) -> list[rooms.RoomLink]:
        """List the links."""
        return rooms.list_room_link_records(self.db)

    def bind(self, **changes: Any) -> None:
        """Store a receipt."""
        rooms.upsert_remote_run_receipt(self.db, record=receipt(**changes))

    def receipts(self, **filters: Any) -> list[rooms.RemoteRunReceipt]:
        """List receipts."""
        return rooms.list_remote_run_receipts(self.db, **filters)

    def row(self, **changes: Any) -> Row | None:
        """Return a reservation as stored."""
        key = {name: scope(**changes)[name] for name in PEER_RESERVATIONS.primary_key}
        where = " AND ".join(f"{name} = :{name}" for name in key)
        rows = self.db.read(lambda tx: tx.execute(f"SELECT * FROM {PEER_RESERVATIONS.name} WHERE {where}", key))
        return rows[0] if rows else None

    def grants(self) -> list[Row]:
        """Return the revocations as stored."""
        return self.db.read(lambda tx: tx.execute(f"SELECT * FROM {REVOKED_GRANTS.name} ORDER BY scope_key"))

    def everything(self) -> dict[str, list[Row]]:
        """Return every row of every table."""
        return dump(self.db)

    @contextmanager
    def refuses(self, error: type[Exception]) -> Iterator[None]:
        """Expect exactly this class of refusal, and every row as it was."""
        before = self.everything()
        with pytest.raises(error) as refusal:
            yield
        assert type(refusal.value) is error
        assert self.everything() == before
