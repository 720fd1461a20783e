"""Turns: claimed in order and once, settled with all that their end sets off, and replayed whatever happened since."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.runtime.keys import RESULT_PREFIX
from storage import Row, Transaction
from tests.sessions.support import RESULT, Owner

OUTCOMES = ("completed", "interrupted", "rejected", "failed")


def stored_result(owner: Owner, admission: Any) -> Any:
    """Return the JSON value that is kept as an admission's result, or None."""
    rows = owner.execute(
        'SELECT "value" FROM state_meta WHERE "key" = :key', key=RESULT_PREFIX + admission["admission_id"]
    )
    return json.loads(str(rows[0]["value"])) if rows else None


# --- claiming


def test_inputs_are_claimed_in_the_order_of_their_numbers(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's order is that of admission, whatever the ids, and each claim has the session's next generation."""
    ids = iter(("y", "c", "x"))
    monkeypatch.setattr(owner.db, "new_id", lambda: next(ids))
    for request in ("z", "a", "m"):
        owner.admit(request)
    seen = []
    for _ in range(3):
        claimed = owner.claim()
        seen.append((claimed["request_id"], claimed["generation"], claimed["owner_epoch"]))
        owner.settle(claimed)
    assert seen == [("z", 1, 1), ("a", 2, 1), ("m", 3, 1)]
    assert owner.claim() is None
    assert owner.session()["runtime_generation"] == 3


def test_a_session_runs_one_turn_at_a_time(owner: Owner) -> None:
    """While a turn runs nothing else of its session is claimed, and another session's queue is not held up."""
    owner.open("t")
    owner.start()
    owner.admit("r2")
    owner.admit(session="t")
    with owner.changes_nothing():
        assert owner.claim() is None
    assert owner.claim("t")["target_session_id"] == "t"


def test_an_unknown_turn_holds_the_queue(owner: Owner) -> None:
    """Nothing is claimed until somebody has said what became of the turn before."""
    successor = owner.bring("unknown")
    successor.admit("r2")
    with successor.refuses("unknown_execution"):
        successor.claim()


@pytest.mark.parametrize(
    ("head", "answer"), [("id-1", "r1"), ("id-2", False), (None, False), ("none", False), (sessions.ANY_HEAD, "r1")]
)
def test_only_the_head_that_was_checked_is_claimed(owner: Owner, head: object, answer: object) -> None:
    """Where another input is first by now, nothing is claimed and the caller is told to look again."""
    owner.admit("r1")
    owner.admit("r2")
    before = owner.everything()
    claimed = owner.claim(head=head)
    assert (claimed["request_id"] if claimed else claimed) == answer
    assert claimed or owner.everything() == before


@pytest.mark.parametrize(("head", "answer"), [("id-1", False), (None, None), (sessions.ANY_HEAD, None)])
def test_an_empty_queue_is_told_from_another_head(owner: Owner, head: object, answer: object) -> None:
    """Whoever saw the queue empty, and whoever did not look, is told that there is nothing; the others look again."""
    with owner.changes_nothing():
        assert owner.claim(head=head) is answer


def test_a_running_turn_comes_before_the_head(owner: Owner) -> None:
    """While a turn runs there is nothing to claim, whichever head the caller saw."""
    owner.start()
    owner.admit("r2")
    assert owner.claim(head="other") is None


def test_the_mark_is_the_highest_message_at_the_claim(owner: Owner) -> None:
    """What the turn writes stands above the mark, whichever session's messages were there before."""
    owner.open("t")
    sessions.append_message(owner.db, "t", role="user", content="earlier")
    assert owner.start()["transcript_mark"] == 1
    assert "transcript_mark" not in sessions.list_session_admissions(owner.db, session_id="s")[0]
    written = sessions.append_message(owner.db, "s", role="assistant", content="later")
    assert written["id"] > 1


def test_a_guard_refuses_a_claim(owner: Owner) -> None:
    """The guard runs after the epoch and ahead of all else; what it raises is what the caller gets, without a trace."""

    def refuse(tx: Transaction) -> None:
        tx.execute("UPDATE sessions SET title = 'scribbled'")
        raise RuntimeStoreError("permission_denied")

    owner.admit()
    with owner.refuses("permission_denied"):
        owner.claim(guard=refuse)
    with owner.refuses("permission_denied"):
        owner.claim("nowhere", guard=refuse)
    with owner.refuses("stale_epoch"):
        Owner(owner.db, owner.clock, 2).claim(guard=refuse)


def test_what_a_guard_writes_stays_with_the_claim_alone(owner: Owner) -> None:
    """A guard's own row is stored with the claim, and undone where nothing is claimed."""
    mark: Callable[[Transaction], object] = lambda tx: tx.execute("UPDATE sessions SET title = 'seen'")  # noqa: E731 # a hook
    with owner.changes_nothing():
        assert owner.claim(guard=mark) is None
    owner.admit()
    with owner.changes_nothing():
        assert owner.claim(guard=mark, head="other") is False
    assert owner.claim(guard=mark)["status"] == "started"
    assert owner.session()["title"] == "seen"


# --- workers and lineage


def test_a_worker_makes_its_whole_lineage_busy(owner: Owner) -> None:
    """A worker at work anywhere in the lineage lets nothing be claimed, before or behind it; a branch is apart."""
    owner.open("s2", parent_session_id="s")
    owner.open("aside", parent_session_id="s", source="branch")
    sessions.end_session(owner.db, "s", reason="compression")
    for session in ("s", "s2", "aside"):
        owner.admit(session=session)
    owner.register("w", "s2", generation=0)
    with owner.changes_nothing():
        assert owner.claim("s") is None
        assert owner.claim("s2") is None
    assert owner.claim("aside")["status"] == "started"


@pytest.mark.parametrize("session", ["s", "s2"])
def test_an_unknown_worker_holds_its_whole_lineage(owner: Owner, session: str) -> None:
    """A worker that nobody knows about must be resolved before anything of its lineage is claimed."""
    owner.open("s2", parent_session_id="s")
    sessions.end_session(owner.db, "s", reason="compression")
    owner.register("w", "s2", generation=0)
    successor = owner.succeed()
    successor.recover()
    successor.admit(session=session)
    with successor.refuses("unknown_execution"):
        successor.claim(session)


@pytest.mark.parametrize("kind", ["compute", "child"])
def test_an_unknown_worker_comes_before_a_running_turn(owner: Owner, kind: str) -> None:
    """Where both stand in the way, the one that needs somebody to act is named; a child is over with its owner."""
    owner.register("w", generation=0, kind=kind)
    successor = owner.succeed()
    successor.recover()
    successor.admit("r0")
    successor.execute("UPDATE session_admissions SET status = 'started', owner_epoch = 2, generation = 0")
    if kind == "child":
        assert successor.claim() is None
    else:
        with successor.refuses("unknown_execution"):
            successor.claim()


# --- settling


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_turn_ends_as_its_owner_reports(owner: Owner, outcome: str) -> None:
    """Each outcome is stored with the result, the session's revision moves by one, and its generation stays."""
    claimed = owner.start()
    settled = owner.settle(claimed, outcome)
    assert (settled["status"], settled["outcome"], settled["generation"]) == ("terminal", outcome, 1)
    assert stored_result(owner, settled) == RESULT
    session = owner.session()
    assert (session["runtime_generation"], session["runtime_revision"]) == (1, 1)


def test_a_stored_result_is_under_its_own_key(owner: Owner) -> None:
    """A stored result: state_meta key `gateway.admission.result.v1.` + admission id; nothing for None."""
    owner.settle(owner.start(), result={"b": "é", "a": 1})
    key = "gateway.admission.result.v1.id-1"
    rows = owner.execute('SELECT "value" FROM state_meta WHERE "key" = :key', key=key)
    assert rows == [{"value": '{"a":1,"b":"é"}'}]
    without = owner.settle(owner.start("r2"), result=None)
    assert stored_result(owner, without) is None


def test_a_retry_returns_what_is_stored_whatever_happened_since(owner: Owner) -> None:
    """The exact retry of a settlement replays, whichever epoch settled it, and runs no hook."""
    claimed = owner.start()
    settled = owner.settle(claimed)
    owner.settle(owner.start("r2"), "failed")
    successor = owner.succeed()
    successor.recover()
    fail: Callable[..., object] = lambda *_: pytest.fail("a hook ran")  # noqa: E731 # a hook
    with owner.changes_nothing():
        assert successor.settle(claimed, terminal_write=fail, transfers={"id-2": False}) == settled
    for changes in ({"outcome": "failed"}, {"result": {"n": 2}}, {"result": None}, {"generation": 2}):
        with owner.refuses("stale_generation"):
            successor.settle(claimed, **changes)
    with owner.refuses("stale_epoch"):
        owner.settle(claimed)


def test_a_result_that_differs_in_spelling_alone_is_the_same(owner: Owner) -> None:
    """The retry is judged by content, not by the order of keys."""
    claimed = owner.start()
    settled = owner.settle(claimed, result={"a": 1, "b": [1, 2]})
    assert owner.settle(claimed, result={"b": (1, 2), "a": 1}) == settled


def test_a_claim_that_was_taken_over_settles_nothing(owner: Owner) -> None:
    """Neither an older epoch, nor an older generation, nor a session that has moved on lets a claim be settled."""
    claimed = owner.start()
    with owner.refuses("stale_generation"):
        owner.settle(claimed, generation=2)
    owner.execute("UPDATE sessions SET runtime_generation = 2")
    with owner.refuses("stale_generation"):
        owner.settle(claimed)
    owner.execute("UPDATE sessions SET runtime_generation = 1")
    owner.alter(owner_epoch=7)
    with owner.refuses("stale_generation"):
        owner.settle(claimed)


def test_the_workers_of_a_turn_end_with_it(owner: Owner) -> None:
    """The executions of the claim's generation end on its session and on the last of its lineage, and no others."""
    owner.open("s2", parent_session_id="s")
    claimed = owner.start()
    owner.alter(lineage_json='["s","s2"]')
    owner.register("own")
    insert = "INSERT INTO worker_executions VALUES (:id, :session, 'compute', :epoch, :generation, :status, 'd', 0)"
    for name, session, epoch, generation, status in (
        ("child", "s2", 1, 1, "running"),
        ("unknown", "s2", 1, 1, "unknown"),
        ("older", "s", 1, 0, "running"),
        ("of another epoch", "s", 2, 1, "running"),
        ("elsewhere", "t", 1, 1, "running"),
    ):
        owner.execute(insert, id=name, session=session, epoch=epoch, generation=generation, status=status)
    owner.settle(claimed)
    ended = {name for name, status in owner.workers().items() if status == "terminal"}
    assert ended == {"own", "child", "unknown"}


def test_what_a_worker_had_read_shrinks_with_its_end(owner: Owner) -> None:
    """A receipt result with `messages` or `session` is a read copy, and shrinks to {"retired": true}; others stay."""
    claimed = owner.start()
    owner.register("w")
    results = ['{"messages":[]}', '{"session":{}}', '{"count":1}', '{"value":true}']
    for sequence, result in enumerate(results, start=1):
        owner.execute("INSERT INTO worker_receipts VALUES ('w', :n, 'd', :result)", n=sequence, result=result)
    owner.settle(claimed)
    kept = [row["result_json"] for row in owner.everything()["worker_receipts"]]
    assert kept == ['{"retired":true}', '{"retired":true}', '{"count":1}', '{"value":true}']


@pytest.mark.parametrize("damage", ["{", "[]", "7", '["s",5]'])
def test_a_damaged_lineage_does_not_keep_a_turn_from_ending(owner: Owner, damage: str) -> None:
    """A turn ends, with the workers of its own session, though nobody can read which sessions continue it."""
    claimed = owner.start()
    owner.register("w")
    owner.alter(lineage_json=damage)
    assert owner.settle(claimed)["outcome"] == "completed"
    assert owner.workers() == {"w": "terminal"}


def test_the_owners_own_effect_sees_the_turn_before_its_end(owner: Owner) -> None:
    """`terminal_write` is handed the open transaction and a copy of the row, after the workers ended."""
    claimed = owner.start()
    owner.register("w")
    seen: list[Row] = []

    def write(tx: Transaction, row: Row) -> None:
        seen.append(dict(row))
        row["status"] = "queued"
        assert tx.execute("SELECT status FROM worker_executions") == [{"status": "terminal"}]
        assert tx.execute('SELECT * FROM state_meta WHERE "key" LIKE :k', {"k": f"{RESULT_PREFIX}%"}) == []
        tx.execute("UPDATE sessions SET title = 'ended'")

    owner.settle(claimed, terminal_write=write)
    assert (seen[0]["status"], seen[0]["admission_id"], seen[0]["payload_json"]) == (
        "started",
        "id-1",
        '{"text":"do r1"}',
    )
    assert owner.session()["title"] == "ended"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("function", ["settle", "resolve"])
def test_an_effect_that_moves_the_turn_itself_is_refused(owner: Owner, function: str) -> None:
    """The write that ends a turn changes one row or nothing: where a hook has moved it, all is as it was."""
    claimed = owner.start()
    current = owner
    if function == "resolve":
        current = owner.succeed()
        current.recover()
    with current.refuses("stale_generation"):
        getattr(current, function)(
            claimed, terminal_write=lambda tx, _: tx.execute("UPDATE session_admissions SET status = 'queued'")
        )


@pytest.mark.parametrize("function", ["settle", "resolve"])
def test_an_effect_that_raises_leaves_no_trace(owner: Owner, function: str) -> None:
    """Where `terminal_write` raises, workers, result, steered inputs, outcome and revision are all as they were."""
    claimed = owner.start("r0")
    owner.register("w")
    owner.steer(owner.admit("r1"))
    current = owner
    if function == "resolve":
        current = owner.succeed()
        current.recover()

    def refuse(tx: Transaction, _: Row) -> None:
        tx.execute("UPDATE sessions SET title = 'scribbled'")
        raise RuntimeStoreError("session_busy")

    with owner.refuses("session_busy"):
        getattr(current, function)(claimed, terminal_write=refuse)
