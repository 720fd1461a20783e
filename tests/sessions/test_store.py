"""The session store: sessions, their lineages and transcripts, the epoch, and a gateway's own tables."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import storage
from fsm import sessions
from fsm.errors import RuntimeStoreError
from fsm.lifecycles.runtime_tables import SESSIONS
from fsm.runtime.keys import RETIRED_SESSION_PREFIX
from fsm.runtime.lineage import chain_from, lineage_of, oldest_of
from fsm.schema import RUNTIME_SCHEMA
from storage import Transaction
from tests.sessions.support import Owner
from tests.world import START


def chained(owner: Owner, *names: str, source: str = "cli") -> None:
    """Open sessions each of which continues the one before."""
    for parent, child in itertools.pairwise(names):
        owner.open(child, parent_session_id=parent, source=source)
        sessions.end_session(owner.db, parent, reason="compression")


def lineage(owner: Owner, name: str) -> list[str]:
    """Return a session's lineage."""
    return owner.db.read(lambda tx: lineage_of(tx, name))


def ask(owner: Owner, question: Callable[[Transaction, str], Any], name: str) -> Any:
    """Ask a question about a session in a transaction of its own."""
    return owner.db.read(lambda tx: question(tx, name))


# --- sessions


def test_a_new_session_is_live_and_at_zero(owner: Owner) -> None:
    """Every column is shown; the counters begin at 0, the costs are not known yet."""
    owner.open("t", title="Title", parent_session_id="s")
    assert sessions.get_session(owner.db, "t") == {
        "id": "t",
        "parent_session_id": "s",
        "source": "cli",
        "created_source": "cli",
        "title": "Title",
        "archived": False,
        "created_at": START,
        **dict.fromkeys(("chat_id", "model", "ended_at", "end_reason", "estimated_cost_usd", "actual_cost_usd")),
        **dict.fromkeys(("runtime_generation", "runtime_revision", "input_tokens", "output_tokens"), 0),
        **dict.fromkeys(("cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "api_call_count"), 0),
    }
    assert sessions.get_session(owner.db, "nowhere") is None


@pytest.mark.parametrize(("source", "created"), [("gui", "desktop"), ("unknown", None), ("cli", "cli"), ("GUI", "GUI")])
def test_where_a_session_was_created(owner: Owner, source: str, created: str | None) -> None:
    """`created_source`: `gui` is stored as `desktop`; empty or `unknown` counts as unset."""
    assert owner.open("t", source=source)["created_source"] == created


def test_a_session_is_opened_once(owner: Owner) -> None:
    """The exact retry returns what is stored; other content under the id conflicts, and writes nothing."""
    first = owner.open("t", title="a", parent_session_id="s")
    owner.clock.advance(5)
    with owner.changes_nothing():
        assert owner.open("t", title="a", parent_session_id="s") == first
    for changes in ({"title": "b"}, {"source": "api"}, {"parent_session_id": None}):
        with owner.refuses("admission_conflict"):
            owner.open("t", **{"title": "a", "parent_session_id": "s", **changes})


def test_a_parent_must_be_there(owner: Owner) -> None:
    """A child of nobody is not opened."""
    with owner.refuses("not_found"):
        owner.open("t", parent_session_id="nowhere")


def test_a_retired_id_is_never_used_again(owner: Owner) -> None:
    """An id that a deleted session had stays taken."""
    owner.execute("INSERT INTO state_meta VALUES (:key, '{}')", key=f"{RETIRED_SESSION_PREFIX}t")
    with owner.refuses("admission_conflict"):
        owner.open("t")


def test_a_session_ends_for_one_reason(owner: Owner) -> None:
    """The first reason stays: asked again it is answered, another is refused."""
    owner.clock.advance(5)
    ended = sessions.end_session(owner.db, "s", reason="done")
    assert (ended["ended_at"], ended["end_reason"]) == (START + 5, "done")
    owner.clock.advance(5)
    with owner.changes_nothing():
        assert sessions.end_session(owner.db, "s", reason="done") == ended
    with owner.refuses("admission_conflict"):
        sessions.end_session(owner.db, "s", reason="compression")
    with owner.refuses("not_found"):
        sessions.end_session(owner.db, "nowhere", reason="done")


# --- lineage


def test_a_lineage_is_the_same_from_each_of_its_sessions(owner: Owner) -> None:
    """It runs from the oldest session to the newest, wherever it is asked."""
    chained(owner, "s", "s2", "s3")
    for name in ("s", "s2", "s3"):
        assert lineage(owner, name) == ["s", "s2", "s3"]
        assert ask(owner, oldest_of, name) == "s"
    assert ask(owner, chain_from, "s2") == ["s2", "s3"]


@pytest.mark.parametrize("source", ["branch", "delegate"])
def test_branches_and_delegates_are_apart(owner: Owner, source: str) -> None:
    """A child that is a branch or a delegate is a conversation of its own, also of a compressed parent."""
    chained(owner, "s", "aside", source=source)
    assert (lineage(owner, "s"), lineage(owner, "aside")) == (["s"], ["aside"])


@pytest.mark.parametrize("reason", [None, "done", "session_reset"])
def test_only_compression_continues(owner: Owner, reason: str | None) -> None:
    """A child of a session that is live, or ended for another reason, does not continue it."""
    owner.open("t", parent_session_id="s")
    if reason:
        sessions.end_session(owner.db, "s", reason=reason)
    assert (lineage(owner, "s"), lineage(owner, "t")) == (["s"], ["t"])


@pytest.mark.parametrize(
    ("ended", "chosen"),
    [
        ({"b": "compression"}, "b"),
        ({"a": "compression", "b": "compression"}, "b"),
        ({"c": "done"}, "b"),
        ({"a": "done", "b": "done", "c": "done"}, "c"),
        ({}, "c"),
        ({"a": "compression", "c": "done"}, "a"),
    ],
)
def test_the_next_link_among_several(owner: Owner, ended: dict[str, str], chosen: str) -> None:
    """Of several such children: one that was itself compressed, else a live one, else any; ties to the greatest id."""
    for name in ("b", "c", "a"):
        owner.open(name, parent_session_id="s")
    sessions.end_session(owner.db, "s", reason="compression")
    for name, reason in ended.items():
        sessions.end_session(owner.db, name, reason=reason)
    assert lineage(owner, "s")[:2] == ["s", chosen]
    assert lineage(owner, "a")[:2] == ["s", "a"]


def test_a_lineage_has_at_most_100_sessions(owner: Owner) -> None:
    """A hundred in a line are read, one more is refused, and so is a circle."""
    names = ["s", *(f"n{number:03}" for number in range(1, 101))]
    chained(owner, *names[:100])
    assert lineage(owner, names[50]) == names[:100]
    chained(owner, *names[99:])
    for question in (lineage_of, chain_from):
        with owner.refuses("admission_conflict"):
            ask(owner, question, "s")
    owner.execute("UPDATE sessions SET parent_session_id = 'n005', end_reason = 'compression' WHERE id = 's'")
    owner.execute("UPDATE sessions SET end_reason = 'compression' WHERE id = 'n005'")
    everywhere: list[Callable[[Transaction, str], Any]] = [lineage_of, chain_from, oldest_of]
    for asked in everywhere:
        with owner.refuses("admission_conflict"):
            ask(owner, asked, "n005")
    with owner.refuses("not_found"):
        lineage(owner, "nowhere")


# --- messages


def test_a_transcript_is_listed_in_its_order(owner: Owner) -> None:
    """Each message is stored whole and shown as it was given; its id is never used again."""
    owner.open("t")
    parts = [{"type": "text", "text": "é"}, {"type": "image", "url": "x"}]
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "hello", "platform_message_id": "m1"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "arguments": {"n": 1}}], "token_count": 7},
        {"role": "tool", "content": "", "tool_call_id": "c", "timestamp": 12},
        {"role": "system", "content": parts, "_compressed_summary": True, "observed": None, "_row_id": None},
    ]
    for message in said:
        sessions.append_message(owner.db, "s", **message)
    sessions.append_message(owner.db, "t", role="user", content="elsewhere")
    listed = sessions.list_messages(owner.db, "s")
    expected = [
        {"id": number, "session_id": "s", "timestamp": START, **message} for number, message in enumerate(said, start=1)
    ]
    del expected[3]["observed"], expected[3]["_row_id"]
    assert listed == expected
    assert isinstance(listed[2]["timestamp"], float)
    owner.execute("DELETE FROM messages")
    assert sessions.append_message(owner.db, "s", role="user", content="again")["id"] == 6


def test_a_message_leaves_the_revision_alone(owner: Owner) -> None:
    """The store's own append moves neither revision nor generation; what is fenced by them goes through the runtime."""
    sessions.append_message(owner.db, "s", role="user", content="x")
    session = owner.session()
    assert (session["runtime_revision"], session["runtime_generation"]) == (0, 0)


def test_messages_need_a_session(owner: Owner) -> None:
    """Neither is one appended to nobody, nor is nobody's transcript empty."""
    with owner.refuses("not_found"):
        sessions.append_message(owner.db, "nowhere", role="user", content="x")
    with owner.refuses("not_found"):
        sessions.list_messages(owner.db, "nowhere")


def test_one_damaged_message_hides_no_other(owner: Owner) -> None:
    """A message whose further fields nobody can decode is listed without them, and says why."""
    for text in ("a", "b"):
        sessions.append_message(owner.db, "s", role="user", content=text, message_id=text)
    owner.execute("UPDATE messages SET extra_json = '{' WHERE id = 1")  # as damage would
    first, second = sessions.list_messages(owner.db, "s")
    assert (first["content"], "stored message" in first["corrupt"], "message_id" in first) == ("a", True, False)
    assert second["content"] == "b"


# --- the epoch


def test_every_epoch_is_the_next(owner: Owner) -> None:
    """Epochs count up by one, whoever begins them, and the row names the last who did."""
    assert [sessions.begin_runtime_epoch(owner.db, instance_id=name) for name in ("b", "c")] == [2, 3]
    assert owner.everything()["runtime_epoch"] == [{"singleton": 1, "epoch": 3, "instance_id": "c"}]


# --- a gateway's own tables

OLDER = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, parent_session_id TEXT,
    created_at REAL NOT NULL, ended_at REAL, end_reason TEXT, title TEXT,
    archived INTEGER NOT NULL DEFAULT 0, chat_id TEXT, created_source TEXT,
    runtime_generation INTEGER NOT NULL DEFAULT 0, runtime_revision INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, api_call_count INTEGER DEFAULT 0,
    estimated_cost_usd REAL, actual_cost_usd REAL, system_prompt TEXT
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    extra_json TEXT, timestamp REAL NOT NULL, tool_name TEXT
);
CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE session_admissions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, admission_id TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL,
    principal_id TEXT NOT NULL, target_session_id TEXT NOT NULL, lineage_json TEXT NOT NULL, payload_json TEXT NOT NULL,
    payload_digest TEXT NOT NULL, intent TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'started', 'terminal')),
    outcome TEXT, owner_epoch INTEGER, generation INTEGER, retired_at REAL,
    UNIQUE (principal_id, target_session_id, request_id)
);
INSERT INTO sessions (id, source, user_id, created_at, system_prompt) VALUES ('s', 'chat', 'ann', 5.0, 'be kind');
INSERT INTO session_admissions VALUES
    (7, 'old', 'r', 'p', 's', '["s"]', '{"text":"x"}', 'd', 'queue', 'queued', NULL, NULL, NULL, NULL);
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A database of a gateway whose tables have columns of its own, and whose CHECK knows fewer states."""
    path = tmp_path / "older.db"
    with storage.open_database(path).transaction() as tx:
        for statement in OLDER.split(";\n"):
            if statement.strip():
                tx.execute(statement)
    return path


def test_a_gateways_own_tables_are_used_in_place(older: Path) -> None:
    """Columns that the gateway has beside are kept, its rows run on, and a CHECK that knew fewer states is rebuilt."""
    epoch = sessions.begin_runtime_epoch(older, instance_id="new")
    claimed = sessions.claim_session_input(older, epoch=epoch, session_id="s")
    assert claimed
    assert claimed["admission_id"] == "old"
    successor = sessions.begin_runtime_epoch(older, instance_id="next")
    assert sessions.recover_session_inputs(older, epoch=successor) == 1
    made = sessions.create_session(older, "t", source="cli")
    assert made["input_tokens"] == 0
    handle = storage.resolve(older, error=AssertionError)
    rows = handle.read(lambda tx: tx.execute("SELECT user_id, system_prompt FROM sessions ORDER BY id"))
    assert rows == [{"user_id": "ann", "system_prompt": "be kind"}, {"user_id": None, "system_prompt": None}]
    handle.write(lambda tx: tx.execute("INSERT INTO messages VALUES (3, 's', 'user', 'hi', NULL, 1.0, 'x')"))
    assert sessions.list_messages(older, "s") == [
        {"id": 3, "session_id": "s", "role": "user", "content": "hi", "timestamp": 1.0}
    ]
    handle.close()


def test_a_table_of_another_shape_is_left_as_it_was(tmp_path: Path) -> None:
    """A table that lacks a column is refused by name, and nothing is created beside it."""
    path = tmp_path / "foreign.db"
    handle = storage.open_database(path)
    handle.write(lambda tx: tx.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT)"))
    with pytest.raises(storage.UnsupportedDatabaseError, match="table sessions"):
        sessions.begin_runtime_epoch(handle, instance_id="x")
    assert not handle.read(lambda tx: tx.table_exists("session_admissions"))
    handle.close()


def test_the_tables_are_those_of_the_formats() -> None:
    """The runtime's tables have the names, keys and columns that gateways know."""
    tables = {table.name: table for table in RUNTIME_SCHEMA.tables}
    assert set(tables) == {
        *("sessions", "session_admissions", "worker_executions", "worker_receipts", "runtime_epoch", "state_meta"),
        *("session_turn_leases", "messages", "session_model_usage"),
    }
    admissions = tables["session_admissions"]
    assert [column.name for column in admissions.columns] == [
        *("seq", "admission_id", "request_id", "principal_id", "target_session_id", "lineage_json", "payload_json"),
        *("payload_digest", "intent", "status", "outcome", "owner_epoch", "generation", "retired_at"),
    ]
    assert admissions.unique == (("admission_id",), ("principal_id", "target_session_id", "request_id"))
    assert next(c for c in admissions.columns if c.name == "status").one_of == (
        "queued",
        "started",
        "unknown",
        "terminal",
    )
    statuses = next(c for c in tables["worker_executions"].columns if c.name == "status").one_of
    assert statuses == ("registered", "running", "unknown", "terminal")
    assert tables["worker_receipts"].primary_key == ("execution_id", "sequence")
    assert tables["messages"].autoincrement
    assert SESSIONS.primary_key == ("id",)


def test_a_location_is_opened_once(tmp_path: Path) -> None:
    """A path given instead of a handle is opened once a process and reused."""
    path = tmp_path / "state.db"
    sessions.create_session(path, "s", source="cli")
    handle = storage.resolve(str(path), error=AssertionError)
    assert storage.resolve(path, error=AssertionError) is handle
    assert sessions.get_session(str(path), "s") is not None
    handle.close()


def test_a_refusal_is_one_of_the_librarys_errors(owner: Owner) -> None:
    """It says which trigger refused, at which step, and in which state it found the record."""
    admission = owner.start()
    with pytest.raises(RuntimeStoreError) as refusal:
        owner.cancel(admission)
    error = refusal.value
    assert (error.lifecycle, error.trigger, error.step, error.state) == (
        "session_admission",
        "cancel",
        "Source",
        "started",
    )
    assert (error.field, str(error).startswith("stale_generation: ")) == ("generation", True)
