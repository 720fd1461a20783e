"""Laws of mutations: any sequence of them, compared with a model that knows transcripts as lists of words."""

import contextlib
from typing import Any

from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fsm import sessions
from fsm.errors import RuntimeStoreError
from tests.engines import Engine
from tests.laws import hold
from tests.sessions.mutating import Desk
from tests.sessions.support import Owner
from tests.world import ManualClock

PICK = st.integers(0, 50)
TEXTS = ("title", "summary", "target_message")
EXPECTED = {
    *("said", "rename", "archive", "model", "reset", "rewind", "branch", "compress", "delete", "import"),
    *("replayed", "conflict", "stale", "busy", "compress: refused", "gone: replayed", "delegated"),
}


@define
class Transcript:
    """What the model knows of a session; `next` is what continues it."""

    parent: str | None
    words: list[str]
    apart: bool = False
    delegate: bool = False
    ended: str | None = None
    next: str | None = None
    generation: int = 0
    revision: int = 0


@define
class Request:
    """A call that was made, and what it answered then."""

    arguments: dict[str, Any]
    answer: dict[str, Any]
    named: set[str]


@define
class Model:
    """Every session that there is, every id that is gone, and every request that was answered."""

    alive: dict[str, Transcript] = field(factory=dict)
    gone: set[str] = field(factory=set)
    requests: list[Request] = field(factory=list)
    seen: set[str] = field(factory=set)

    def last(self, name: str) -> str:
        """Return where a conversation goes on."""
        following = self.alive[name].next
        return name if following is None else self.last(following)

    def family(self, name: str) -> set[str]:
        """Return what a deletion takes along."""
        taken: set[str] = set()
        waiting = [name]
        while waiting:
            each = waiting.pop()
            taken.add(each)
            following = self.alive[each].next
            waiting += [] if following is None else [following]
            waiting += [child for child, known in self.alive.items() if known.delegate and known.parent == each]
        return taken

    def of_what_is_gone(self) -> list[Request]:
        """Return the requests whose answers name a session that is gone."""
        return [each for each in self.requests if each.named & self.gone]

    def were_reset(self) -> list[str]:
        """Return the sessions whose conversation ended in a reset."""
        return sorted(name for name in self.alive if self.alive[self.last(name)].ended == "session_reset")

    def forget(self, names: set[str]) -> None:
        """Let sessions be gone; who continued or was continued by one stands alone."""
        for name in names:
            del self.alive[name]
        for known in self.alive.values():
            known.parent = None if known.parent in names else known.parent
            known.next = None if known.next in names else known.next
        self.gone |= names


class Mutations(RuleBasedStateMachine):
    """One caller mutates a few conversations, retries what it asked, and asks with what is out of date."""

    seen: set[str]

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.count = 0
        self.model = Model()

    @initialize()
    def begin(self) -> None:
        """Open a database with one session."""
        # Ascending ids: a later child is the one that continues a session.
        self.db = self.engine.fresh(clock=ManualClock(), new_id=lambda: self.named("n"))
        owner = Owner(self.db, ManualClock(), sessions.begin_runtime_epoch(self.db, instance_id="one"))
        self.desk = Desk(owner)
        self.open_session(None)

    def named(self, kind: str) -> str:
        """Return an id that was never used."""
        self.count += 1
        return f"{kind}{self.count:05}"

    def open_session(self, parent: str | None) -> str:
        """Create a session, as a delegate where it has a parent."""
        name = self.named("s")
        self.desk.owner.open(name, source="cli" if parent is None else "delegate", parent_session_id=parent)
        self.model.alive[name] = Transcript(parent, [], apart=parent is not None, delegate=parent is not None)
        return name

    def pick(self, pick: int) -> str:
        """Choose a session that there is."""
        names = sorted(self.model.alive)
        return names[pick % len(names)]

    def asked(self, operation: str, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Make a call, note that it was answered, and return the answer."""
        arguments = self.desk.arguments(operation, payload, name)
        answer: dict[str, Any] = self.desk.call(arguments)
        named = {
            each
            for value in answer.values()
            for each in (value if isinstance(value, list) else [value])
            if isinstance(each, str)
        }
        if message := answer.get("target_message"):
            named.add(message["session_id"])
        self.model.requests.append(Request(arguments, answer, named))
        self.seen.add(operation)
        return answer

    def changed(self, *names: str) -> None:
        """Let the model's revisions move."""
        for name in set(names):
            self.model.alive[name].revision += 1

    @precondition(lambda self: not self.model.alive)
    @rule()
    def open_again(self) -> None:
        """There is always something to do."""
        self.open_session(None)

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK)
    def delegate(self, pick: int) -> None:
        """A session opens a delegate."""
        self.open_session(self.pick(pick))
        self.seen.add("delegated")

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, count=st.integers(1, 3))
    def say(self, pick: int, count: int) -> None:
        """Messages are appended where the conversation goes on."""
        name = self.model.last(self.pick(pick))
        words = [self.named("w") for _ in range(count)]
        self.desk.say(*words, session=name)
        self.model.alive[name].words += words
        self.seen.add("said")

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, operation=st.sampled_from(["rename", "archive", "model"]))
    def edit(self, pick: int, operation: str) -> None:
        """What a session says of itself changes, and nothing else."""
        payloads: dict[str, dict[str, Any]] = {
            "rename": {"title": self.named("t")},
            "archive": {"archived": bool(pick % 2)},
            "model": {"model": self.named("m")},
        }
        name = self.pick(pick)
        self.asked(operation, name, payloads[operation])
        self.changed(name)

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK)
    def reset(self, pick: int) -> None:
        """An empty transcript takes the place of the last one."""
        name = self.pick(pick)
        last = self.model.last(name)
        child = self.asked("reset", name, {})["child_session_id"]
        self.model.alive[child] = Transcript(last, [])
        self.model.alive[last].ended = "session_reset"
        self.model.alive[name].generation += 1
        self.changed(name, last)

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, at=PICK)
    def rewind(self, pick: int, at: int) -> None:
        """A transcript loses a message and all after it."""
        name = self.pick(pick)
        last = self.model.last(name)
        words = self.model.alive[last].words
        if not words:
            return
        stored = sessions.list_messages(self.db, last)
        answer = self.asked("rewind", name, {"target_message_id": stored[at % len(words)]["id"]})
        assert answer["rewound_count"] == len(words) - at % len(words)
        assert answer["target_message"]["content"] == words[at % len(words)]
        assert (answer["new_head_id"] is None) == (at % len(words) == 0)
        del words[at % len(words) :]
        self.model.alive[name].generation += 1
        self.changed(name, last)

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, at=PICK)
    def branch(self, pick: int, at: int) -> None:
        """A copy of the transcript becomes a conversation of its own."""
        name = self.pick(pick)
        last = self.model.last(name)
        stored = sessions.list_messages(self.db, last)
        through = stored[at % len(stored)]["id"] if stored and at % 3 else None
        child = self.asked("branch", name, {"title": self.named("t"), "through_message_id": through})[
            "child_session_id"
        ]
        words = self.model.alive[last].words
        copied = words if through is None else words[: at % len(stored) + 1]
        self.model.alive[child] = Transcript(last, list(copied), apart=True)
        self.changed(name)

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, keep=st.integers(0, 4))
    def compress(self, pick: int, keep: int) -> None:
        """A summary and the last messages continue the transcript."""
        name = self.pick(pick)
        last = self.model.last(name)
        known, summary = self.model.alive[last], self.named("sum")
        if known.ended == "session_reset":
            return
        child = self.asked("compress", name, {"summary": summary, "keep_last": keep})["child_session_id"]
        self.model.alive[child] = Transcript(last, [summary, *(known.words[-keep:] if keep else [])])
        known.next, known.ended = child, "compression"
        self.model.alive[name].generation += 1
        self.changed(name, last)

    @precondition(lambda self: self.model.were_reset())
    @rule(pick=PICK)
    def compress_what_was_reset(self, pick: int) -> None:
        """A transcript that a reset has ended is not continued."""
        names = self.model.were_reset()
        with self.desk.owner.refuses("admission_conflict"):
            self.desk.mutate("compress", {"summary": "x"}, names[pick % len(names)])
        self.seen.add("compress: refused")

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        """A session goes with what continues it and their delegates."""
        name = self.pick(pick)
        family = self.model.family(name)
        assert set(self.asked("delete", name, {})["deleted_ids"]) == family
        self.model.forget(family)

    @rule(pick=PICK)
    def take_over(self, pick: int) -> None:
        """A session comes from elsewhere, together with one that is there already."""
        name, words = self.named("i"), [self.named("w")]
        entries = [{"session": {"id": name}, "messages": [{"role": "user", "content": each} for each in words]}]
        if self.model.alive:
            entries.append({"session": {"id": self.pick(pick)}, "messages": []})
        answer = self.asked("import", name, {"sessions": entries})
        assert answer["imported_ids"] == [name]
        self.model.alive[name] = Transcript(None, words, revision=1)

    @precondition(lambda self: self.model.requests)
    @rule(pick=PICK, change=st.sampled_from(["nothing", "nothing", "payload"]))
    def retry(self, pick: int, change: str) -> None:
        """The exact retry answers as then, without the words of what is gone; another payload conflicts."""
        request = self.model.requests[pick % len(self.model.requests)]
        if change == "payload":
            with self.desk.owner.refuses("admission_conflict"):
                self.desk.call({**request.arguments, "operation": "rename", "payload": {"title": "another"}})
            self.seen.add("conflict")
            return
        self.replayed(request)

    def replayed(self, request: Request) -> None:
        """Make a call again and compare the answer."""
        stripped = bool(request.named & self.model.gone)
        expected = {key: value for key, value in request.answer.items() if not (stripped and key in TEXTS)}
        with self.desk.owner.changes_nothing():
            assert self.desk.call(request.arguments) == expected
        self.seen.add("gone: replayed" if stripped else "replayed")

    @precondition(lambda self: self.model.of_what_is_gone())
    @rule(pick=PICK)
    def retry_what_is_gone(self, pick: int) -> None:
        """Also when the session is gone the retry answers."""
        requests = self.model.of_what_is_gone()
        self.replayed(requests[pick % len(requests)])

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, fence=st.sampled_from(["expected_revision", "expected_generation"]))
    def ask_late(self, pick: int, fence: str) -> None:
        """A caller that believes in another revision or generation changes nothing."""
        reason = "revision_conflict" if fence == "expected_revision" else "stale_generation"
        arguments = self.desk.arguments("delete", {}, self.pick(pick))
        with self.desk.owner.refuses(reason):
            self.desk.call({**arguments, fence: arguments[fence] + 1})
        self.seen.add("stale")

    @precondition(lambda self: self.model.alive)
    @rule(pick=PICK, operation=st.sampled_from(["reset", "branch", "compress", "delete"]))
    def ask_while_busy(self, pick: int, operation: str) -> None:
        """An input that waits keeps the lineage as it is; withdrawn, it goes with the session like any other."""
        name = self.pick(pick)
        waiting = self.desk.owner.admit(self.named("r"), name)
        payload = {"summary": "x"} if operation == "compress" else {}
        with self.desk.owner.refuses("session_busy"):
            self.desk.mutate(operation, payload, self.model.last(name))
        self.desk.owner.cancel(waiting)
        self.seen.add("busy")

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """Transcripts, parents, counters and ends are those of the model, and what is gone is gone."""
        if not hasattr(self, "db"):
            return
        rows = {str(row["id"]): row for row in self.db.read(lambda tx: tx.execute("SELECT * FROM sessions"))}
        assert rows.keys() == self.model.alive.keys()
        for name, known in self.model.alive.items():
            row = rows[name]
            assert (row["runtime_generation"], row["runtime_revision"]) == (known.generation, known.revision)
            assert (row["end_reason"], row["parent_session_id"]) == (known.ended, known.parent)
            assert self.desk.said(name) == known.words
        stored = self.db.read(lambda tx: tx.execute("SELECT DISTINCT session_id FROM messages"))
        assert {str(row["session_id"]) for row in stored} <= rows.keys()

    def teardown(self) -> None:
        """Close the database."""
        with contextlib.suppress(RuntimeStoreError):
            self.db.close()


def test_any_sequence_of_mutations_does_what_the_model_does(engine: Engine) -> None:
    """Lineages, transcripts, counters and receipts are the model's after every step, and every outcome was reached."""
    seen: set[str] = set()

    class Noting(Mutations):
        """Notes in one place, over all runs, what was reached."""

        def __init__(self, engine: Engine) -> None:
            super().__init__(engine)
            self.seen = seen

    hold(Noting, engine, lambda: EXPECTED - seen, examples=40, on_server=10, steps=30)
    assert seen <= EXPECTED
