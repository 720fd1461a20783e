"""Remote-run receipts: one execution of a task is bound to one run for ever."""

from typing import Any

import pytest

from fsm import rooms
from fsm.lifecycles.tables import REMOTE_RUNS
from fsm.rooms import HostedRoomError
from tests.rooms.peers import Peers, receipt
from tests.world import START

OTHER_KEYS: dict[str, Any] = {
    "room_id": "attic",
    "member_id": "bob",
    "target_profile": "other",
    "authority_gateway_id": "gw9",
    "authority_epoch": 3,
    "home_install_id": "install:other",
    "target_install_id": "install:other",
    "task_id": "t2",
    "execution_generation": 2,
}


def stored(at: float = START, touched: float | None = None, **changes: Any) -> dict[str, Any]:
    """Return a receipt as it is stored at an instant and confirmed at another."""
    return {**receipt(**changes), "created_at": at, "updated_at": at if touched is None else touched}


def test_a_receipt_is_read_as_it_was_stored(peers: Peers) -> None:
    """Every field comes back, with the instant of the call; further fields of the record are ignored."""
    peers.bind(colour="red", created_at=5, updated_at="never")
    assert rooms.remote_run_receipt(peers.db, record=receipt()) == stored()
    assert peers.receipts() == [stored()]


def test_an_exact_retry_keeps_what_is_stored(peers: Peers) -> None:
    """Binding the same run again moves `updated_at` alone."""
    peers.bind()
    peers.clock.advance(5)
    peers.bind()
    assert peers.receipts() == [stored(touched=START + 5)]


@pytest.mark.parametrize("changes", [{"run_id": "run-2"}, {"session_id": "session 2"}, {"run_id": " run-1"}])
def test_an_execution_has_one_run(peers: Peers, changes: dict[str, Any]) -> None:
    """Binding an execution to another run or session is refused, and nothing is written."""
    peers.bind()
    peers.clock.advance(5)
    with peers.refuses(HostedRoomError):
        peers.bind(**changes)


@pytest.mark.parametrize("name", OTHER_KEYS)
def test_every_part_of_the_key_tells_executions_apart(peers: Peers, name: str) -> None:
    """A record that differs in any one of the nine parts is another execution, with a run of its own."""
    other = {name: OTHER_KEYS[name]}
    peers.bind()
    assert rooms.remote_run_receipt(peers.db, record=receipt(**other)) is None
    peers.bind(**other, run_id="run-2")
    found = rooms.remote_run_receipt(peers.db, record=receipt(**other))
    assert found == stored(**other, run_id="run-2")
    assert rooms.remote_run_receipt(peers.db, record=receipt()) == stored()


def test_the_key_is_the_whole_lineage() -> None:
    """The nine parts above are the table's key."""
    assert set(REMOTE_RUNS.primary_key) == set(OTHER_KEYS)


def test_a_receipt_is_found_by_its_key_alone(peers: Peers) -> None:
    """To ask, neither run nor session need be known."""
    peers.bind()
    key = {name: value for name, value in receipt().items() if name in OTHER_KEYS}
    assert rooms.remote_run_receipt(peers.db, record=key) == stored()


def test_receipts_are_listed_in_the_order_of_their_tasks(peers: Peers) -> None:
    """First by the instant of their making, then by task, then by execution; the rest of the key decides last."""
    for at, task, generation, member in (
        (2, "a", 1, "ann"),
        (1, "b", 2, "ann"),
        (1, "b", 1, "bob"),
        (1, "b", 1, "ann"),
        (1, "a", 9, "ann"),
    ):
        record = receipt(task_id=task, execution_generation=generation, member_id=member)
        rooms.upsert_remote_run_receipt(peers.db, record=record, now=at)
    found = [
        (each["created_at"], each["task_id"], each["execution_generation"], each["member_id"])
        for each in peers.receipts()
    ]
    assert found == sorted(found)
    assert len(found) == 5


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({}, {"t1", "t2", "t3", "t4"}),
    "a room": ({"room_id": "attic"}, {"t2"}),
    "a profile": ({"target_profile": "other"}, {"t3"}),
    "a session": ({"session_id": "session 9"}, {"t4"}),
    "a room and a profile": ({"room_id": "room", "target_profile": "helper"}, {"t1", "t4"}),
    "all three": ({"room_id": "room", "target_profile": "helper", "session_id": "session 1"}, {"t1"}),
    "what is not there": ({"room_id": "cellar"}, set()),
    "stripped": ({"room_id": " attic "}, {"t2"}),
    "a session as it is": ({"session_id": " session 9"}, set()),
}


@pytest.mark.parametrize("case", FILTERS)
def test_receipts_of_a_room_profile_or_session(peers: Peers, case: str) -> None:
    """Each filter that is given must hold; None is no filter."""
    peers.bind()
    peers.bind(task_id="t2", room_id="attic")
    peers.bind(task_id="t3", target_profile="other")
    peers.bind(task_id="t4", session_id="session 9")
    filters, tasks = FILTERS[case]
    missing = dict.fromkeys({"room_id", "target_profile", "session_id"} - filters.keys())
    assert {each["task_id"] for each in peers.receipts(**filters, **missing)} == tasks


def test_the_clock_may_step_back(peers: Peers) -> None:
    """A retry at an earlier instant says so: the column tells when the call was last made, and fences nothing."""
    peers.bind()
    peers.clock.advance(-5)
    peers.bind()
    assert peers.receipts() == [stored(touched=START - 5)]
