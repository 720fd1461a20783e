"""Eight processes work off the queues of fifty sessions while they are being filled."""

import json
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Final

import pytest

from fsm import sessions
from fsm.errors import RuntimeStoreError
from storage import Database
from tests.faults.processes import children

pytestmark = pytest.mark.contention

PROCESSES: Final = 8
SESSIONS: Final = tuple(f"s{number}" for number in range(50))
EACH: Final = 40


def fill(db: Database) -> dict[str, list[str]]:
    """Admit 40 inputs to every session, more than a queue holds; return their ids in the order of admission."""
    admitted: dict[str, list[str]] = defaultdict(list)
    while any(len(admitted[name]) < EACH for name in SESSIONS):
        for name in SESSIONS:
            number = len(admitted[name])
            if number == EACH:
                continue
            with suppress(RuntimeStoreError):  # The queue is full until some of it has been worked off.
                view = sessions.admit_session_input(
                    db, epoch=1, principal_id="p", session_id=name, request_id=f"r{number}", payload={"n": number}
                )
                admitted[name].append(view["admission_id"])
    return admitted


def test_every_input_runs_exactly_once_and_in_order(db: Database) -> None:
    """2,000 inputs over 50 sessions, claimed and settled by 8 processes: each once, in order, none lost."""
    for name in SESSIONS:
        sessions.create_session(db, name, source="cli")
    sessions.begin_runtime_epoch(db, instance_id="all of them")
    names = [f"process {number}" for number in range(PROCESSES)]
    with children("tests.faults.turner", *((name,) for name in names)) as started:
        for child in started:
            child.tell(path=db.location, epoch=1, sessions=SESSIONS, total=EACH * len(SESSIONS))
        admitted = fill(db)
        told = [line for child in started for line in child.rest()]
    assert len(told) == len({line["admission_id"] for line in told}) == EACH * len(SESSIONS)
    by = {line["admission_id"]: line for line in told}
    results = db.read(lambda tx: tx.execute('SELECT "key", "value" FROM state_meta'))
    kept = {str(row["key"]).rpartition(".")[2]: json.loads(str(row["value"])) for row in results}
    for name in SESSIONS:
        stored = sessions.list_session_admissions(db, session_id=name, pending_only=False)
        assert [each["admission_id"] for each in stored] == admitted[name]
        assert [each["generation"] for each in stored] == list(range(1, EACH + 1))
        assert {each["outcome"] for each in stored} == {"completed"}
        assert [by[each["admission_id"]]["generation"] for each in stored] == list(range(1, EACH + 1))
        assert all(kept[each["admission_id"]] == {"by": by[each["admission_id"]]["by"]} for each in stored)
    assert len(Counter(line["by"] for line in told)) > 1, "the work was not shared"
