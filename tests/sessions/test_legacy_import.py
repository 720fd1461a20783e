"""Admissions of an older gateway: what is taken over of its rows, and what is refused."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import predicate
from fsm.runtime.machines import ADMISSION_MACHINE
from tests.engines import Engine
from tests.sessions.legacy import row, take, write
from tests.sessions.mutating import Desk
from tests.sessions.support import Owner

STATES = {state.name: state for state in ADMISSION_MACHINE.lifecycle.states}
DECLARED = {
    ("queued", None, None): "queued",
    ("started", None, 3): "unknown",
    ("started", None, None): "unknown",
    ("unknown", None, 3): "unknown",
    ("terminal", "completed", 3): "completed",
    ("terminal", "interrupted", 3): "interrupted",
    ("terminal", "rejected", 3): "rejected",
    ("terminal", "failed", 0): "failed",
    ("terminal", "cancelled", None): "cancelled",
    ("terminal", "steered", 3): "steered",
}
UNDECLARED: list[tuple[Any, Any, Any]] = [
    *(("queued", "completed", None), ("queued", None, 3), ("started", "completed", 3), ("unknown", "failed", 3)),
    *(("terminal", None, 3), ("terminal", "steering", 3), ("terminal", "other", 3), ("terminal", "queued", None)),
    *(("other", None, None), (None, None, None), (1, None, None), ("Queued", None, None), ("terminal", 1, 3)),
    *(("completed", None, 3), ("steering", None, 3)),
]


@pytest.mark.parametrize("stored", DECLARED)
def test_each_declared_state_is_taken_over(owner: Owner, old: Path, stored: tuple[Any, Any, Any]) -> None:
    """Queued, unknown and any final state are taken; what was started there is unknown, in a generation of its own."""
    status, outcome, generation = stored
    write(old, [row(status=status, outcome=outcome, generation=generation)])
    assert take(owner, old) == 1
    taken = owner.row("a1") or {}
    assert owner.state("a1") == DECLARED[stored]
    expected = 1 if status == "started" and generation is None else generation
    assert (taken["generation"], taken["owner_epoch"]) == (expected, owner.epoch)
    assert owner.session()["runtime_generation"] == (expected or 0)


@pytest.mark.parametrize("stored", UNDECLARED)
def test_what_is_no_declared_state_is_refused(owner: Owner, old: Path, stored: tuple[Any, Any, Any]) -> None:
    """Any other combination of status, outcome and generation is invalid_params, and nothing is imported."""
    status, outcome, generation = stored
    write(old, [row("good"), row(status=status, outcome=outcome, generation=generation)])
    with owner.refuses("invalid_params"):
        take(owner, old)


@settings(max_examples=60)
@given(
    status=st.sampled_from(["queued", "started", "unknown", "terminal", "steering", "other", "", None]),
    outcome=st.sampled_from([None, None, "completed", "cancelled", "steering", "steered", "x"]),
    generation=st.none() | st.integers(0, 3),
)
def test_whatever_is_taken_over_is_in_a_declared_state(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory, status: Any, outcome: Any, generation: Any
) -> None:
    """Every combination is either refused and leaves nothing, or stored in exactly one state that it satisfies."""
    db = engine.fresh(clock=lambda: 1.0)
    epoch = sessions.begin_runtime_epoch(db, instance_id="one")
    sessions.create_session(db, "s", source="cli")
    path = tmp_path_factory.mktemp("old") / "p.db"
    write(path, [row(status=status, outcome=outcome, generation=generation)], journal="memory")
    arguments: dict[str, Any] = {"epoch": epoch, "principal_id": "p", "writers_drained": True}
    with contextlib.suppress(RuntimeStoreError):
        sessions.import_legacy_session_admissions(db, source_path=path, **arguments)
    rows = db.read(lambda tx: tx.execute("SELECT * FROM session_admissions"))
    marked = db.read(lambda tx: tx.execute("SELECT * FROM state_meta"))
    assert len(rows) == len(marked)
    for stored in rows:
        state = STATES[ADMISSION_MACHINE.state_of(stored, now=1.0)]
        assert predicate(state.requires)(stored, {})


def test_content_identity_and_order(owner: Owner, old: Path) -> None:
    """The id is the request too, the principal is the caller's, content is digested anew, the queue keeps its order."""
    payloads = ['{"text": "one", "intent": "steer"}', '{"text": "two", "intent": "interrupt"}', '{"text": "three"}']
    rows = [row(f"a{number}", payload=payload, seq=9 - number) for number, payload in enumerate(payloads)]
    write(old, rows)
    assert take(owner, old, principal_id="legacy") == 3
    views = sessions.list_session_admissions(owner.db, session_id="s")
    assert [(each["admission_id"], each["intent"]) for each in views] == [
        ("a2", "queue"),
        ("a1", "redirect"),
        ("a0", "steer"),
    ]
    assert {each["principal_id"] for each in views} == {"legacy"}
    assert [each["request_id"] for each in views] == ["a2", "a1", "a0"]
    retried = owner.admit("a2", principal_id="legacy", payload={"text": "three"})
    assert retried["admission_id"] == "a2"
    claimed = owner.claim()
    assert (claimed["admission_id"], claimed["payload"]) == ("a2", {"text": "three"})


def test_a_lineage_leads_to_its_end(desk: Desk, old: Path) -> None:
    """What stood on a session that was compressed since goes to where it goes on, with the lineage as it is now."""
    child = desk.compressed()
    write(old, [row(), row("a2", status="unknown")], executions=[("s", 7)])
    take(desk.owner, old)
    taken = desk.owner.row("a1", child) or {}
    assert json.loads(str(taken["lineage_json"])) == ["s", child]
    assert (desk.owner.row("a2", child) or {})["generation"] == 8
    assert (desk.session(child) or {})["runtime_generation"] == 8
    assert (desk.session() or {})["runtime_generation"] == 1


def test_generations_never_go_back(owner: Owner, old: Path) -> None:
    """A session that is further than the file stays where it is."""
    owner.settle(owner.start())
    write(old, [row(status="terminal", outcome="failed", generation=0)], executions=[("s", 1)])
    take(owner, old)
    assert owner.session()["runtime_generation"] == 1


@pytest.mark.engines("sqlite")
def test_the_greatest_generation_leaves_room_for_turns(owner: Owner, old: Path) -> None:
    """A session goes on from the greatest generation that is taken, also for a turn that had none."""
    write(old, [row(status="started"), row("a2")], executions=[("s", 2**62)])
    take(owner, old)
    owner.resolve(owner.row("a1"))
    assert owner.claim()["generation"] == 2**62 + 2


DEEP = "[" * 9999
WRONG_ROWS: dict[str, list[Any]] = {
    "payload": [
        *("no JSON", "[]", "1", None, 5, b"{}", DEEP, '{"n": NaN}', '{"a": "\\ud800"}', '{"a": "\\u0000"}'),
    ],
    "lineage": ["no JSON", "{}", "[]", '["t"]', None, 5, '"s"', DEEP],
    "admission_id": [None, "", 5, "x" * 1025, b"a"],
    "target_session_id": [None, "", 5],
    "root": [None, "", 5, "x" * 1025],
    "generation": [-1, 1.5, "1", b"1", 2**62 + 1, 2**63 - 1],
}


def _wrong() -> Iterator[Any]:
    for column, values in WRONG_ROWS.items():
        for number, value in enumerate(values):
            yield pytest.param(column, value, id=f"{column}-{number}")


@pytest.mark.parametrize(("column", "value"), list(_wrong()))
def test_a_row_that_does_not_decode(owner: Owner, old: Path, column: str, value: object) -> None:
    """Bad JSON and values of wrong types are invalid_params, never a raw error, and nothing is imported."""
    changes: dict[str, Any] = {"status": "unknown"} if column == "generation" else {}
    write(old, [row("good"), {**row(), **changes, column: value}])
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.parametrize("intent", ["other", 5, None, [], "Queue"])
def test_an_unknown_intent(owner: Owner, old: Path, intent: object) -> None:
    """An intent is queue, steer, redirect or interrupt."""
    write(old, [row(payload=json.dumps({"intent": intent}))])
    with owner.refuses("invalid_params"):
        take(owner, old)


@pytest.mark.parametrize(
    "executions", [[("s", -1)], [("s", None)], [("s", "1")], [(None, 1)], [("", 1)], [("s", 1.5)], [("s", 2**63 - 1)]]
)
def test_a_wrong_execution(owner: Owner, old: Path, executions: list[tuple[Any, Any]]) -> None:
    """A root is a text, a generation a count."""
    write(old, [row()], executions=executions)
    with owner.refuses("invalid_params"):
        take(owner, old)
