"""What the storage tests share: a small schema, child processes, and a look at a file by plain sqlite3."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import storage
from storage import Column, Index, Schema, Table, Transaction

ROOT = Path(storage.__file__).parents[1]
PREAMBLE = "import os, sqlite3, sys, time, warnings\nwarnings.simplefilter('ignore')\nimport storage\n"

NOTES = Schema(
    "notes",
    (
        Table(
            "notes",
            (Column("grant", "TEXT"), Column("rank", "INTEGER", nullable=True, minimum=1)),
            ("grant",),
            indexes=(Index("notes_by_rank", ("rank",)),),
        ),
    ),
)


def add(grant: str, rank: int | None = None) -> storage.Row:
    """Return the parameters of INSERT."""
    return {"grant": grant, "rank": rank}


INSERT = 'INSERT INTO notes ("grant", rank) VALUES (:grant, :rank)'
SELECT = 'SELECT "grant", rank FROM notes ORDER BY "grant"'


def executing(sql: str, parameters: storage.Parameters | None = None) -> Callable[[Transaction], list[storage.Row]]:
    """Return a body that runs one statement."""
    return lambda tx: tx.execute(sql, parameters or {})


def grants(db: storage.Database) -> list[storage.Value]:
    """Return the keys that are stored."""
    return [row["grant"] for row in db.read(lambda tx: tx.execute(SELECT))]


def start(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a Python process of its own that has the project on its path."""
    command = [sys.executable, "-c", PREAMBLE + script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait for a process to end well and return what it printed."""
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output.strip()


def run_sql(path: Path, *statements: str) -> None:
    """Run statements by plain sqlite3, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def query(path: Path, statement: str) -> list[tuple[object, ...]]:
    """Return rows by plain sqlite3."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()
