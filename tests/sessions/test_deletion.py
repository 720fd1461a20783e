"""Deleting a session: what goes, what is left, and who hears of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import storage
from fsm import sessions
from fsm.lifecycles.runtime_tables import EXECUTIONS, MODEL_USAGE, RECEIPTS, TURN_LEASES
from fsm.observers import SessionGoneEvent, Transition
from storage import Row
from tests.sessions.mutating import Desk, heard
from tests.sessions.support import Owner
from tests.world import dump

WORDS = "s3cret-words"
FINAL = ("completed", "interrupted", "rejected", "failed", "cancelled", "steered")


def _talked(desk: Desk, session: str) -> None:
    """Leave the user's words wherever a session can hold them."""
    desk.mutate("rename", {"title": f"{WORDS} title of {session}"}, session)
    _, second = desk.say(f"{WORDS} one", f"{WORDS} two", session=session)
    sessions.append_message(desk.db, session, role="user", content=[{"text": WORDS}], reasoning=WORDS)
    desk.mutate("rewind", {"target_message_id": second}, session)
    desk.owner.admit(f"ran-{session}", session, payload={"text": WORDS})
    desk.owner.settle(desk.owner.claim(session), result={"reply": WORDS})
    replaced = desk.owner.admit(f"replaced-{session}", session, payload={"text": WORDS})
    binding = sessions.replacement_binding("p", session, f"new-{session}")
    successor = desk.owner.admit(
        f"new-{session}",
        session,
        payload={"text": WORDS},
        authorize_write=lambda tx: sessions.retire_replaced_input(tx, replaced["admission_id"], binding),
    )
    desk.owner.cancel(successor)
    desk.work(f"w-{session}", "terminal", session)
    desk.owner.execute(
        f"INSERT INTO {RECEIPTS.name} VALUES (:name, 1, 'd', :result)",
        name=f"w-{session}",
        result=json.dumps({"said": WORDS}),
    )
    desk.owner.execute(
        f"INSERT INTO {MODEL_USAGE.name} (session_id, task, model) VALUES (:id, :task, 'm')", id=session, task=WORDS
    )
    desk.owner.execute(f"INSERT INTO {TURN_LEASES.name} VALUES (:id, :holder, 1.0, 2.0)", id=session, holder=WORDS)


def everything(desk: Desk) -> str:
    """Return every stored value of every table of the gateway."""
    return "\n".join(str(value) for rows in searched(desk).values() for row in rows for value in row.values())


def searched(desk: Desk) -> dict[str, list[Row]]:
    """Return the rows of every table of the gateway."""
    return {**desk.owner.everything(), **dump(desk.db)}


@pytest.mark.engines("sqlite")
def test_no_table_is_left_unsearched(desk: Desk) -> None:
    """The tables searched for a user's words are all that the database has."""
    found = desk.owner.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    assert {row["name"] for row in found} <= searched(desk).keys()


def test_no_word_of_the_user_is_left(desk: Desk) -> None:
    """Of a deleted lineage and its delegates no row of any table holds anything that the user said."""
    desk.owner.open("d", source="delegate", parent_session_id="s", title=WORDS)
    _talked(desk, "s")
    _talked(desk, "d")
    child = desk.mutate("compress", {"summary": f"{WORDS} summary", "keep_last": 2})["child_session_id"]
    _talked(desk, child)
    branch = desk.mutate("branch", {"title": f"{WORDS} branch"})["child_session_id"]
    assert WORDS in everything(desk)
    desk.mutate("delete", session=branch)
    assert WORDS in everything(desk)
    desk.mutate("delete")
    assert WORDS not in everything(desk)
    for table in ("sessions", "messages", "session_admissions", "worker_executions", "worker_receipts"):
        assert desk.owner.execute(f"SELECT * FROM {table}") == []


def test_a_message_removed_by_another_name_goes_with_its_session(desk: Desk) -> None:
    """A rewinding that named the lineage's first session keeps no word of the later one that was deleted since."""
    child = desk.compressed()
    (target,) = desk.say(WORDS, session=child)
    arguments = desk.arguments("rewind", {"target_message_id": target})
    first = desk.call(arguments)
    assert first["target_message"]["session_id"] == child
    desk.mutate("delete", session=child)
    assert WORDS not in everything(desk)
    assert desk.call(arguments) == {name: value for name, value in first.items() if name != "target_message"}


@pytest.mark.parametrize("escaped", ['quo"te', "per%cent", "under_score", "bang!", "back\\slash", "snow\N{SNOWMAN}"])
def test_receipts_are_found_whatever_the_id(desk: Desk, escaped: str) -> None:
    """An id with signs of SQL patterns or of JSON is found in the receipts, and no other id is."""
    for name in (escaped, escaped.replace("%", "x").replace("_", "x").replace("!", "x") + "y"):
        desk.owner.open(name)
        desk.mutate("rename", {"title": f"{WORDS} of {len(name)}"}, name)
    desk.mutate("delete", session=escaped)
    assert f"{WORDS} of {len(escaped)}" not in everything(desk)
    assert f"{WORDS} of {len(escaped) + 1}" in everything(desk)


def test_receipts_of_others_keep_their_texts(desk: Desk) -> None:
    """A text that reads like the id of a deleted session is no name of it."""
    desk.owner.open("t")
    arguments = desk.arguments("rename", {"title": "s"}, "t")
    first = desk.call(arguments)
    desk.mutate("delete")
    assert desk.call(arguments) == first


def test_a_damaged_receipt_goes_with_the_session(desk: Desk) -> None:
    """What names the session and does not decode may hold anything, and answers nobody."""
    key = "gateway.mutation.v1.damaged"
    without_digest = json.dumps({"result": {"session_id": "s", "title": WORDS}})
    for number, value in enumerate([f'{{"s": "{WORDS}"', f'{{"s": "{WORDS}"}}', without_digest]):
        desk.owner.execute("INSERT INTO state_meta VALUES (:key, :value)", key=f"{key}{number}", value=value)
    desk.mutate("delete")
    assert WORDS not in everything(desk)


@pytest.mark.parametrize("state", FINAL)
def test_the_exact_retry_of_what_had_ended_returns_its_end(desk: Desk, state: str) -> None:
    """Admitting again, with the same content, answers the terminal view with an empty payload."""
    desk.owner.bring(state)
    before: Any = sessions.find_session_admission(desk.db, principal_id="p", session_id="s", request_id="r1")
    desk.mutate("delete")
    with desk.owner.changes_nothing():
        assert desk.owner.admit("r1") == {**before, "payload": {}}
        assert sessions.get_session_admission(desk.db, admission_id=before["admission_id"]) == {
            **before,
            "payload": {},
        }
    assert before["outcome"] == state


def test_anything_else_on_a_deleted_session_is_refused(desk: Desk) -> None:
    """Anything else is not_found, or admission_conflict where an identity of it is asked for with other content."""
    desk.owner.settle(desk.owner.start())
    desk.mutate("delete")
    cases: dict[str, list[Callable[[], object]]] = {
        "not_found": [
            lambda: desk.owner.admit("r2"),
            desk.owner.claim,
            lambda: desk.say("more"),
            lambda: sessions.list_messages(desk.db, "s"),
            lambda: sessions.end_session(desk.db, "s", reason="over"),
            lambda: desk.mutate("rename"),
            lambda: desk.mutate("delete", expected_generation=0),
            lambda: desk.owner.open("c", parent_session_id="s"),
        ],
        "admission_conflict": [
            lambda: desk.owner.admit("r1", payload={"text": "other"}),
            lambda: desk.owner.admit("r1", intent="steer"),
            lambda: desk.owner.open("s"),
            lambda: desk.mutate("import"),
        ],
    }
    for reason, calls in cases.items():
        for each in calls:
            with desk.owner.refuses(reason):
                each()
    assert sessions.get_session(desk.db, "s") is None
    assert sessions.list_session_admissions(desk.db, session_id="s", pending_only=False) == []


def test_tombstones(desk: Desk) -> None:
    """A deletion leaves one of the session, one of each admission and of its identity, and one of each worker."""
    admission = desk.owner.settle(desk.owner.start())
    desk.work("w", "terminal")
    desk.mutate("delete")
    assert list(desk.kept("gateway.retired_session.v1.")) == ["gateway.retired_session.v1.s"]
    assert list(desk.kept("gateway.terminal_admission.v1.")) == [
        f"gateway.terminal_admission.v1.{admission['admission_id']}"
    ]
    assert [json.loads(each) for each in desk.kept("gateway.terminal_identity.v1.").values()] == [
        admission["admission_id"]
    ]
    assert list(desk.kept("gateway.terminal_worker.v1.")) == ["gateway.terminal_worker.v1.w"]
    assert desk.kept("gateway.admission.result.v1.") == {}


def test_what_a_deletion_takes_along(desk: Desk) -> None:
    """Later sessions of the lineage go, and delegates of each, with theirs; branches and other children stay."""
    second = desk.compressed()
    desk.owner.open("delegate-1", source="delegate", parent_session_id="s")
    desk.owner.open("delegate-2", source="delegate", parent_session_id=second)
    desk.owner.open("delegate-3", source="delegate", parent_session_id="delegate-1")
    later = desk.compressed(session="delegate-1")
    branch = desk.mutate("branch", {})["child_session_id"]
    desk.owner.open("delegate-4", source="delegate", parent_session_id=branch)
    desk.owner.open("another", parent_session_id="s")
    taken: list[Any] = []
    answer = desk.mutate("delete", live_guard=taken.append)
    gone = {"s", second, "delegate-1", "delegate-2", "delegate-3", later}
    assert set(answer["deleted_ids"]) == gone
    assert answer["deleted_ids"][0] == "s"
    assert taken == [answer["deleted_ids"]]
    left = {row["id"]: row["parent_session_id"] for row in desk.owner.execute("SELECT * FROM sessions")}
    assert left == {branch: None, "delegate-4": branch, "another": None}


def test_what_came_before_stays(desk: Desk) -> None:
    """Deleting the last of a lineage leaves the older ones, which are continued by nobody then."""
    child = desk.compressed()
    assert desk.mutate("delete", session=child)["deleted_ids"] == [child]
    assert desk.said("s") == ["one", "two", "three"]
    assert desk.mutate("rename", prepare_only=True)["snapshot"]["target"] == "s"


def test_a_deletion_with_foreign_keys(desk: Desk) -> None:
    """Nothing that stays names a deleted session, so that a gateway's own foreign keys are never broken."""
    desk.owner.open("d", source="delegate", parent_session_id="s")
    desk.owner.open("b", source="branch", parent_session_id="s")
    desk.owner.execute("CREATE TABLE watched (id TEXT PRIMARY KEY, session TEXT REFERENCES sessions(id))")
    desk.owner.execute("INSERT INTO watched VALUES ('w', 's')")
    with pytest.raises(storage.ConstraintError):
        desk.mutate("delete")
    assert desk.session("d") is not None
    desk.owner.execute("DELETE FROM watched")
    desk.mutate("delete")
    assert (desk.session("b") or {})["parent_session_id"] is None


def test_observers_hear_of_a_deletion_once(desk: Desk) -> None:
    """After the commit: each admission, worker and lease, then the sessions in one event; a retry tells nobody."""
    desk.owner.settle(desk.owner.start())
    desk.work("w", "terminal")
    desk.owner.execute(f"INSERT INTO {TURN_LEASES.name} VALUES ('s', 'h', 1.0, 2.0)")
    child = desk.compressed()
    arguments = desk.arguments("delete")
    with heard(desk.db) as events:
        desk.call(arguments)
        desk.call(arguments)
    moved = [(each.lifecycle, each.trigger, each.dest) for each in events if isinstance(each, Transition)]
    assert moved == [
        ("session_admission", "delete", "gone"),
        ("worker_execution", "delete", "gone"),
        ("session_turn_lease", "purge", "gone"),
    ]
    assert events[-1] == SessionGoneEvent(("s", child), "delete", "s", 1_000_000.0)
    assert len(events) == 4


def test_a_stranded_admission_keeps_the_session(desk: Desk) -> None:
    """What has no outcome yet, also where nothing runs that could give it one, is not deleted with its session."""
    desk.owner.bring("steering")
    desk.owner.execute("UPDATE session_admissions SET status = 'terminal', outcome = 'failed' WHERE status = 'started'")
    with desk.owner.refuses("session_busy"):
        desk.mutate("delete")


def test_a_worker_of_a_deleted_session_is_never_registered_again(owner: Owner, desk: Desk) -> None:
    """Its tombstone holds the execution's own facts, and nothing of its receipts or its secret."""
    desk.work("w", "terminal")
    desk.mutate("delete")
    (stored,) = desk.kept("gateway.terminal_worker.v1.").values()
    assert json.loads(stored) == {
        "execution_id": "w",
        "session_id": "s",
        "kind": "compute",
        "owner_epoch": owner.epoch,
        "generation": 0,
        "status": "terminal",
        "last_sequence": 0,
    }
    assert owner.execute(f"SELECT * FROM {EXECUTIONS.name}") == []
