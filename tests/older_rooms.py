"""A gateway's rooms as its drafts left them, written out by hand: what they hold must not follow the declarations."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

__all__ = ["ADDED", "KEYS", "TABLES", "Draft", "expected_rows", "make_draft", "rows_of"]

Row = dict[str, Any]

COLUMNS: Final[dict[str, dict[str, str]]] = {
    "hosted_rooms": {
        "room_id": "text primary key",
        "name": "text not null",
        "members_json": "text not null",
        "authority_gateway_id": "text not null",
        "authority_epoch": "integer not null default 1 check (authority_epoch >= 1)",
        "next_seq": "integer not null default 1 check (next_seq >= 1)",
        "event_bytes": "integer not null default 0 check (event_bytes >= 0)",
        "revision": "integer not null default 1 check (revision >= 1)",
        "created_at": "real not null",
        "updated_at": "real not null",
        "disbanded_at": "real",
    },
    "hosted_room_events": {
        "room_id": "text not null references hosted_rooms(room_id)",
        "seq": "integer not null check (seq >= 1)",
        "event_id": "text not null",
        "kind": "text not null",
        "actor_json": "text not null",
        "authority_epoch": "integer check (authority_epoch is null or authority_epoch >= 1)",
        "payload_json": "text not null",
        "created_at": "real not null",
    },
    "hosted_room_retired_ids": {"room_id": "text primary key", "retired_at": "real not null"},
    "hosted_room_links": {
        **dict.fromkeys(
            (
                *("room_id", "member_id", "target_url", "target_profile", "grant", "catalog_json"),
                *("cancellation_scope_id", "trace_id", "transport_security"),
            ),
            "text not null",
        ),
        "status": "text not null default 'ready'",
        "updated_at": "real not null",
    },
    "hosted_room_revoked_grants": {
        "scope_key": "text primary key",
        "expires_at": "real not null",
        "revoked_before": "real not null",
    },
    "hosted_room_peer_reservations": {
        **dict.fromkeys(("room_id", "member_id", "target_profile", "authority_gateway_id"), "text not null"),
        "authority_epoch": "integer not null check (authority_epoch >= 1)",
        "expires_at": "real not null",
        "revoked_at": "real",
        "created_at": "real not null",
        "updated_at": "real not null",
    },
    "hosted_room_remote_runs": {
        **dict.fromkeys(("room_id", "home_install_id", "authority_gateway_id"), "text not null"),
        "authority_epoch": "integer not null check (authority_epoch >= 1)",
        **dict.fromkeys(("member_id", "task_id"), "text not null"),
        "execution_generation": "integer not null check (execution_generation >= 1)",
        **dict.fromkeys(("target_install_id", "target_profile", "run_id", "session_id"), "text not null"),
        "created_at": "real not null",
        "updated_at": "real not null",
    },
}
TABLES: Final = tuple(COLUMNS)
OLDER_KEY: Final = (
    *("room_id", "member_id", "target_install_id"),
    *("target_profile", "task_id", "execution_generation"),
)
WHOLE_KEY: Final = (
    *("room_id", "home_install_id", "authority_gateway_id", "authority_epoch"),
    *("member_id", "target_install_id", "target_profile", "task_id", "execution_generation"),
)
KEYS: Final[dict[str, tuple[str, ...]]] = {"whole": WHOLE_KEY, "older": OLDER_KEY, "run": ("run_id",), "none": ()}
CONSTRAINTS: Final[dict[str, str]] = {
    "hosted_room_events": "primary key (room_id, seq), unique (room_id, event_id)",
    "hosted_room_links": "primary key (room_id, member_id)",
    "hosted_room_peer_reservations": "primary key (room_id, member_id, target_profile)",
}
ADDED: Final[dict[tuple[str, str], Any]] = {
    ("hosted_rooms", "authority_gateway_id"): "legacy",
    ("hosted_rooms", "authority_epoch"): 1,
    ("hosted_rooms", "event_bytes"): 0,
    ("hosted_room_events", "actor_json"): '{"id":"legacy","kind":"system"}',
    ("hosted_room_events", "authority_epoch"): None,
    ("hosted_room_remote_runs", "home_install_id"): "legacy",
    ("hosted_room_remote_runs", "authority_gateway_id"): "legacy",
    ("hosted_room_remote_runs", "authority_epoch"): 1,
}
"""Every column that a draft may lack, and what its rows get there."""
TEXTS: Final = ("hello", "é", "漢字", "🌍", "it's", '"', "a\nb")


@frozen
class Draft:
    """What a draft lacks: columns, whole tables, and which key its receipts had."""

    lacks: frozenset[tuple[str, str]] = frozenset(ADDED)
    missing: frozenset[str] = field(factory=frozenset)
    key: str = "older"
    indexed: bool = True


def _rooms() -> list[Row]:
    fixed = {"members_json": '[{"id":"ann"}]', "authority_gateway_id": "gw", "authority_epoch": 3, "revision": 2}
    times = {"created_at": 1.5, "updated_at": 2.5}
    ends = {"lobby": None, "attic": None, "closed": 5.0, "gone": 7.25}
    return [
        {"room_id": room, "name": f"é {room}", **fixed, "next_seq": 8, "event_bytes": 7, **times, "disbanded_at": end}
        for room, end in ends.items()
    ]


def _events() -> list[Row]:
    return [
        {
            "room_id": room,
            "seq": seq,
            "event_id": f"e{seq}",
            "kind": "message.user",
            "actor_json": '{"id":"ann","kind":"user"}',
            "authority_epoch": 3,
            "payload_json": f'{{"text":"{text}{room}"}}',
            "created_at": seq / 4,
        }
        for room in ("lobby", "closed")
        for seq, text in enumerate(TEXTS, start=1)
    ]


def _runs() -> list[Row]:
    return [
        {
            "room_id": "lobby",
            "home_install_id": "home",
            "authority_gateway_id": gateway,
            "authority_epoch": 2,
            "member_id": "ann",
            "task_id": f"t{number}",
            "execution_generation": generation,
            "target_install_id": "there",
            "target_profile": "helper",
            "run_id": f"run-{number}-{generation}-{gateway}",
            "session_id": "s",
            "created_at": number / 8,
            "updated_at": 3.0,
        }
        for number in (3, 1, 2)
        for generation in (2, 1)
        for gateway in ("gw", "gw2")
    ]


def _others() -> dict[str, list[Row]]:
    reservation = {"room_id": "lobby", "target_profile": "helper", "authority_gateway_id": "gw", "authority_epoch": 2}
    times = {"expires_at": 9.0, "revoked_at": None, "created_at": 1.0, "updated_at": 2.0}
    texts = {name: f"a {name}" for name, kind in COLUMNS["hosted_room_links"].items() if kind.startswith("text")}
    return {
        "hosted_room_retired_ids": [{"room_id": "gone", "retired_at": 6.0}, {"room_id": "older", "retired_at": 1.0}],
        "hosted_room_links": [{**texts, "updated_at": 4.5}],
        "hosted_room_revoked_grants": [{"scope_key": "k", "expires_at": 9.0, "revoked_before": 1.0}],
        "hosted_room_peer_reservations": [{"member_id": member, **reservation, **times} for member in ("ann", "bob")],
    }


def _stored(draft: Draft) -> dict[str, list[Row]]:
    """Return the rows that the draft holds, without the columns that it lacks, by its tables."""
    rows = {"hosted_rooms": _rooms(), "hosted_room_events": _events(), **_others(), "hosted_room_remote_runs": _runs()}
    if key := KEYS[draft.key]:
        rows["hosted_room_remote_runs"] = _first_of_each(rows["hosted_room_remote_runs"], _kept(draft, key))
    return {
        table: [{name: value for name, value in row.items() if (table, name) not in draft.lacks} for row in listed]
        for table, listed in rows.items()
        if table not in draft.missing
    }


def _kept(draft: Draft, key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in key if ("hosted_room_remote_runs", name) not in draft.lacks)


def _first_of_each(rows: Iterable[Row], key: tuple[str, ...]) -> list[Row]:
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in key), row)
    return list(found.values())


def make_draft(path: Path, draft: Draft) -> None:
    """Make the draft's database with all of its rows."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in _stored(draft).items():
            connection.execute(_create(draft, table))
            for row in rows:
                names = ", ".join(f'"{name}"' for name in row)
                connection.execute(
                    f'insert into "{table}" ({names}) values ({", ".join("?" * len(row))})', tuple(row.values())
                )
        if draft.indexed:
            connection.execute("create index idx_hosted_room_events_cursor on hosted_room_events(room_id, seq)")


def _create(draft: Draft, table: str) -> str:
    definitions = [f'"{name}" {kind}' for name, kind in COLUMNS[table].items() if (table, name) not in draft.lacks]
    if table in CONSTRAINTS:
        definitions.append(CONSTRAINTS[table])
    if table == "hosted_room_remote_runs" and KEYS[draft.key]:
        definitions.append(f"primary key ({', '.join(_kept(draft, KEYS[draft.key]))})")
    return f"create table {table} ({', '.join(definitions)})"


def expected_rows(draft: Draft) -> dict[str, list[Row]]:
    """Return every row that the migrated database must hold, each table in the order of its columns' texts."""
    stored = _stored(draft)
    found: dict[str, list[Row]] = {table: [] for table in TABLES}
    for table, rows in stored.items():
        found[table] = [{name: row.get(name, ADDED.get((table, name))) for name in COLUMNS[table]} for row in rows]
    found["hosted_room_remote_runs"] = _first_of_each(found["hosted_room_remote_runs"], WHOLE_KEY)
    if ("hosted_rooms", "event_bytes") in draft.lacks:
        for room in found["hosted_rooms"]:
            room["event_bytes"] = sum(
                len(str(event[name]).encode())
                for event in found["hosted_room_events"]
                for name in ("event_id", "kind", "actor_json", "payload_json")
                if event["room_id"] == room["room_id"]
            )
    found["hosted_room_retired_ids"] = _with_retired(found)
    return {table: _ordered(rows) for table, rows in found.items()}


def _with_retired(found: dict[str, list[Row]]) -> list[Row]:
    retired = {row["room_id"]: row for row in found["hosted_room_retired_ids"]}
    for room in found["hosted_rooms"]:
        if room["disbanded_at"] is not None:
            retired.setdefault(room["room_id"], {"room_id": room["room_id"], "retired_at": room["disbanded_at"]})
    return list(retired.values())


def _ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def rows_of(path: Path) -> dict[str, list[Row]]:
    """Return every row of the rooms' tables as an independent reader finds them."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        present = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
        return {
            table: _ordered([dict(row) for row in connection.execute(f'select * from "{table}"')])
            for table in TABLES
            if table in present
        }
