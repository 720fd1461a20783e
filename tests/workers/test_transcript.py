"""Appending to a transcript and reading it: rows that are there already, whose turn it is, and what a worker sees."""

from typing import Any

import pytest

from fsm import sessions, workers
from tests import bad_input as bad
from tests.workers.support import Works
from tests.world import START


@pytest.fixture
def working(works: Works) -> Works:
    """A registered worker, beside a second session."""
    works.register()
    works.owner.open("t")
    return works


def message(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": text, **fields}


def append(works: Works, *messages: Any, **given: Any) -> dict[str, Any]:
    """Append messages."""
    return works.do("transcript.append", {"messages": list(messages), **given})


def transcript(works: Works, session: str = "s") -> list[Any]:
    """Return the transcript as the library shows it."""
    return [dict(each) for each in sessions.list_messages(works.db, session)]


def test_messages_are_stored_in_their_order_with_every_field(working: Works) -> None:
    """Each message is a row of the transcript, its further fields beside it; what is null is left out."""
    tool = {"role": "tool", "content": [{"type": "text", "text": "é"}], "tool_call_id": "c1", "timestamp": 7}
    answer = append(working, message("one", reasoning=None), tool, {"role": "system"})
    assert answer == {
        "count": 3,
        "annotations": [
            {"_row_id": 1, "timestamp": START},
            {"_row_id": 2, "timestamp": 7.0},
            {"_row_id": 3, "timestamp": START},
        ],
    }
    assert transcript(working) == [
        {"id": 1, "session_id": "s", "timestamp": START, **message("one")},
        {"id": 2, "session_id": "s", **tool},
        {"id": 3, "session_id": "s", "role": "system", "content": None, "timestamp": START},
    ]


def test_a_row_of_the_transcript_is_adopted_and_not_stored_again(working: Works) -> None:
    """A message that names a row of this transcript is that row; only the others are counted and stored."""
    append(working, message("one"), message("two"))
    working.owner.clock.advance(5)
    answer = append(working, message("other words", _row_id=1), message("three"), message("two", _row_id=2))
    assert answer == {
        "count": 1,
        "annotations": [
            {"_row_id": 1, "timestamp": START},
            {"_row_id": 3, "timestamp": START + 5},
            {"_row_id": 2, "timestamp": START},
        ],
    }
    assert [each["content"] for each in transcript(working)] == ["one", "two", "three"]


def test_a_row_that_is_null_means_absent(working: Works) -> None:
    """`_row_id: null` in an appended message means that it has none."""
    assert append(working, message(_row_id=None))["count"] == 1
    assert transcript(working)[0]["id"] == 1
    assert "_row_id" not in transcript(working)[0]


@pytest.mark.parametrize("row_id", [2, 99, 0, -1, 2**63 - 1])
def test_a_row_of_another_transcript_is_refused(working: Works, row_id: int) -> None:
    """A message may name no row but the transcript's own, and then nothing of the call is stored."""
    append(working, message("one"))
    sessions.append_message(working.db, "t", role="user", content="theirs")
    with working.refuses("permission_denied"):
        append(working, message("new"), message(_row_id=row_id))


@pytest.mark.parametrize(
    ("state", "refused"),
    [("free", False), ("own", False), ("another's", True), ("another's expired", False)],
)
def test_an_append_may_name_whose_turn_it_is(working: Works, state: str, refused: bool) -> None:
    """An append that names a holder while another's lease is live is permission_denied."""
    if state != "free":
        working.do("turn.acquire", {"holder": "h" if state == "own" else "g", "ttl_seconds": 60})
    if state.endswith("expired"):
        working.owner.clock.advance(60)
    if refused:
        with working.refuses("permission_denied"):
            append(working, message(), turn_lease_holder="h")
    else:
        assert append(working, message(), turn_lease_holder="h")["count"] == 1
    assert append(working, message(), turn_lease_holder=None)["count"] == 1
    assert append(working, message())["count"] == 1


def test_whose_turn_it_is_holds_for_the_lineage(working: Works) -> None:
    """The turn that is asked for is that of the whole conversation."""
    working.do("turn.acquire", {"holder": "g"})
    working.finish()
    sessions.end_session(working.db, "s", reason="compression")
    working.owner.open("s2", parent_session_id="s")
    working.register("w2", session_id="s2")
    with working.refuses("permission_denied"):
        working.do("transcript.append", {"messages": [], "turn_lease_holder": "h"}, worker="w2", session_id="s2")


def test_a_thousand_messages_are_the_most(working: Works) -> None:
    """1000 messages are taken at once, and no more; none at all are taken too."""
    assert append(working, *[message("x")] * 1000)["count"] == 1000
    with working.refuses("invalid_params"):
        append(working, *[message("x")] * 1001)
    revision = working.revision()
    assert append(working) == {"count": 0, "annotations": []}
    assert working.revision() == revision


NO_HOLDERS: list[Any] = [1, True, "", " ", [], {}, "x" * 1025]
NO_MESSAGES: list[Any] = [None, 1, "x", [], {}, {"content": "x"}]
NO_ROLES: list[Any] = [None, 1, "", "User", "developer", []]
NO_ROWS: list[Any] = ["1", 1.0, True, [], {}]
NO_TIMES: list[Any] = ["1", True, [], {}]
NO_ROWS_TO_READ: list[Any] = [None, "1", 1.0, True, 0, [], {}]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"messages": None},
        {"messages": {}},
        {"messages": "hello"},
        {"messages": [], "colour": "red"},
        *({"messages": [], "turn_lease_holder": value} for value in NO_HOLDERS),
        *({"messages": [value]} for value in NO_MESSAGES),
        *({"messages": [message(), value]} for value in (message(colour=1), message(id=1), message(extra_json="{}"))),
        *({"messages": [{"role": value}]} for value in NO_ROLES),
        *({"messages": [message(_row_id=value)]} for value in NO_ROWS),
        *({"messages": [message(timestamp=value)]} for value in NO_TIMES),
    ],
)
def test_bad_payloads_are_refused(working: Works, payload: dict[str, Any]) -> None:
    """A message has a role and known fields of their types, and a payload nothing but messages and a holder."""
    with working.refuses("invalid_params"):
        working.do("transcript.append", payload)


def test_what_may_be_handed_over_is_more_than_what_may_be_appended() -> None:
    """A handler that publishes a compressed transcript takes one field more than an append."""
    assert {
        "role",
        "content",
        "_compressed_summary_has_user_turn",
    } == workers.HANDOFF_MESSAGE_FIELDS - sessions.MESSAGE_FIELDS


# --- reads


def test_the_context_is_the_session_and_its_transcript(working: Works) -> None:
    """`session.context` answers what get_session and list_messages answer, and a later call what holds then."""
    append(working, message("one"))
    answer = working.do("session.context")
    assert answer == {
        "session": dict(sessions.get_session(working.db, "s") or {}),
        "messages": transcript(working),
    }
    append(working, message("two"))
    assert len(working.do("session.context")["messages"]) == 2
    assert working.do("session.context", sequence=2) == answer


def test_roles_of_the_tail_and_of_a_row(working: Works) -> None:
    """The roles are those of the transcript's own rows, and null where there is no such row."""
    assert working.do("session.tail_role") == {"value": None}
    append(working, message("one"), {"role": "assistant", "content": "two"})
    sessions.append_message(working.db, "t", role="tool", content="theirs")
    assert working.do("session.tail_role") == {"value": "assistant"}
    for row_id, role in ((1, "user"), (2, "assistant"), (3, None), (4, None)):
        assert working.do("session.row_role", {"row_id": row_id}) == {"value": role}


@pytest.mark.parametrize(
    ("operation", "payload"),
    [
        *((name, {"x": 1}) for name in ("session.context", "session.tail_role", "execution.finish")),
        *(("session.row_role", {"row_id": value}) for value in NO_ROWS_TO_READ),
        ("session.row_role", {}),
        ("session.row_role", {"row_id": 1, "x": 1}),
    ],
)
def test_bad_payloads_of_reads_are_refused(working: Works, operation: str, payload: dict[str, Any]) -> None:
    """A read takes nothing, or the id of a row; so does the end of an execution."""
    with working.refuses("invalid_params"):
        working.do(operation, payload)


def test_a_damaged_message_keeps_the_context_back(working: Works) -> None:
    """A message that does not decode is storage_unavailable, and the execution can go on with other operations."""
    append(working, message("one"))
    working.owner.execute("UPDATE messages SET extra_json = '{'")
    before = working.owner.everything()
    with pytest.raises(workers.RuntimeStoreError) as refusal:
        working.do("session.context")
    assert refusal.value.reason == "storage_unavailable"
    assert working.owner.everything() == before
    assert working.do("session.tail_role") == {"value": "user"}


@pytest.mark.engines("sqlite")
def test_whatever_was_stored_can_be_read(working: Works) -> None:
    """The deepest content that a session takes is shown by a worker's read, and by the rewinding that removes it."""
    db = working.db
    deepest = bad.nested(252)
    with working.refuses("invalid_params"):
        sessions.append_message(db, "s", role="user", content=[deepest])
    stored = sessions.append_message(db, "s", role="user", content=deepest)
    assert working.do("session.context")["messages"][-1] == stored
    working.finish()
    identity: dict[str, Any] = {"principal_id": "p", "session_id": "s", "request_id": "r", "expected_generation": 0}
    asked: dict[str, Any] = {"operation": "rewind", "payload": {"target_message_id": stored["id"]}}
    answer = sessions.mutate_runtime_session(
        db, epoch=working.owner.epoch, **identity, **asked, expected_revision=working.revision()
    )
    assert answer["target_message"] == stored


# --- annotations


def test_annotations_are_what_a_row_adds() -> None:
    """Of each message its row's id and instant, null where it has none; other fields are left out."""
    messages = [{"_row_id": 3, "timestamp": 1.5, "role": "user"}, {"content": "x"}, {}]
    assert workers.row_annotations(messages) == [
        {"_row_id": 3, "timestamp": 1.5},
        {"_row_id": None, "timestamp": None},
        {"_row_id": None, "timestamp": None},
    ]


@pytest.mark.parametrize("messages", [None, 1, "x", {}, {"_row_id": 1}, (), [1], [None], [[]], object()])
def test_annotations_of_what_is_no_message_are_refused(messages: Any) -> None:
    """Anything but a list of objects is invalid_params."""
    with pytest.raises(workers.RuntimeStoreError) as refusal:
        workers.row_annotations(messages)
    assert refusal.value.reason == "invalid_params"
