"""A worker: `python -m tests.faults.reporter`; adopted at the start, it reports what it says, number by number."""

import json
import sys
from contextlib import closing
from typing import Any

import storage
from fsm import workers
from tests.workers.support import SECRET

__all__ = ["message", "report"]


def message(number: int) -> dict[str, Any]:
    """Return what the worker says under a number."""
    return {"messages": [{"role": "assistant", "content": f"line {number}"}]}


def report(order: dict[str, Any]) -> None:
    """Prove oneself to the owner, say everything from the number on that was not acknowledged, and finish."""
    named = {"epoch": order["epoch"], "execution_id": "w", "session_id": "s", "generation": 0}
    with closing(storage.open_database(order["path"], synchronous="normal")) as db:
        workers.adopt_worker_execution(db, **named, adoption_secret=SECRET)
        for number in range(order["first"], order["total"] + 1):
            tell(number, say(db, named, number, "transcript.append", message(number)))
        last = order["total"] + 1
        tell(last, say(db, named, last, "execution.finish", {}))


def say(db: storage.Database, named: dict[str, Any], number: int, operation: str, payload: Any) -> Any:
    """Report one operation."""
    return workers.mutate_worker_execution(db, **named, sequence=number, operation=operation, payload=payload)


def tell(number: int, answer: Any) -> None:
    """Acknowledge a number."""
    sys.stdout.write(json.dumps({"number": number, "answer": answer}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    report(json.loads(sys.stdin.readline()))
