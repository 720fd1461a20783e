"""Every state of an admission, and of a worker, against every operation that asks for an idle lineage."""

from typing import Any

import pytest

from fsm import sessions
from tests.sessions.mutating import IDLE, PAYLOADS, Desk
from tests.sessions.support import STATES

ADMISSION_REFUSES = {
    **dict.fromkeys(("queued", "behind", "started", "steering"), "session_busy"),
    "unknown": "unknown_execution",
}
"""In any other state the admission has ended, or there is none."""
WORKER_REFUSES = {"registered": "session_busy", "running": "session_busy", "unknown": "unknown_execution"}


def _lineage(desk: Desk) -> dict[str, str]:
    """Compress twice; return which session to name so that `s`, the oldest, or another one is in the way."""
    middle = desk.compressed()
    last = desk.compressed(session=middle)
    return {"s": "s", "middle": middle, "last": last}


def _payload(operation: str, message: int) -> Any:
    return {"target_message_id": message} if operation == "rewind" else None


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("operation", PAYLOADS)
def test_an_admission_in_the_way(desk: Desk, state: str, operation: str) -> None:
    """Whatever waits, runs or is unknown refuses what asks for idleness, and nothing else; no end does."""
    desk.owner.epoch = desk.owner.bring(state).epoch
    reason = ADMISSION_REFUSES.get(state) if operation in IDLE else None
    if reason is None:
        assert desk.mutate(operation)["operation"] == operation
        return
    with desk.owner.refuses(reason):
        desk.mutate(operation)


@pytest.mark.parametrize("status", ["registered", "running", "unknown", "terminal"])
@pytest.mark.parametrize("operation", PAYLOADS)
@pytest.mark.parametrize("reserved", [False, True])
def test_a_worker_in_the_way(desk: Desk, status: str, operation: str, *, reserved: bool) -> None:
    """A worker that has not ended refuses; a reset discards an unknown one first, unless an admission reserved it."""
    name = "admission-worker:w" if reserved else "w"
    desk.work(name, status)
    discarded = operation == "reset" and not reserved and status == "unknown"
    reason = WORKER_REFUSES.get(status) if operation in IDLE and not discarded else None
    if reason is None:
        assert desk.mutate(operation)["operation"] == operation
        expected = None if operation == "delete" else ("terminal" if discarded else status)
        assert desk.worker(name) == expected
        return
    with desk.owner.refuses(reason):
        desk.mutate(operation)


@pytest.mark.parametrize("kind", ["admission", "worker"])
@pytest.mark.parametrize("operation", sorted(IDLE))
@pytest.mark.parametrize("busy", ["s", "middle", "last"])
@pytest.mark.parametrize("named", ["s", "middle", "last"])
def test_the_whole_lineage_counts(desk: Desk, kind: str, operation: str, busy: str, named: str) -> None:
    """A worker anywhere in the lineage makes all of it busy; so does an input that is pending anywhere."""
    lineage = _lineage(desk)
    (message,) = desk.say("four", session=lineage["last"])
    if kind == "worker":
        desk.work("w", "running", lineage[busy])
    else:
        desk.owner.admit("r1", lineage[busy])
    with desk.owner.refuses("session_busy"):
        desk.mutate(operation, _payload(operation, message), lineage[named])


def test_what_is_unknown_comes_first(desk: Desk) -> None:
    """Where something is unknown and something else waits, the unknown is what a person has to look at."""
    desk.work("w", "unknown")
    desk.owner.admit()
    with desk.owner.refuses("unknown_execution"):
        desk.mutate("compress")


def test_a_reset_discards_throughout_the_lineage(desk: Desk) -> None:
    """Unknown executions of every session of the lineage are discarded, and their read copies shrink."""
    lineage = _lineage(desk)
    for name, session in lineage.items():
        desk.work(name, "unknown", session)
        desk.owner.execute(
            "INSERT INTO worker_receipts VALUES (:name, 1, 'd', :result)", name=name, result='{"messages":["secret"]}'
        )
    desk.mutate("reset", session=lineage["middle"])
    assert [desk.worker(name) for name in lineage] == ["terminal"] * 3
    assert {row["result_json"] for row in desk.owner.execute("SELECT result_json FROM worker_receipts")} == {
        '{"retired":true}'
    }


def test_a_refused_reset_has_discarded_nothing(desk: Desk) -> None:
    """Where the lineage is busy all the same, the executions that were to be discarded are unknown as before."""
    desk.work("w", "unknown")
    desk.owner.admit()
    with desk.owner.refuses("session_busy"):
        desk.mutate("reset")
    assert desk.worker("w") == "unknown"


def test_other_conversations_do_not_count(desk: Desk) -> None:
    """What a branch, a delegate or a session of its own is doing keeps nobody from anything but deleting them."""
    for source in ("branch", "delegate", "cli"):
        desk.owner.open(f"x-{source}", source=source, parent_session_id="s")
        desk.owner.admit("r", f"x-{source}")
    for operation in ("branch", "rewind", "reset"):
        assert desk.mutate(operation)["operation"] == operation


def test_a_busy_delegate_keeps_its_parent_from_being_deleted(desk: Desk) -> None:
    """What a deletion takes along must be idle too; a branch is not taken along."""
    desk.owner.open("d", source="delegate", parent_session_id="s")
    desk.owner.open("b", source="branch", parent_session_id="s")
    desk.owner.admit("r", "b")
    queued = desk.owner.admit("r", "d")
    with desk.owner.refuses("session_busy"):
        desk.mutate("delete")
    desk.owner.cancel(queued)
    assert desk.mutate("delete")["deleted_ids"] == ["s", "d"]
    assert sessions.get_session(desk.db, "b") is not None
