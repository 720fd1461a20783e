"""The gateway's totals: kept for an older database too, whoever writes the rooms, and used by every append."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fsm import rooms
from fsm.rooms import HostedRoomError, events
from fsm.schema import GATEWAY_SCHEMA
from storage import Parameters, Row, Transaction, open_database, wrong_totals
from tests.older_gateway import make_older
from tests.rooms.support import MIB, Gateway
from tests.world import START, ManualClock


def totals(gateway: Gateway) -> dict[str, object]:
    """Return what is kept, by name."""
    return {str(row["name"]): row["total"] for row in gateway.execute("SELECT * FROM hosted_room_totals")}


def test_a_rooms_whole_life_is_counted(gateway: Gateway) -> None:
    """Created, talked in, closed and pruned: bytes and live rooms follow each step."""
    assert totals(gateway) == {"event_bytes": 0, "live_rooms": 0}
    gateway.create()
    gateway.create("other")
    gateway.append()
    assert totals(gateway) == {"event_bytes": 56, "live_rooms": 2}
    gateway.disband()
    assert totals(gateway) == {"event_bytes": 56 + 90, "live_rooms": 1}
    gateway.clock.advance(90 * 24 * 3600)
    gateway.prune()
    assert totals(gateway) == {"event_bytes": 0, "live_rooms": 1}
    assert gateway.wrong_totals() == ()


def test_stored_bytes_are_read_from_the_total(gateway: Gateway) -> None:
    """No row of a room is looked at: what the total says is what counts."""
    gateway.create()
    gateway.execute("UPDATE hosted_room_totals SET total = 77 WHERE name = 'event_bytes'")
    assert gateway.db.read(events.stored_bytes) == 77
    gateway.execute("UPDATE hosted_room_totals SET total = :full WHERE name = 'event_bytes'", full=16 * MIB)
    with gateway.refuses(HostedRoomError):
        gateway.append()


def test_an_older_database_gets_its_totals_with_the_first_call(tmp_path: Path) -> None:
    """The rooms that were there are summed up, and the limit holds from the first append on."""
    path = tmp_path / "state.db"
    make_older(path, tasks=1)
    with closing(sqlite3.connect(path)) as older, older:
        older.execute("update hosted_rooms set event_bytes = ?", (16 * MIB - 60,))
        older.execute("insert into hosted_rooms values ('old', 'Old', '[]', 'gw', 1, 1, 4, 1, 1.5, 1.5, 1.5)")
    gateway = Gateway(open_database(path, clock=ManualClock(), synchronous="normal"), ManualClock())
    assert gateway.append("m1")["seq"] == 1
    assert totals(gateway) == {"event_bytes": 16 * MIB, "live_rooms": 1}
    assert gateway.room_ids() == ["old", "room"]
    with pytest.raises(HostedRoomError, match="full"):
        gateway.append("m2")
    gateway.db.close()


def test_an_older_gateway_beside_keeps_the_totals_right(gateway: Gateway) -> None:
    """What a gateway of before writes, with statements of its own, counts at once."""
    gateway.create()
    gateway.execute("INSERT INTO hosted_rooms VALUES ('r2', 'R', '[]', 'gw', 1, 1, 0, 1, 1, 1, NULL)")
    gateway.execute("UPDATE hosted_rooms SET event_bytes = event_bytes + 1000, next_seq = 2 WHERE room_id = 'r2'")
    gateway.execute("UPDATE hosted_rooms SET disbanded_at = 5 WHERE room_id = 'room'")
    assert totals(gateway) == {"event_bytes": 1000, "live_rooms": 1}
    assert gateway.wrong_totals() == ()


def test_every_connection_of_a_process_sees_one_total(gateway: Gateway) -> None:
    """A reader that opens the same file read-only proves the totals as the writer left them."""
    gateway.create()
    gateway.append()
    reader = open_database(gateway.db.location, read_only=True)
    assert rooms.room_state(reader, room_id="room")["latest_seq"] == 1
    assert reader.read(lambda tx: wrong_totals(tx, GATEWAY_SCHEMA)) == ()
    reader.close()


def test_appending_scans_no_table_of_sqlite(tmp_path: Path) -> None:
    """Every statement of an append finds its rows by a key, beside one room or hundreds."""
    gateway = Gateway(open_database(tmp_path / "plans.db", synchronous="normal"), ManualClock())
    gateway.create()
    gateway.add_closed_many(600, START)
    plans: list[Row] = []
    kind = type(gateway.db.read(lambda tx: tx))
    execute = kind.execute

    def explained(tx: Transaction, sql: str, parameters: Parameters = {}) -> list[Row]:  # noqa: B006 - never written to
        if sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            plans.extend(execute(tx, f"EXPLAIN QUERY PLAN {sql}", parameters))
        return execute(tx, sql, parameters)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind, "execute", explained)
        gateway.append()
    assert len(plans) >= 4
    assert [row["detail"] for row in plans if "SCAN" in str(row["detail"])] == []
    gateway.db.close()
