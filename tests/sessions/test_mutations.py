"""What each mutation does, what it answers, and what it asks of the session first."""

from typing import Any

import pytest

from fsm import sessions
from fsm.observers import SessionGoneEvent
from tests.sessions.mutating import FENCED, MOVING, PAYLOADS, Desk, heard

FACTS: dict[str, dict[str, Any]] = {
    "rename": {"title": "other title"},
    "archive": {"archived": True},
    "model": {"model": "large", "provider": "acme"},
    "reset": {"child_session_id": "id-1"},
    "rewind": {
        "rewound_count": 2,
        "target_message": {"id": 2, "session_id": "s", "role": "user", "content": "two", "timestamp": 1_000_000.0},
        "new_head_id": 1,
    },
    "branch": {"child_session_id": "id-1", "copied_count": 3, "title": "branched title"},
    "compress": {"child_session_id": "id-1", "summary": "what was said", "kept_count": 1},
    "delete": {"deleted_ids": ["s"]},
    "import": {"imported_ids": [], "skipped_ids": ["s"]},
}


@pytest.mark.parametrize("operation", PAYLOADS)
def test_the_answer_of_each_operation(desk: Desk, operation: str) -> None:
    """Every answer names session, operation, revision and generation after it, and the operation's own facts."""
    revision = 1 if operation == "import" else 2
    assert desk.mutate(operation) == {
        "session_id": "s",
        "operation": operation,
        "revision": revision,
        "execution_generation": int(operation in MOVING),
        **FACTS[operation],
    }


@pytest.mark.parametrize("operation", sorted(PAYLOADS.keys() - {"delete"}))
def test_what_moves_the_generation_and_the_revision(desk: Desk, operation: str) -> None:
    """Reset, rewind and compress move the generation; whatever changes the session moves its revision by one."""
    desk.mutate(operation)
    row = desk.session() or {}
    assert row["runtime_generation"] == (operation in MOVING)
    assert row["runtime_revision"] == (1 if operation == "import" else 2)


def test_renaming(desk: Desk) -> None:
    """The title is another one."""
    desk.mutate("rename")
    assert (desk.session() or {})["title"] == "other title"


def test_archiving_and_taking_out(desk: Desk) -> None:
    """A session is in the archive until it is taken out again."""
    desk.mutate("archive", {"archived": True})
    view = sessions.get_session(desk.db, "s")
    assert view is not None
    assert view["archived"] is True
    desk.mutate("archive", {"archived": False})
    view = sessions.get_session(desk.db, "s")
    assert view is not None
    assert view["archived"] is False


def test_choosing_a_model(desk: Desk) -> None:
    """The model is stored; a provider may be left out, and is answered only where it was given."""
    assert "provider" not in desk.mutate("model", {"model": "small", "provider": None})
    assert (desk.session() or {})["model"] == "small"


def test_resetting_opens_an_empty_transcript(desk: Desk) -> None:
    """The transcript ends as `session_reset`; the child has its place and model, but neither title nor messages."""
    desk.mutate("model")
    desk.owner.execute("UPDATE sessions SET chat_id = 'c' WHERE id = 's'")
    desk.owner.clock.advance(5)
    child = desk.mutate("reset")["child_session_id"]
    old, new = desk.session() or {}, desk.session(child) or {}
    assert (old["end_reason"], old["ended_at"]) == ("session_reset", 1_000_005.0)
    assert {name: new[name] for name in ("parent_session_id", "source", "created_source", "chat_id", "model")} == {
        "parent_session_id": "s",
        "source": "cli",
        "created_source": "cli",
        "chat_id": "c",
        "model": "large",
    }
    assert (new["title"], new["ended_at"], new["runtime_generation"], new["runtime_revision"]) == (None, None, 0, 0)
    assert desk.said(child) == []
    assert desk.said("s") == ["one", "two", "three"]


def test_a_reset_session_is_not_continued(desk: Desk) -> None:
    """What a reset opens is a conversation of its own: the old lineage ends where it was reset."""
    desk.mutate("reset")
    snapshot = desk.mutate("rename", prepare_only=True)["snapshot"]
    assert snapshot["target"] == "s"


def test_rewinding(desk: Desk) -> None:
    """The message and all after it are gone; at the first one nothing is left to be the head; ids never come back."""
    assert desk.mutate("rewind", {"target_message_id": 3})["rewound_count"] == 1
    assert desk.said("s") == ["one", "two"]
    assert desk.mutate("rewind", {"target_message_id": 1})["new_head_id"] is None
    assert desk.said("s") == []
    assert desk.say("four") == [4]


def test_rewinding_to_a_message_of_another_transcript(desk: Desk) -> None:
    """A message of another session, and one that is gone, is not_found, and nothing is removed."""
    desk.owner.open("t")
    (elsewhere,) = desk.say("elsewhere", session="t")
    for message in (elsewhere, 99):
        with desk.owner.refuses("not_found"):
            desk.mutate("rewind", {"target_message_id": message})


def test_branching(desk: Desk) -> None:
    """The child holds copies up to the message named, is no part of the lineage, and the parent goes on."""
    child = desk.mutate("branch", {"through_message_id": 2})["child_session_id"]
    row = desk.session(child) or {}
    assert desk.said(child) == ["one", "two"]
    assert (row["source"], row["parent_session_id"], row["title"]) == ("branch", "s", None)
    assert (desk.session() or {})["ended_at"] is None
    desk.mutate("rewind", {"target_message_id": 1})
    assert desk.said(child) == ["one", "two"]
    with desk.owner.refuses("not_found"):
        desk.mutate("branch", {"through_message_id": 4})


def test_branching_an_empty_transcript(desk: Desk) -> None:
    """There may be nothing to copy."""
    desk.owner.open("t")
    assert desk.mutate("branch", {}, "t")["copied_count"] == 0


def test_copies_are_whole(desk: Desk) -> None:
    """A copy keeps role, content, fields and time of what it copies."""
    fields = {"tool_calls": [{"id": 1}], "timestamp": 5.0}
    sessions.append_message(desk.db, "s", role="assistant", content=[{"part": "p"}], **fields)
    for operation, payload in (("branch", {}), ("compress", {"summary": "x", "keep_last": 1})):
        child = desk.mutate(operation, payload)["child_session_id"]
        copy: Any = sessions.list_messages(desk.db, child)[-1]
        assert {name: copy[name] for name in ("role", "content", "tool_calls", "timestamp")} == {
            "role": "assistant",
            "content": [{"part": "p"}],
            **fields,
        }


@pytest.mark.parametrize(("keep", "kept"), [(None, []), (0, []), (2, ["two", "three"]), (99, ["one", "two", "three"])])
def test_compressing(desk: Desk, keep: int | None, kept: list[str]) -> None:
    """The child continues the session: the summary as a system message, then the last messages, by default none."""
    payload = {"summary": "sum"} if keep is None else {"summary": "sum", "keep_last": keep}
    answer = desk.mutate("compress", payload)
    child = answer["child_session_id"]
    first: Any = sessions.list_messages(desk.db, child)[0]
    assert (first["role"], first["content"], first["_compressed_summary"]) == ("system", "sum", True)
    assert desk.said(child) == ["sum", *kept]
    assert answer["kept_count"] == len(kept)
    old, new = desk.session() or {}, desk.session(child) or {}
    assert (old["end_reason"], new["parent_session_id"], new["title"]) == ("compression", "s", "first title")
    assert (new["runtime_generation"], new["runtime_revision"]) == (0, 0)


def test_a_compressed_session_goes_on_in_its_child(desk: Desk) -> None:
    """Named by its first id, a lineage is rewound, branched, compressed and reset where it ends."""
    child = desk.compressed()
    desk.say("four", session=child)
    assert desk.mutate("branch", {})["copied_count"] == 3
    head = sessions.list_messages(desk.db, child)[-1]["id"]
    assert desk.mutate("rewind", {"target_message_id": head})["rewound_count"] == 1
    with desk.owner.refuses("not_found"):
        desk.mutate("rewind", {"target_message_id": 1})
    second = desk.compressed()
    assert (desk.session(second) or {})["parent_session_id"] == child
    third = desk.mutate("reset")["child_session_id"]
    assert (desk.session(third) or {})["parent_session_id"] == second
    generations = [(desk.session(each) or {})["runtime_generation"] for each in ("s", child, second, third)]
    assert generations == [4, 0, 0, 0]
    assert [(desk.session(each) or {})["runtime_revision"] > 0 for each in (child, second)] == [True, True]


@pytest.mark.parametrize(("source", "continuing"), [("cli", "cli"), ("branch", "compression")])
def test_what_continues_a_branch_is_no_branch(desk: Desk, source: str, continuing: str) -> None:
    """The child's source is its parent's, unless that would set the child apart from the lineage."""
    desk.owner.open("t", source=source, parent_session_id="s")
    child = desk.compressed(session="t")
    assert (desk.session(child) or {})["source"] == continuing
    assert desk.mutate("rename", session="t", prepare_only=True)["snapshot"]["target"] == child


def test_a_branch_goes_on_as_what_it_was_branched_from(desk: Desk) -> None:
    """A branch remembers where its conversation was created; so does what continues it."""
    branch = desk.mutate("branch", {})["child_session_id"]
    child = desk.compressed(session=branch)
    assert [(desk.session(each) or {})["created_source"] for each in (branch, child)] == ["cli", "cli"]
    assert (desk.session(child) or {})["source"] == "cli"


def test_what_has_ended_otherwise_is_not_compressed(desk: Desk) -> None:
    """A child that a reset has opened would be taken for what continues the session."""
    desk.mutate("reset")
    with desk.owner.refuses("admission_conflict"):
        desk.mutate("compress")
    assert desk.mutate("reset")["revision"] == 3


def test_another_child_must_not_take_the_place_of_the_summary(desk: Desk) -> None:
    """Where a live child with a greater id would be the next link, compressing is refused and leaves no trace."""
    desk.owner.open("zz", parent_session_id="s")
    with desk.owner.refuses("admission_conflict"):
        desk.mutate("compress")


def test_a_taken_id_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child whose new id some session has, or had, is a conflict, and nothing is left of the call."""
    desk.owner.open("t")
    monkeypatch.setattr(desk.db, "new_id", lambda: "t")
    for _ in range(2):
        for operation in ("reset", "branch", "compress"):
            with desk.owner.refuses("admission_conflict"):
                desk.mutate(operation)
        if desk.session("t"):
            desk.mutate("delete", session="t")


def test_importing(desk: Desk) -> None:
    """Sessions that there are not are stored whole, those that there are stay; a parent may come earlier."""
    desk.owner.clock.advance(7)
    entries = [
        {"session": {"id": "n", "source": "gui", "title": "T"}, "messages": [{"role": "user", "content": "q"}]},
        {"session": {"id": "s", "title": "ignored"}, "messages": [{"role": "user", "content": "ignored"}]},
        {"session": {"id": "c", "parent_session_id": "n"}, "messages": []},
    ]
    answer = desk.mutate("import", {"sessions": entries}, "n")
    assert (answer["imported_ids"], answer["skipped_ids"]) == (["n", "c"], ["s"])
    assert (answer["revision"], answer["execution_generation"]) == (1, 0)
    new, child = desk.session("n") or {}, desk.session("c") or {}
    assert (new["source"], new["created_source"], new["title"]) == ("gui", "desktop", "T")
    assert (child["parent_session_id"], child["source"], child["created_source"]) == ("n", "unknown", None)
    assert child["created_at"] == 1_000_007.0
    assert desk.said("n") == ["q"]
    assert desk.said("s") == ["one", "two", "three"]
    assert [(desk.session(each) or {})["runtime_revision"] for each in ("n", "s", "c")] == [1, 1, 1]


def test_importing_without_a_parent(desk: Desk) -> None:
    """A parent that is nowhere, or comes later, is not_found, and nothing is imported."""
    for parent in ("nowhere", "later", "n"):
        entries = [
            {"session": {"id": "n", "parent_session_id": parent}, "messages": []},
            {"session": {"id": "later"}, "messages": []},
        ]
        with desk.owner.refuses("not_found"):
            desk.mutate("import", {"sessions": entries}, "n")


def test_importing_a_retired_id(desk: Desk) -> None:
    """The id of a deleted session conflicts, wherever in the list it stands."""
    desk.mutate("delete")
    with desk.owner.refuses("admission_conflict"):
        desk.mutate("import")
    entries = [{"session": {"id": each}, "messages": []} for each in ("n", "s")]
    with desk.owner.refuses("admission_conflict"):
        desk.mutate("import", {"sessions": entries}, "n")


@pytest.mark.parametrize("operation", PAYLOADS)
def test_fences(desk: Desk, operation: str) -> None:
    """Another epoch, revision or generation than the stored one is refused, in this order."""
    wrong: dict[str, Any] = {"epoch": 9, "expected_revision": 9, "expected_generation": 9}
    for name, reason in (
        ("epoch", "stale_epoch"),
        ("expected_revision", "revision_conflict"),
        ("expected_generation", "stale_generation"),
    ):
        with desk.owner.refuses(reason):
            desk.mutate(operation, **wrong)
        del wrong[name]
    desk.mutate(operation)


@pytest.mark.parametrize("operation", sorted(PAYLOADS.keys() - {"import"}))
def test_without_a_session(desk: Desk, operation: str) -> None:
    """Only an import takes a session that there is not, and then of revision 0 and of no generation."""
    with desk.owner.refuses("not_found"):
        desk.mutate(operation, session="nowhere", expected_generation=0)


def test_importing_with_a_generation(desk: Desk) -> None:
    """A session that there is not has no generation, and revision 0."""
    entries = {"sessions": [{"session": {"id": "n"}, "messages": []}]}
    with desk.owner.refuses("stale_generation"):
        desk.mutate("import", entries, "n", expected_generation=0)
    with desk.owner.refuses("revision_conflict"):
        desk.mutate("import", entries, "n", expected_revision=1)


@pytest.mark.parametrize("operation", sorted(FENCED))
def test_what_needs_a_generation(desk: Desk, operation: str) -> None:
    """Without the expected generation these are invalid_params; the others go without."""
    with desk.owner.refuses("invalid_params"):
        desk.mutate(operation, expected_generation=None)


@pytest.mark.parametrize("archived", [True, False])
def test_observers_hear_of_archiving_once(desk: Desk, *, archived: bool) -> None:
    """They hear when a session goes into the archive: not when it is there already, comes out, or is retried."""
    with heard(desk.db) as events:
        arguments = desk.arguments("archive", {"archived": archived})
        desk.call(arguments)
        desk.call(arguments)
        desk.mutate("archive", {"archived": archived})
        desk.mutate("archive", {"archived": False})
    assert events == ([SessionGoneEvent(("s",), "archive", "s", 1_000_000.0)] if archived else [])


@pytest.mark.parametrize("operation", sorted(PAYLOADS))
def test_a_lineage_that_runs_in_a_circle(desk: Desk, operation: str) -> None:
    """What needs the lineage is refused where damage has bent it into a circle; what does not goes on."""
    child = desk.compressed()
    desk.owner.execute("UPDATE sessions SET parent_session_id = :child WHERE id = 's'", child=child)
    desk.owner.execute("UPDATE sessions SET end_reason = 'compression' WHERE id = :child", child=child)
    if operation in {"rename", "archive", "model", "import"}:
        assert desk.mutate(operation)["operation"] == operation
        return
    with desk.owner.refuses("admission_conflict"):
        desk.mutate(operation)


def test_a_lineage_has_an_end(desk: Desk) -> None:
    """The compression that would make a lineage longer than it can be read is refused, and the rest stays in use."""
    for number in range(99):
        desk.owner.open(f"c{number:02}", parent_session_id=f"c{number - 1:02}" if number else "s")
    desk.owner.execute("UPDATE sessions SET end_reason = 'compression' WHERE id != 'c98'")
    with desk.owner.refuses("admission_conflict"):
        desk.mutate("compress")
    assert desk.mutate("reset")["operation"] == "reset"
