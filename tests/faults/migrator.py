"""A process that dies while it migrates a database: `python -m tests.faults.migrator`; it answers each order it reads.

For every order it forks a child, which kills itself at the statement of that number: whatever SQLite is asked to run on
the child's connections counts, from the first to the commit and what follows it.
"""

import itertools
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import storage
from fsm.schema import GATEWAY_SCHEMA


def killing(number: int) -> Callable[[str], None]:
    """Return what SQLite calls ahead of each statement."""
    numbers = itertools.count(1)

    def ahead(_statement: str) -> None:
        if next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return ahead


def migrate(path: str, number: int) -> None:
    """Open a database for the first time, as any call would, up to the statement of this number."""
    ahead, connect = killing(number), sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(ahead)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment] # in this process alone, which ends with it
    storage.open_database(path).require(GATEWAY_SCHEMA)


def die_at(path: str, number: int) -> dict[str, Any]:
    """Let a child migrate the database and say how it ended."""
    child = os.fork()
    if child == 0:
        try:
            migrate(path, number)
        except BaseException:  # noqa: BLE001 # whatever it is, the child must not live on as a second parent
            os._exit(1)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"ended": "killed" if ended == -signal.SIGKILL else ended}


def main() -> None:
    """Answer until there are no more orders."""
    for line in sys.stdin:
        order = json.loads(line)
        sys.stdout.write(json.dumps(die_at(order["path"], order["number"])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
