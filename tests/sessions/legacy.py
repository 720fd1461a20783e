"""The file of an older gateway, written as that one wrote it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from fsm import sessions
from tests.sessions.support import Owner

COLUMNS = ("seq", "admission_id", "root", "target_session_id", "lineage", "payload", "status", "outcome", "generation")


def row(name: str = "a1", **changes: Any) -> dict[str, Any]:
    """Return an admission as an older gateway stored it."""
    return {
        "seq": None,
        "admission_id": name,
        "root": "s",
        "target_session_id": "s",
        "lineage": '["s"]',
        "payload": '{"text": "héllo"}',
        "status": "queued",
        "outcome": None,
        "generation": None,
        **changes,
    }


def write(
    path: Path,
    rows: list[dict[str, Any]],
    executions: list[tuple[Any, Any]] | None = None,
    journal: str = "wal",
    columns: tuple[str, ...] = COLUMNS,
) -> Path:
    """Write the file of an older gateway; its `seq` is the order of the rows where they name none."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute(f"PRAGMA journal_mode = {journal}")
        old.execute(f"CREATE TABLE admissions ({', '.join(columns)})")
        for seq, each in enumerate(rows, start=1):
            values = {**each, "seq": seq if each["seq"] is None else each["seq"]}
            old.execute(
                f"INSERT INTO admissions VALUES ({', '.join('?' * len(columns))})", [values[name] for name in columns]
            )
        if executions is not None:
            old.execute("CREATE TABLE executions (root, generation)")
            old.executemany("INSERT INTO executions VALUES (?, ?)", executions)
    return path


def take(owner: Owner, path: object, **changes: Any) -> int:
    """Import the file."""
    arguments = {"epoch": owner.epoch, "principal_id": "p", "writers_drained": True, **changes}
    return sessions.import_legacy_session_admissions(owner.db, source_path=path, **arguments)
