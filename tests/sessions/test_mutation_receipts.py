"""Exact retries of mutations, hooks, and calls that are prepared first."""

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.lifecycles.runtime_tables import META
from storage import Transaction
from tests.sessions.mutating import FENCED, IDLE, PAYLOADS, Desk, heard

REMEMBERED = "INSERT INTO state_meta (key, value) VALUES (:key, 'x')"


def _nothing(desk: Desk) -> None:
    """Nothing happens in between."""


def _renamed(desk: Desk) -> None:
    if desk.session():
        desk.mutate("rename")


def _busy(desk: Desk) -> None:
    if desk.session():
        desk.owner.admit()


def _unknown(desk: Desk) -> None:
    if desk.session():
        desk.owner.start()
        desk.owner.epoch = desk.owner.succeed().epoch
        desk.owner.recover()


def _another_epoch(desk: Desk) -> None:
    desk.owner.epoch = desk.owner.succeed().epoch


def _deleted(desk: Desk) -> None:
    if desk.session():
        desk.mutate("delete")


SINCE: dict[str, Callable[[Desk], None]] = {
    "nothing": _nothing,
    "renamed": _renamed,
    "busy": _busy,
    "unknown": _unknown,
    "another epoch": _another_epoch,
    "deleted": _deleted,
}
TEXTS = {"title", "summary", "target_message"}


@pytest.mark.parametrize("since", SINCE)
@pytest.mark.parametrize("operation", PAYLOADS)
def test_an_exact_retry_returns_what_is_stored(desk: Desk, operation: str, since: str) -> None:
    """Whatever happened since, the retry answers as the first call did, and writes nothing; no hook runs.

    Once the session is deleted, the user's own words are no longer part of the answer.
    """
    arguments = desk.arguments(operation)
    first = desk.call(arguments)
    SINCE[since](desk)
    expected = first if since != "deleted" else {name: first[name] for name in first if name not in TEXTS}
    hooks = {"live_guard": _refusing, "authorize_write": _refusing}
    with desk.owner.changes_nothing():
        assert desk.call({**arguments, "epoch": desk.owner.epoch, **hooks}) == expected
        assert desk.call({**arguments, "epoch": desk.owner.epoch, "prepare_only": True}) == expected


def _refusing(_: object) -> None:
    raise RuntimeStoreError("permission_denied")


@pytest.mark.parametrize("operation", PAYLOADS)
def test_a_retry_of_an_older_epoch_is_stale(desk: Desk, operation: str) -> None:
    """A session call's epoch is checked before its replay."""
    arguments = desk.arguments(operation)
    desk.call(arguments)
    desk.owner.succeed()
    with desk.owner.refuses("stale_epoch"):
        desk.call(arguments)


OTHERS: list[dict[str, Any]] = [
    {"payload": {"title": "yet another"}},
    {"operation": "archive", "payload": {"archived": True}},
    {"expected_revision": 2},
    {"expected_generation": 0},
]


@pytest.mark.parametrize("changes", OTHERS)
def test_another_request_under_the_same_identity_conflicts(desk: Desk, changes: dict[str, Any]) -> None:
    """A retry with anything else than the first call is admission_conflict, and writes nothing."""
    arguments = desk.arguments("rename")
    desk.call(arguments)
    with desk.owner.refuses("admission_conflict"):
        desk.call({**arguments, **changes})


@pytest.mark.parametrize("changes", [{"principal_id": "q"}, {"request_id": "other"}])
def test_another_identity_is_another_request(desk: Desk, changes: dict[str, Any]) -> None:
    """The identity is principal, session and request; nobody else's receipt answers."""
    arguments = desk.arguments("rename")
    desk.call(arguments)
    with desk.owner.refuses("revision_conflict"):
        desk.call({**arguments, **changes})


def test_key_order_and_tuples_do_not_matter(desk: Desk) -> None:
    """The digest is of the payload's canonical JSON."""
    arguments = desk.arguments("model", {"model": "m", "provider": "p"})
    assert desk.call(arguments) == desk.call({**arguments, "payload": {"provider": "p", "model": "m"}})


def test_the_caller_may_change_its_payload_in_a_hook(desk: Desk) -> None:
    """What is done and digested is what was handed over when the call began."""
    payload = {"title": "as asked"}
    arguments = desk.arguments("rename", payload)
    desk.call({**arguments, "authorize_write": lambda _: payload.update(title="changed")})
    assert (desk.session() or {})["title"] == "as asked"
    assert desk.call({**arguments, "payload": {"title": "as asked"}})["title"] == "as asked"


def test_the_first_answer_is_the_round_trip(desk: Desk) -> None:
    """The answer is the JSON round trip both times, so that nothing of the caller's is shared with it."""
    first = desk.mutate("rename")
    (stored,) = (
        json.loads(value)["result"] for value in desk.kept("gateway.mutation.v1.").values() if "other" in value
    )
    assert first == stored


# --- the receipt's own functions


def _identity(arguments: dict[str, Any]) -> tuple[str, str]:
    names = ("principal_id", "session_id", "request_id", "operation", "payload")
    counters = ("expected_revision", "expected_generation")
    return sessions.mutation_receipt_key(**{name: arguments[name] for name in (*names, *counters)})


@pytest.mark.parametrize("operation", PAYLOADS)
def test_a_receipt_is_found_by_what_was_asked(desk: Desk, operation: str) -> None:
    """The key and digest of a request lead to its answer, to None before it came, and another digest conflicts."""
    arguments = desk.arguments(operation)
    key, digest = _identity(arguments)
    assert desk.db.write(lambda tx: sessions.replay_mutation_receipt(tx, key, digest)) is None
    answer = desk.call(arguments)
    assert desk.db.read(lambda tx: sessions.replay_mutation_receipt(tx, key, digest)) == answer
    with desk.owner.refuses("admission_conflict"):
        desk.db.write(lambda tx: sessions.replay_mutation_receipt(tx, key, "other"))


def test_the_format_of_a_receipt() -> None:
    """The key is a prefix and a fingerprint of the identity; the generation counts only where it is given."""
    asked = {"operation": "rename", "payload": {"title": "é"}, "expected_revision": 3}
    key, digest = sessions.mutation_receipt_key("p", "s", "r", **asked)
    assert key == "gateway.mutation.v1.2904125fb2295df8e524ffe6630eff0cd15414bc957604e43d8a2f4888036e71"
    assert digest == "299a1092d57adcc82f4a39e852c2f7e1afc2912c88412d513d73a074d29555db"
    assert digest != sessions.mutation_receipt_key("p", "s", "r", **asked, expected_generation=0)[1]
    assert (key, digest) == sessions.mutation_receipt_key("p", "s", "r", **asked, expected_generation=None)


@pytest.mark.parametrize("value", ["", "no JSON", "[]", "{}", '{"digest": "d"}'])
def test_a_damaged_receipt_answers_nobody(desk: Desk, value: str) -> None:
    """A receipt that does not decode is storage_unavailable: the call was made, and nobody can say how it ended."""
    arguments = desk.arguments("rename")
    desk.owner.execute(f"INSERT INTO {META.name} VALUES (:key, :value)", key=_identity(arguments)[0], value=value)
    with desk.owner.refuses("storage_unavailable"):
        desk.call(arguments)
    with desk.owner.refuses("storage_unavailable"):
        desk.db.read(lambda tx: sessions.replay_mutation_receipt(tx, *_identity(arguments)))


# --- hooks


def _writing(tx: Transaction) -> None:
    tx.execute(REMEMBERED, {"key": "of the hook"})


@pytest.mark.parametrize("operation", PAYLOADS)
def test_a_hook_that_raises_leaves_no_trace(desk: Desk, operation: str) -> None:
    """Whatever it raises is raised, and what it wrote is undone with all the rest."""

    def fail(tx: Transaction) -> None:
        _writing(tx)
        raise LookupError("of the hook")

    before = desk.owner.everything()
    with heard(desk.db) as events, pytest.raises(LookupError, match="of the hook"):
        desk.mutate(operation, authorize_write=fail)
    with pytest.raises(RuntimeStoreError) as refusal:
        desk.mutate(operation, live_guard=_refusing)
    assert refusal.value.reason == "permission_denied"
    assert desk.owner.everything() == before
    assert events == []


@pytest.mark.parametrize("operation", PAYLOADS)
def test_a_hook_writes_with_the_mutation(desk: Desk, operation: str) -> None:
    """What a hook writes commits with the call, once; hooks are asked in order, with what the call is about."""
    asked: list[object] = []

    def authorize(tx: Transaction) -> None:
        asked.append("authorize_write")
        _writing(tx)

    arguments = desk.arguments(operation, live_guard=asked.append, authorize_write=authorize)
    desk.call(arguments)
    desk.call(arguments)
    assert asked == [["s"], "authorize_write"]
    assert list(desk.kept("of the hook")) == ["of the hook"]


@pytest.mark.parametrize("operation", sorted(PAYLOADS.keys() - {"import"}))
def test_a_call_that_the_engine_runs_again_leaves_one_trace(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Where the engine runs the whole body again, rows, receipt, hook and events are there once."""
    real = desk.db.write
    runs = []

    def twice(body: Callable[[Transaction], Any]) -> Any:
        def lost(tx: Transaction) -> Any:
            body(tx)
            runs.append("lost")
            raise sqlite3.OperationalError("lost against another transaction")

        with pytest.raises(sqlite3.OperationalError):
            real(lost)
        return real(body)

    revision = (desk.session() or {})["runtime_revision"]
    arguments = desk.arguments(operation, authorize_write=_writing)
    receipts = len(desk.kept("gateway.mutation.v1."))
    monkeypatch.setattr(desk.db, "write", twice)
    with heard(desk.db) as events:
        desk.call(arguments)
    monkeypatch.setattr(desk.db, "write", real)
    assert runs == ["lost"]
    assert len(desk.kept("gateway.mutation.v1.")) == receipts + 1
    assert list(desk.kept("of the hook")) == ["of the hook"]
    assert len(events) == (operation in {"delete", "archive"})
    row = desk.session()
    assert (row is None) == (operation == "delete")
    assert row is None or row["runtime_revision"] == revision + 1


def test_hooks_come_after_the_fences_and_before_the_question_of_idleness(desk: Desk) -> None:
    """A stale caller's hooks do not run; a busy session's do, for they may refuse for a better reason."""
    desk.owner.admit()
    with desk.owner.refuses("revision_conflict"):
        desk.mutate("reset", expected_revision=9, authorize_write=_refusing)
    with desk.owner.refuses("permission_denied"):
        desk.mutate("reset", authorize_write=_refusing)
    with desk.owner.refuses("session_busy"):
        desk.mutate("reset", authorize_write=_writing)


# --- prepared calls


@pytest.mark.parametrize("operation", PAYLOADS)
def test_preparing_writes_nothing(desk: Desk, operation: str) -> None:
    """`prepare_only` answers target, generation and revision, and not even what a hook wrote stays."""
    asked: list[object] = []
    arguments = desk.arguments(operation, prepare_only=True, live_guard=asked.append, authorize_write=_writing)
    with desk.owner.changes_nothing(), heard(desk.db) as events:
        assert desk.call(arguments) == {"snapshot": {"target": "s", "generation": 0, "revision": 1}}
    assert events == []
    assert asked == [["s"]]


@pytest.mark.parametrize("operation", PAYLOADS)
def test_what_was_prepared_commits_while_it_holds(desk: Desk, operation: str) -> None:
    """The snapshot of a call, handed over with the same call, lets it through and stands in its receipt nowhere."""
    arguments = desk.arguments(operation)
    snapshot = desk.call({**arguments, "prepare_only": True})["snapshot"]
    first = desk.call({**arguments, "prepared": snapshot})
    assert desk.call(arguments) == first


def test_the_target_is_where_the_lineage_ends(desk: Desk) -> None:
    """A snapshot is of the session in which the conversation goes on, whichever of the lineage was named."""
    child = desk.compressed()
    desk.mutate("rename", session=child)
    desk.owner.open("d", source="delegate", parent_session_id="s")
    desk.compressed(session="d")
    expected = {"target": child, "generation": 0, "revision": 1}
    for named in ("s", child):
        for operation in sorted(PAYLOADS.keys() - {"import"}):
            assert desk.mutate(operation, session=named, prepare_only=True)["snapshot"] == expected


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target": "t"}, "stale_generation"),
        ({"generation": 1}, "stale_generation"),
        ({"revision": 0}, "revision_conflict"),
        ({"revision": 2}, "revision_conflict"),
    ],
)
@pytest.mark.parametrize("operation", PAYLOADS)
def test_what_was_prepared_must_still_hold(desk: Desk, operation: str, changes: dict[str, Any], reason: str) -> None:
    """Another target or generation is stale_generation, another revision revision_conflict; nothing is written."""
    snapshot = desk.mutate(operation, prepare_only=True)["snapshot"]
    with desk.owner.refuses(reason):
        desk.mutate(operation, prepared={**snapshot, **changes})


def test_a_target_that_has_moved_on_is_stale(desk: Desk) -> None:
    """The named session may stand as it stood: what counts is also where the conversation goes on."""
    child = desk.compressed()
    snapshot = desk.mutate("branch", {}, prepare_only=True)["snapshot"]
    desk.compressed(session=child)
    with desk.owner.refuses("stale_generation"):
        desk.mutate("branch", {}, prepared=snapshot)


@pytest.mark.parametrize("operation", sorted(IDLE))
def test_only_a_branch_is_prepared_for_an_idle_session(desk: Desk, operation: str) -> None:
    """Whoever prepares a branch starts servers for it next, so that its idleness is asked at once."""
    desk.owner.admit()
    if operation == "branch":
        with desk.owner.refuses("session_busy"):
            desk.mutate(operation, prepare_only=True)
    else:
        assert desk.mutate(operation, prepare_only=True)["snapshot"]["target"] == "s"


@pytest.mark.parametrize("operation", PAYLOADS)
def test_preparing_asks_for_the_fences(desk: Desk, operation: str) -> None:
    """Preparing is refused for the same epoch, revision, generation and session as the call itself."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"epoch": 9}, "stale_epoch"),
        ({"expected_revision": 9}, "revision_conflict"),
    ]
    if operation in FENCED:
        cases.append(({"expected_generation": 9}, "stale_generation"))
    for changes, reason in cases:
        with desk.owner.refuses(reason):
            desk.mutate(operation, prepare_only=True, **changes)
    generation = 0 if operation in FENCED else None
    with desk.owner.refuses("not_found"):
        desk.mutate(operation, _named(operation), "nowhere", prepare_only=True, expected_generation=generation)


def _named(operation: str) -> Any:
    return {"sessions": [{"session": {"id": "nowhere"}, "messages": []}]} if operation == "import" else None
