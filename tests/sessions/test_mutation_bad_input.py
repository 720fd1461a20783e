"""What no mutation takes in its payload: refused as invalid_params before anything is asked of the session."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import sessions
from fsm.errors import RuntimeStoreError
from tests import bad_input as bad
from tests.engines import Engine
from tests.sessions.mutating import PAYLOADS, Desk

# What is refused before the database is asked is refused alike on each; what must not escape any is the property below.
pytestmark = pytest.mark.engines("sqlite")

TEXTS: list[Any] = [None, 1, 1.5, True, b"x", [], {}, "", "  ", "\n", "a\0b", "\ud800", "x" * 1025]
COUNTS: list[Any] = [value for value in bad.POSITIVE_INTEGERS if value is not None]
ENTRY: dict[str, Any] = {"session": {"id": "s"}, "messages": []}
NO_LISTS: list[Any] = [None, {}, "x", 1]
MESSAGES: list[Any] = [
    *(1, None, "x", [], {}, {"content": "x"}, {"role": "User"}, {"role": "user", "colour": 1}),
    *({"role": "user", "content": value} for value in ("a\0b", "\ud800", bad.NAN, b"x", {1: 2}, bad.nested(3000))),
    {"role": "user", "timestamp": "1"},
    {"role": "user", "id": 1},
]


def _of_session(**fields: Any) -> dict[str, Any]:
    return {"sessions": [{"session": {"id": "s", **fields}, "messages": []}]}


WRONG: dict[str, list[Any]] = {
    "rename": [{}, *({"title": value} for value in TEXTS), {"title": "t", "more": 1}],
    "archive": [{}, *({"archived": value} for value in bad.FLAGS), {"archived": True, "more": 1}],
    "model": [
        *({}, {"provider": "p"}, {"model": "m", "more": 1}),
        *({"model": value} for value in TEXTS),
        *({"model": "m", "provider": value} for value in TEXTS if value is not None),
    ],
    "reset": [{"more": 1}],
    "rewind": [{}, *({"target_message_id": value} for value in [None, *COUNTS]), {"target_message_id": 1, "more": 1}],
    "branch": [
        {"more": 1},
        *({"title": value} for value in TEXTS if value is not None),
        *({"through_message_id": value} for value in COUNTS),
    ],
    "compress": [
        *({}, {"keep_last": 1}, {"summary": "s", "more": 1}),
        *({"summary": value} for value in TEXTS if value != "x" * 1025),
        *({"summary": "s", "keep_last": value} for value in (None, *COUNTS) if value != 0),
    ],
    "delete": [{"more": 1}],
    "import": [
        *({}, {"sessions": []}, {"sessions": {}}, {"sessions": None}, {"sessions": "s"}, {"sessions": [1]}),
        {"sessions": [ENTRY], "more": 1},
        {"sessions": [{"session": {"id": "s"}}]},
        {"sessions": [{"messages": []}]},
        {"sessions": [{**ENTRY, "more": 1}]},
        {"sessions": [{"session": "s", "messages": []}]},
        {"sessions": [{"session": {}, "messages": []}]},
        {"sessions": [{"session": {"id": "s", "more": 1}, "messages": []}]},
        {"sessions": [{"session": {"id": "other"}, "messages": []}]},
        {"sessions": [ENTRY, ENTRY]},
        {"sessions": [ENTRY, *({"session": {"id": f"x{n}"}, "messages": []} for n in range(100))]},
        *({"sessions": [{"session": {"id": "s"}, "messages": value}]} for value in NO_LISTS),
        *({"sessions": [{"session": {"id": "s"}, "messages": [value]}]} for value in MESSAGES),
        *(_of_session(id=value) for value in TEXTS),
        *(
            _of_session(**{name: value})
            for name in ("source", "title", "parent_session_id")
            for value in TEXTS
            if value
        ),
    ],
}


@pytest.mark.parametrize("operation", PAYLOADS)
def test_a_wrong_payload_is_refused(desk: Desk, operation: str) -> None:
    """Each unknown, missing and wrong field is invalid_params, even ahead of a stale epoch."""
    for payload in [
        *WRONG[operation],
        None,
        1,
        "x",
        [],
        bad.circular(),
        {"x": object()},
        {1: 2},
        {"k": bad.nested(3000)},
    ]:
        arguments = {**desk.arguments(operation), "payload": payload}
        for epoch in (desk.owner.epoch, 9):
            with desk.owner.refuses("invalid_params"):
                desk.call({**arguments, "epoch": epoch})


@pytest.mark.parametrize("operation", PAYLOADS)
def test_no_payload_of_another_operation(desk: Desk, operation: str) -> None:
    """An operation takes its own payload alone; a branch has a title as a renamed session has."""
    for other, payload in PAYLOADS.items():
        if payload and {operation, other} - {"rename", "branch"} and other != operation:
            with desk.owner.refuses("invalid_params"):
                desk.mutate(operation, payload)


def test_the_limits_are_taken(desk: Desk) -> None:
    """What is just within: texts of 1024 characters, a summary of any length, 100 sessions, the last of messages."""
    desk.mutate("rename", {"title": "\N{SNOWMAN}" * 1024})
    desk.mutate("branch", {"title": None, "through_message_id": None})
    child = desk.mutate("compress", {"summary": "x" * 100_000, "keep_last": 2**63 - 1})["child_session_id"]
    assert len(desk.said(child)) == 4
    entries = [{"session": {"id": f"x{n}", "title": None}, "messages": []} for n in range(100)]
    assert len(desk.mutate("import", {"sessions": entries}, "x0")["imported_ids"]) == 100
    with desk.owner.refuses("not_found"):
        desk.mutate("rewind", {"target_message_id": 2**63 - 1})


def test_a_refusal_shows_no_text_of_the_user(desk: Desk) -> None:
    """A message names the field and the rule, never what was refused."""
    words = "s3cret words"
    payloads = {
        "rename": {"title": f"{words}\0"},
        "model": {"model": "m", words: 1},
        "compress": {"summary": f"{words}\0"},
        "import": _of_session(title=f"{words}\0"),
    }
    for operation, payload in payloads.items():
        with pytest.raises(RuntimeStoreError) as refusal:
            desk.mutate(operation, payload)
        assert words not in f"{refusal.value}{refusal.value.detail}{refusal.value.field}"


FIELDS = sorted({name for payload in PAYLOADS.values() for name in payload})
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.engines("sqlite", "postgres", "serializable")
@settings(max_examples=80)
@given(operation=st.sampled_from(sorted(PAYLOADS)), payload=anything)
def test_nothing_but_the_modules_own_errors(engine: Engine, operation: str, payload: Any) -> None:
    """Whatever a payload is, the call answers or raises RuntimeStoreError, and the digest does too."""
    db = engine.fresh(clock=lambda: 1.0)
    epoch = sessions.begin_runtime_epoch(db, instance_id="one")
    sessions.create_session(db, "s", source="cli")
    identity: dict[str, Any] = {"principal_id": "p", "session_id": "s", "request_id": "r"}
    asked: dict[str, Any] = {"operation": operation, "payload": payload, "expected_revision": 0}
    outcomes = []
    for call in (
        lambda: sessions.mutation_receipt_key(**identity, **asked),
        lambda: sessions.mutate_runtime_session(db, epoch=epoch, **identity, **asked, expected_generation=0),
    ):
        try:
            outcomes.append(call() is not None)
        except RuntimeStoreError as refusal:
            outcomes.append(refusal.reason not in {"invalid_params", "not_found"})
    assert outcomes[0] or not outcomes[1]
