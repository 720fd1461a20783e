"""Admitting, looking up and cancelling: identity, content, the queue's limit, hooks, and what outlives a session."""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.runtime.keys import IDENTITY_PREFIX, TERMINAL_ADMISSION_PREFIX, identity_key
from fsm.runtime.machines import ADMISSION_MACHINE
from storage import Transaction
from tests.sessions.support import RESULT, Owner


def fingerprint(target: str, payload: Any) -> str:
    """Return the fingerprint of an input's content, worked out on its own."""
    text = json.dumps({"payload": payload, "target": target}, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def delete_session(owner: Owner, session: str = "s") -> None:
    """Delete a session whose inputs have all ended, as far as its admissions and its row go."""
    rows = owner.execute("SELECT admission_id FROM session_admissions WHERE target_session_id = :id", id=session)

    def delete(tx: Transaction) -> None:
        for row in rows:
            ADMISSION_MACHINE.fire(tx, "delete", now=1.0, admission_id=row["admission_id"])
        tx.execute("DELETE FROM sessions WHERE id = :id", {"id": session})

    owner.db.write(delete)


# --- identity and content


def test_a_new_input_is_queued(owner: Owner) -> None:
    """What is admitted is stored whole, under an id of the handle's making, and shown as it is stored."""
    admission = owner.admit(payload={"text": "é", "n": [1, None]}, intent="redirect")
    assert admission == {
        "seq": 1,
        "admission_id": "id-1",
        "request_id": "r1",
        "principal_id": "p",
        "target_session_id": "s",
        "intent": "redirect",
        "status": "queued",
        "outcome": None,
        "owner_epoch": 1,
        "generation": None,
        "payload": {"text": "é", "n": [1, None]},
    }
    row = owner.row()
    assert row is not None
    assert (row["payload_json"], row["lineage_json"]) == ('{"n":[1,null],"text":"é"}', '["s"]')


def test_the_digest_is_the_fingerprint_of_the_formats(owner: Owner) -> None:
    """Admission fingerprint: SHA-256 of the compact, sorted, non-ASCII JSON of payload and target."""
    owner.open('s"é')
    owner.admit(session='s"é', payload={"text": 'é"\\', "a": {"z": 1, "b": 2}}, intent="steer")
    row = owner.row(session='s"é')
    assert row is not None
    content = {"input": {"text": 'é"\\', "a": {"z": 1, "b": 2}}, "intent": "steer"}
    assert row["payload_digest"] == fingerprint('s"é', content)
    identity = IDENTITY_PREFIX + fingerprint("s", {"principal": "p", "request": "r"})
    assert identity_key("p", "s", "r") == identity


def test_neither_key_order_nor_the_sort_of_a_list_matters_to_the_retry(owner: Owner) -> None:
    """The same content in another spelling is the same request."""
    first = owner.admit(payload={"a": 1, "b": (1, 2)})
    with owner.changes_nothing():
        assert owner.admit(payload={"b": [1, 2], "a": 1}) == first


@pytest.mark.parametrize("changes", [{"principal_id": "q"}, {"request": "r2"}, {"session": "t"}])
def test_each_part_of_the_identity_counts(owner: Owner, changes: dict[str, Any]) -> None:
    """Another principal, session or request is another input, also with the same content."""
    owner.open("t")
    first = owner.admit(payload={})
    assert owner.admit(**{"payload": {}, **changes})["admission_id"] != first["admission_id"]


def test_an_input_needs_a_session(owner: Owner) -> None:
    """Without its session nothing is admitted, and nothing is found."""
    with owner.refuses("not_found"):
        owner.admit(session="t")
    assert sessions.list_session_admissions(owner.db, session_id="t", pending_only=False) == []


def test_an_id_that_is_taken_is_a_conflict(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle that makes an id twice overwrites nothing."""
    owner.admit()
    monkeypatch.setattr(owner.db, "new_id", lambda: "id-1")
    with owner.refuses("admission_conflict"):
        owner.admit("r2")


# --- the limit of the queue


def test_the_queue_holds_32(owner: Owner) -> None:
    """The 33rd queued input is refused; what has started, ended or stands elsewhere is not counted."""
    owner.open("t")
    owner.start("started")
    owner.cancel(owner.admit("cancelled"))
    for number in range(32):
        owner.admit(f"q{number}")
    with owner.refuses("queue_full"):
        owner.admit("one too many")
    assert owner.admit("q0")["request_id"] == "q0"
    assert owner.admit(session="t")["status"] == "queued"
    assert sessions.ADMISSION_QUEUE_MAX == 32


def test_the_limit_is_judged_after_the_hook(owner: Owner) -> None:
    """The queue's limit is judged after the hook, in the same transaction, so that a full queue takes a replacement."""
    replaced = [owner.admit(f"q{number}") for number in range(32)][7]
    binding = sessions.replacement_binding("p", "s", "new")

    def make_room(tx: Transaction) -> None:
        sessions.retire_replaced_input(tx, replaced["admission_id"], binding)

    assert owner.admit("new", authorize_write=make_room)["status"] == "queued"
    assert owner.state("q7") == "cancelled"
    with owner.refuses("queue_full"):
        owner.admit("newer", authorize_write=lambda tx: tx.execute("UPDATE sessions SET title = 'x'"))


# --- hooks


def test_the_hook_runs_for_a_new_input_alone(owner: Owner) -> None:
    """`authorize_write` sees no exact retry, which has been accepted; `replay_guard` sees nothing else."""
    heard: list[str] = []
    hooks: dict[str, Any] = {
        "authorize_write": lambda _: heard.append("new"),
        "replay_guard": lambda _: heard.append("retry"),
    }
    owner.admit("r1", **hooks)
    owner.admit("r1", **hooks)
    with owner.refuses("admission_conflict"):
        owner.admit("r1", payload={}, **hooks)
    assert heard == ["new", "retry"]


@pytest.mark.parametrize("hook", ["authorize_write", "replay_guard"])
def test_a_hook_that_raises_leaves_no_trace(owner: Owner, hook: str) -> None:
    """Whatever a hook wrote is rolled back with the call that it refuses, and its own error is what the caller gets."""
    if hook == "replay_guard":
        owner.admit()

    def refuse(tx: Transaction) -> None:
        tx.execute("UPDATE sessions SET title = 'scribbled'")
        raise RuntimeStoreError("permission_denied", field="principal_id", detail="not yours")

    with owner.refuses("permission_denied"):
        owner.admit("r1", "s", **{hook: refuse})


@pytest.mark.parametrize("hook", ["authorize_write", "replay_guard"])
def test_what_a_hook_writes_is_stored_with_the_call(owner: Owner, hook: str) -> None:
    """A hook may write rows of its own in the transaction of the call that it allows."""
    if hook == "replay_guard":
        owner.admit()
    owner.admit("r1", "s", **{hook: lambda tx: tx.execute("UPDATE sessions SET title = :t", {"t": "seen"})})
    assert owner.session()["title"] == "seen"


def test_a_hook_cannot_commit(owner: Owner) -> None:
    """A hook that tries to end the transaction is refused, and nothing of the call is stored."""
    with owner.changes_nothing(), pytest.raises(Exception, match="must not commit"):
        owner.admit(authorize_write=lambda tx: tx.execute("COMMIT"))


def test_an_error_of_another_kind_comes_through_as_it_is(owner: Owner) -> None:
    """A hook's own mistake is not dressed up as a refusal."""
    with owner.changes_nothing(), pytest.raises(ZeroDivisionError):
        owner.admit(authorize_write=lambda _: 1 / 0)


# --- looking up


def test_what_is_found_and_listed_is_what_is_stored(owner: Owner) -> None:
    """Each way of reading shows the same view; a list shows what has not ended, or all, in the queue's order."""
    first, second = owner.admit("r1"), owner.admit("r2")
    third = owner.cancel(owner.admit("r3"))
    assert sessions.get_session_admission(owner.db, admission_id="id-1") == first
    assert sessions.find_session_admission(owner.db, principal_id="p", session_id="s", request_id="r2") == second
    assert sessions.find_session_admission(owner.db, principal_id="q", session_id="s", request_id="r2") is None
    assert sessions.get_session_admission(owner.db, admission_id="none") is None
    assert sessions.list_session_admissions(owner.db, session_id="s") == [first, second]
    assert sessions.list_session_admissions(owner.db, session_id="s", pending_only=False) == [first, second, third]


DAMAGES = ["{", "[1]", '{"a":NaN}', "", pytest.param("\x00", marks=pytest.mark.engines("sqlite")), "1" + "0" * 5000]


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_row_stops_nothing_else(owner: Owner, damage: str) -> None:
    """A payload that cannot be decoded is listed with its reason; it is not claimed, and can be cancelled."""
    damaged, other = owner.admit("r1"), owner.admit("r2")
    owner.alter("r1", payload_json=damage)
    listed = sessions.list_session_admissions(owner.db, session_id="s")
    assert (listed[0]["payload"], "stored payload" in listed[0]["corrupt"], listed[1]) == (None, True, other)
    for read in (
        lambda: sessions.get_session_admission(owner.db, admission_id=damaged["admission_id"]),
        lambda: sessions.find_session_admission(owner.db, principal_id="p", session_id="s", request_id="r1"),
        owner.claim,
    ):
        with owner.refuses("storage_unavailable"):
            read()
    assert owner.admit("r1")["corrupt"]
    assert owner.cancel(damaged)["outcome"] == "cancelled"
    assert owner.claim()["request_id"] == "r2"


# --- what outlives a session


def test_the_retry_of_a_settled_input_outlives_its_session(owner: Owner) -> None:
    """After a deletion the exact retry returns the end, with an empty payload, and neither hook runs."""
    admission = owner.start()
    settled = owner.settle(admission)
    delete_session(owner)
    hooks: dict[str, Any] = dict.fromkeys(("authorize_write", "replay_guard"), lambda _: pytest.fail("a hook ran"))
    with owner.changes_nothing():
        assert owner.admit("r1", "s", **hooks) == {**settled, "payload": {}}
        assert sessions.get_session_admission(owner.db, admission_id="id-1") == {**settled, "payload": {}}
        assert owner.settle(admission) == {**settled, "payload": {}}
        assert owner.cancel(settled) == {**settled, "payload": {}}
        assert owner.resolve(settled) == {**settled, "payload": {}}


def test_anything_else_on_a_deleted_session_is_refused(owner: Owner) -> None:
    """Other content under the same identity conflicts; what was never asked finds nothing."""
    admission = owner.start()
    owner.settle(admission)
    delete_session(owner)
    with owner.refuses("admission_conflict"):
        owner.admit(payload={"text": "something else"})
    with owner.refuses("admission_conflict"):
        owner.admit(intent="steer")
    with owner.refuses("not_found"):
        owner.admit("r2")
    with owner.refuses("not_found"):
        owner.claim()
    for changes in ({"outcome": "failed"}, {"result": {"n": 2}}, {"result": None}, {"generation": 2}):
        with owner.refuses("not_found"):
            owner.settle(admission, **changes)
    with owner.refuses("stale_generation"):
        owner.resolve(admission, generation=2)
    with owner.refuses("admission_started"):
        owner.steer(admission)
    with owner.refuses("stale_epoch"):
        Owner(owner.db, owner.clock, 7).admit()


def test_a_steered_input_outlives_its_session(owner: Owner) -> None:
    """The retry of a transfer that was made says so, also when the session is gone."""
    owner.bring("steered")
    row = owner.row()
    delete_session(owner)
    assert row is not None
    view, delivered = owner.steer(row)
    assert (view["outcome"], view["payload"], delivered) == ("steered", {}, False)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("damage", ["{", "[]", "{}", "5", "[" * 9999, r'"\ud800"'])
@pytest.mark.parametrize("prefix", [TERMINAL_ADMISSION_PREFIX, IDENTITY_PREFIX])
def test_a_damaged_tombstone_answers_nobody(owner: Owner, prefix: str, damage: str) -> None:
    """What is left of a deleted session's input and does not decode is storage_unavailable, never a raw error."""
    admission = owner.start()
    owner.settle(admission)
    delete_session(owner)
    owner.execute("UPDATE state_meta SET value = :damage WHERE key LIKE :keys", damage=damage, keys=f"{prefix}%")
    calls: list[Callable[[], object]] = [owner.admit]
    if prefix == TERMINAL_ADMISSION_PREFIX:
        calls += [lambda: sessions.get_session_admission(owner.db, admission_id="id-1")]
        calls += [partial(call, admission) for call in (owner.settle, owner.cancel, owner.steer, owner.resolve)]
    for call in calls:
        with owner.refuses("storage_unavailable"):
            call()


def test_a_tombstone_holds_no_word_of_the_user(owner: Owner) -> None:
    """Neither payload nor result stays anywhere, and the identity's key is a digest."""
    owner.settle(owner.start(), result={"text": "s3cret"})
    owner.cancel(owner.admit("r2", payload={"text": "s3cret"}))
    delete_session(owner)
    stored = json.dumps(owner.everything())
    assert "s3cret" not in stored
    assert "do r1" not in stored
    keys = [str(row["key"]) for row in owner.everything()["state_meta"]]
    assert sorted(key for key in keys if key.startswith(TERMINAL_ADMISSION_PREFIX)) == [
        f"{TERMINAL_ADMISSION_PREFIX}id-{n}" for n in (1, 2)
    ]
    assert len(keys) == 4
    assert RESULT not in (json.loads(str(row["value"])) for row in owner.everything()["state_meta"])
