"""Rehoming and retargeting: a queue moves in its order, with its identities, or not at all."""

from collections.abc import Iterator
from typing import Any

import pytest

from fsm import sessions
from tests.sessions.support import Owner
from tests.sessions.test_admitting import fingerprint


def rehome(owner: Owner, old: str = "s", new: str = "t", prefix: str = "p") -> list[str]:
    """Move what is queued."""
    return sessions.rehome_queued_inputs(
        owner.db, epoch=owner.epoch, old_session_id=old, new_session_id=new, principal_prefix=prefix
    )


def retarget(owner: Owner, old: Any = ("old",), new: str = "t", principal: str = "bot") -> list[str]:
    """Point queued automations at another transcript."""
    return sessions.retarget_local_automation(
        owner.db, epoch=owner.epoch, session_id="s", principal_id=principal, old_targets=old, new_target=new
    )


def automate(owner: Owner, request: str, target: Any = "old", **changes: Any) -> sessions.AdmissionView:
    """Admit an automation that names a transcript."""
    payload = {"text": "x", "local_automation_v1": {"target": target, "kind": "dm"}}
    return owner.admit(request, principal_id="bot", **{"payload": payload, **changes})


@pytest.fixture
def two(owner: Owner) -> Owner:
    """An owner of the sessions `s` and `t`."""
    owner.open("t")
    return owner


# --- rehoming


def test_a_queue_moves_in_its_order(two: Owner) -> None:
    """Queued inputs of the principals move with id, number and retry; each session's revision moves by one."""
    moved = [
        two.admit(request, principal_id=principal) for request, principal in (("b", "p"), ("a", "p:2"), ("c", "p"))
    ]
    stays = two.admit("d", principal_id="q")
    assert rehome(two) == [each["admission_id"] for each in moved]
    listed = sessions.list_session_admissions(two.db, session_id="t")
    assert [{**each, "target_session_id": "s"} for each in listed] == moved
    assert sessions.list_session_admissions(two.db, session_id="s") == [stays]
    assert (two.session("s")["runtime_revision"], two.session("t")["runtime_revision"]) == (1, 1)
    with two.changes_nothing():
        assert rehome(two) == []


def test_a_moved_input_is_retried_where_it_is(two: Owner) -> None:
    """Its digest is of its new session, so that the exact retry there finds it, and it is claimed there."""
    first = two.admit()
    rehome(two)
    row = two.row(session="t")
    assert row is not None
    assert row["payload_digest"] == fingerprint("t", {"input": {"text": "do r1"}, "intent": "queue"})
    assert row["lineage_json"] == '["t"]'
    assert two.admit(session="t")["admission_id"] == first["admission_id"]
    assert two.claim("t")["admission_id"] == first["admission_id"]


def test_only_what_is_queued_moves(two: Owner) -> None:
    """A running turn stays where it runs, and so does what has ended or been taken along."""
    two.start("r0")
    two.steer(two.admit("r1"))
    two.cancel(two.admit("r2"))
    queued = two.admit("r3")
    assert rehome(two) == [queued["admission_id"]]
    assert [two.state(request) for request in ("r0", "r1", "r2")] == ["started", "steering", "cancelled"]


def test_nothing_moves_while_a_turn_is_unknown(two: Owner) -> None:
    """An unknown turn holds its queue, for the operator to decide."""
    successor = two.bring("unknown")
    successor.admit("r2")
    with successor.changes_nothing():
        assert rehome(successor) == []


def test_moving_to_itself_is_nothing(two: Owner) -> None:
    """Rehoming to the same session is a no-op: it returns [] and bumps no revision."""
    two.admit()
    with two.changes_nothing():
        assert rehome(two, new="s") == []
    with two.refuses("not_found"):
        rehome(two, old="x", new="x")


def test_a_collision_moves_nothing(two: Owner) -> None:
    """A collision while rehoming is admission_conflict, never an integrity error, and nothing moves."""
    two.admit("r1")
    two.admit("r2")
    two.cancel(two.admit("r2", "t"))
    with two.refuses("admission_conflict"):
        rehome(two)


def test_a_queue_needs_a_new_home_and_no_old_one(two: Owner) -> None:
    """The new session must be there; of an old one that never was there is nothing to move."""
    two.admit()
    with two.refuses("not_found"):
        rehome(two, new="nowhere")
    with two.changes_nothing():
        assert rehome(two, old="nowhere") == []
    with two.refuses("stale_epoch"):
        rehome(Owner(two.db, two.clock, 2))


@pytest.mark.parametrize("prefix", ["%", "_", "P", "p:"])
def test_a_prefix_is_taken_letter_by_letter(two: Owner, prefix: str) -> None:
    """A prefix is no pattern, and its case counts."""
    two.admit(principal_id="p")
    assert rehome(two, prefix=prefix) == []


def test_a_damaged_payload_moves_along(two: Owner) -> None:
    """A row that nobody can decode keeps its place in the queue that moves, and its digest is of what is stored."""
    two.admit()
    two.alter(payload_json="{")
    assert rehome(two) == ["id-1"]
    assert two.state(session="t") == "queued"


# --- retargeting


def test_automations_follow_the_transcript(two: Owner) -> None:
    """Order, ids and all else of the payload stay; the digest is of the new payload, the revision moves by one."""
    first, second = automate(two, "b"), automate(two, "a", "older")
    assert retarget(two, ["old", "older"]) == [first["admission_id"], second["admission_id"]]
    view = sessions.get_session_admission(two.db, admission_id=first["admission_id"])
    payload = {"text": "x", "local_automation_v1": {"target": "t", "kind": "dm"}}
    assert view == {**first, "payload": payload}
    row = two.row("b")
    assert row is not None
    assert row["payload_digest"] == fingerprint("s", {"input": payload, "intent": "queue"})
    assert two.session()["runtime_revision"] == 1
    assert automate(two, "b", payload=payload)["admission_id"] == first["admission_id"]
    with two.changes_nothing():
        assert retarget(two) == []


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"local_automation_v1": None},
        {"local_automation_v1": []},
        {"local_automation_v1": {}},
        {"local_automation_v1": {"target": ["old"]}},
        {"local_automation_v1": {"target": "other"}},
        {"target": "old"},
    ],
)
def test_what_names_no_old_transcript_stays(two: Owner, payload: Any) -> None:
    """Only an object that names one of the old targets is changed."""
    automate(two, "r1", payload=payload)
    with two.changes_nothing():
        assert retarget(two) == []


def test_another_principals_automation_stays(two: Owner) -> None:
    """The principal is matched exactly."""
    automate(two, "r1")
    with two.changes_nothing():
        assert retarget(two, principal="bo") == []


def test_the_target_that_it_has_is_no_change(two: Owner) -> None:
    """Retargeting automation at the target it has is a no-op: it returns none and bumps no revision."""
    automate(two, "r1", "t")
    with two.changes_nothing():
        assert retarget(two, ["old", "t"]) == []


def test_targets_are_taken_once(two: Owner) -> None:
    """The targets are read once, so that an iterator of them does as well as a list."""
    automate(two, "r1")

    def targets() -> Iterator[str]:
        yield "older"
        yield "old"

    assert len(retarget(two, targets())) == 1


def test_no_automation_moves_while_a_turn_is_unknown(two: Owner) -> None:
    """An unknown turn holds its queue here too."""
    successor = two.bring("unknown")
    automate(successor, "r2")
    with successor.changes_nothing():
        assert retarget(successor) == []


def test_an_automation_needs_the_new_transcript(two: Owner) -> None:
    """The session that is named must be there."""
    automate(two, "r1")
    with two.refuses("not_found"):
        retarget(two, new="nowhere")


def test_one_damaged_payload_keeps_no_other_back(two: Owner) -> None:
    """A row that nobody can decode is passed over."""
    automate(two, "r1")
    second = automate(two, "r2")
    two.alter("r1", payload_json="{")
    assert retarget(two) == [second["admission_id"]]
