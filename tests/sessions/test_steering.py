"""Steering and replacing: an input is taken along at most once, and what becomes of it the claim's end decides."""

from typing import Any

import pytest

from fsm import sessions
from fsm.runtime.keys import REPLACEMENT_PREFIX
from storage import Transaction
from tests.sessions.support import Owner
from tests.sessions.test_admitting import fingerprint

OUTCOMES = ("completed", "interrupted", "rejected", "failed")


def taken_along(owner: Owner, *requests: str) -> tuple[Any, list[Any]]:
    """Start a turn, and let it take these inputs along."""
    running = owner.start("r0")
    return running, [owner.steer(owner.admit(request))[0] for request in requests]


def deliver(owner: Owner, transfers: Any, outcome: str = "completed", generation: int = 1) -> None:
    """Settle transfers in a transaction of the caller's own."""
    claim = {"epoch": owner.epoch, "generation": generation}
    owner.db.write(lambda tx: sessions.settle_steer_transfers(tx, **claim, transfers=transfers, outcome=outcome))


def replace(owner: Owner, admission: Any, request: str = "r2", **changes: Any) -> Any:
    """Admit a successor that retires an input, as its owner does."""
    binding = sessions.replacement_binding("p", "s", request)

    def retire(tx: Transaction) -> None:
        sessions.retire_replaced_input(tx, admission["admission_id"], binding)

    def check(tx: Transaction) -> None:
        sessions.check_replaced_input(tx, admission["admission_id"], binding)

    return owner.admit(request, authorize_write=retire, replay_guard=check, **changes)


# --- steering


def test_an_input_is_bound_to_the_claim_that_takes_it_along(owner: Owner) -> None:
    """It leaves the queue and its limit, and carries the claim's epoch and generation until the claim ends."""
    _, (taken,) = taken_along(owner, "r1")
    assert (taken["status"], taken["outcome"], taken["owner_epoch"], taken["generation"]) == (
        "terminal",
        "steering",
        1,
        1,
    )
    assert [each["request_id"] for each in sessions.list_session_admissions(owner.db, session_id="s")] == ["r0"]


def test_a_second_request_delivers_nothing(owner: Owner) -> None:
    """The exact retry says that it was not this call, also once the claim has ended in a delivery."""
    running, (taken,) = taken_along(owner, "r1")
    with owner.changes_nothing():
        assert owner.steer(taken) == (taken, False)
        assert owner.steer(taken, generation=9) == (taken, False)
    owner.settle(running, transfers={taken["admission_id"]: True})
    view, delivered = owner.steer(taken)
    assert (view["outcome"], delivered) == ("steered", False)


@pytest.mark.parametrize("way", ["another session's", "another generation's", "another epoch's"])
def test_only_the_running_claim_of_the_session_takes_along(owner: Owner, way: str) -> None:
    """A claim of another session, generation or epoch takes nothing along: the session counts as idle."""
    owner.open("t")
    owner.start("r0", "t" if way == "another session's" else "s")
    if way == "another epoch's":
        owner.alter("r0", owner_epoch=9)
    admission = owner.admit("r1")
    with owner.refuses("session_idle"):
        owner.steer(admission, generation=2 if way == "another generation's" else 1)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_claims_end_decides(owner: Owner, outcome: str) -> None:
    """Delivered and completed: steered. Delivered and ended otherwise: interrupted. Undelivered: back in its place."""
    running, (first, second) = taken_along(owner, "r1", "r2")
    owner.admit("r3")
    owner.settle(running, outcome, transfers={first["admission_id"]: True, second["admission_id"]: False})
    assert owner.state("r1") == ("steered" if outcome == "completed" else "interrupted")
    row = owner.row("r2")
    assert row is not None
    assert (owner.state("r2"), row["generation"], row["outcome"]) == ("queued", None, None)
    assert owner.claim()["request_id"] == "r2"


def test_what_the_settlement_leaves_out_is_interrupted(owner: Owner) -> None:
    """What the transfers leave out is interrupted, for it may have been delivered; a later revert returns False."""
    running, (left, named) = taken_along(owner, "r1", "r2")
    owner.settle(running, transfers={named["admission_id"]: True})
    assert (owner.state("r1"), owner.state("r2")) == ("interrupted", "steered")
    assert revert(owner, left) is False


@pytest.mark.parametrize("column", ["target_session_id", "owner_epoch", "generation"])
def test_what_is_bound_to_another_claim_is_left_alone(owner: Owner, column: str) -> None:
    """Only what is bound to the settled claim, on its own session, ends with it."""
    running, _ = taken_along(owner, "r1")
    owner.open("t")
    value = "t" if column == "target_session_id" else 7
    owner.execute(f"UPDATE session_admissions SET {column} = :value WHERE request_id = 'r1'", value=value)
    owner.settle(running)
    assert [row["outcome"] for row in owner.everything()["session_admissions"]] == ["completed", "steering"]


def revert(owner: Owner, admission: Any, generation: int = 1) -> bool:
    """Put an input back that did not reach its claim."""
    return sessions.revert_steer_input(
        owner.db, epoch=owner.epoch, admission_id=admission["admission_id"], generation=generation
    )


def test_a_reverted_input_is_in_its_place_again(owner: Owner) -> None:
    """It goes back to where its number puts it, once; a second call finds it queued and changes nothing."""
    _, (taken,) = taken_along(owner, "r1")
    owner.admit("r2")
    assert revert(owner, taken) is True
    with owner.changes_nothing():
        assert revert(owner, taken) is False
    pending = sessions.list_session_admissions(owner.db, session_id="s")
    assert [each["request_id"] for each in pending] == ["r0", "r1", "r2"]
    assert owner.steer(taken)[1] is True


def test_a_lost_claim_interrupts_what_steered_to_it(owner: Owner) -> None:
    """Recovery ends it, since its text may have been delivered; nothing of it is ever run again."""
    _, (taken,) = taken_along(owner, "r1")
    successor = owner.succeed()
    assert successor.recover() == 1
    assert (owner.state("r1"), revert(successor, taken)) == ("interrupted", False)


def test_a_claim_resolved_as_unknown_interrupts_what_was_steering_towards_it(owner: Owner) -> None:
    """A claim resolved as unknown interrupts what was steering towards it."""
    running, _ = taken_along(owner, "r1")
    owner.alter("r0", status="unknown")
    owner.resolve(running)
    assert (owner.state("r0"), owner.state("r1")) == ("interrupted", "interrupted")


def test_transfers_end_in_a_transaction_of_the_callers_own(owner: Owner) -> None:
    """`settle_steer_transfers` ends what is bound to the claim it names, and repeating it changes nothing."""
    _, (taken, other) = taken_along(owner, "r1", "r2")
    deliver(owner, {taken["admission_id"]: True, "unheard of": True})
    assert (owner.state("r1"), owner.state("r2")) == ("steered", "steering")
    with owner.changes_nothing():
        deliver(owner, {taken["admission_id"]: False})
        deliver(owner, {other["admission_id"]: True}, generation=2)
        deliver(owner, None)
        deliver(owner, {})


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"status": "terminal", "outcome": "steering"}, True),
        ({"status": "terminal", "outcome": "steered"}, True),
        ({"status": "terminal", "outcome": "interrupted"}, False),
        ({"status": "queued", "outcome": "steered"}, False),
        ({"status": "nonsense", "outcome": None}, False),
    ],
)
def test_a_transfer_that_was_made_is_told_by_its_row(row: Any, answer: bool) -> None:
    """`steer_replayed` reads a view or a row of an admission, whatever else it holds."""
    assert sessions.steer_replayed({**row, "payload": {}}) is answer


# --- replacing


def test_a_successor_takes_the_place_at_the_end(owner: Owner) -> None:
    """The replaced input is cancelled in the transaction that admits its successor at the tail of the queue."""
    first = owner.admit("r1")
    owner.admit("r1b")
    successor = replace(owner, first)
    assert (owner.state("r1"), successor["seq"]) == ("cancelled", 3)
    with owner.changes_nothing():
        assert replace(owner, first) == successor


def test_the_binding_is_a_key_of_the_formats(owner: Owner) -> None:
    """The binding is the prefix and the fingerprint of (session; principal, request), and holds the replaced id."""
    replaced = owner.admit("r1")
    replace(owner, replaced)
    key = REPLACEMENT_PREFIX + fingerprint("s", {"principal": "p", "request": "r2"})
    assert sessions.replacement_binding("p", "s", "r2") == key
    assert owner.execute('SELECT "value" FROM state_meta WHERE "key" = :key', key=key) == [{"value": '"id-1"'}]


def test_the_retry_of_a_replacement_answers_that_request_alone(owner: Owner) -> None:
    """Another input named as the replaced one is a conflict, and so is a retry that replaced nothing."""
    first, other = owner.admit("r1"), owner.admit("other")
    replace(owner, first)
    with owner.refuses("admission_conflict"):
        replace(owner, other)
    plain = owner.admit("plain")
    with owner.refuses("admission_conflict"):
        replace(owner, first, "plain", payload=plain["payload"])


@pytest.mark.engines("sqlite")
def test_a_damaged_binding_answers_nobody(owner: Owner) -> None:
    """A binding that does not decode is storage_unavailable: nobody can say what the request had replaced."""
    first = owner.admit("r1")
    replace(owner, first)
    owner.execute("UPDATE state_meta SET value = 'r1'")
    with owner.refuses("storage_unavailable"):
        replace(owner, first)


@pytest.mark.parametrize("state", ["started", "completed", "cancelled"])
def test_only_a_queued_input_is_replaced(owner: Owner, state: str) -> None:
    """What has left the queue is not replaced, and its successor is not admitted."""
    owner.bring(state)
    with owner.refuses("admission_started"):
        replace(owner, owner.row())


def test_what_was_never_there_is_not_replaced(owner: Owner) -> None:
    """An unknown id is not found, and its successor is not admitted."""
    with owner.refuses("not_found"):
        replace(owner, {"admission_id": "none"})
