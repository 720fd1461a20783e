"""A process that claims and settles: `python -m tests.faults.turner PROCESS`; it tells of each turn."""

import json
import random
import sys
from contextlib import closing
from typing import Any

import storage
from fsm import sessions


def turns(order: dict[str, Any], process: str) -> None:
    """Go round the sessions in an order of its own until so many inputs have ended, whoever ended them."""
    dice = random.Random(process)  # noqa: S311 # the same dice every time
    names = list(order["sessions"])
    with closing(storage.open_database(order["path"], synchronous="normal")) as db:
        while ended(db) < order["total"]:
            dice.shuffle(names)
            for name in names:
                run_one(db, order["epoch"], name, process)


def ended(db: storage.Database) -> int:
    """Return how many inputs have ended."""
    rows = db.read(lambda tx: tx.execute("SELECT COUNT(*) AS n FROM session_admissions WHERE outcome IS NOT NULL"))
    return int(rows[0]["n"] or 0)


def run_one(db: storage.Database, epoch: int, name: str, process: str) -> None:
    """Run the turn that is next where nothing runs, and tell of it once it is stored."""
    pending = sessions.list_session_admissions(db, session_id=name)
    if not pending or pending[0]["generation"] is not None:
        return
    claimed = sessions.claim_session_input(db, epoch=epoch, session_id=name, head=pending[0]["admission_id"])
    if not claimed:
        return
    admission, generation = claimed["admission_id"], claimed["generation"]
    sessions.settle_session_input(
        db,
        epoch=epoch,
        admission_id=admission,
        generation=generation,
        outcome="completed",
        result={"by": process},
    )
    sys.stdout.write(json.dumps({"admission_id": admission, "generation": generation, "by": process}) + "\n")


def main() -> None:
    """Carry out the one order."""
    (process,) = sys.argv[1:]
    turns(json.loads(sys.stdin.readline()), process)


if __name__ == "__main__":
    main()
