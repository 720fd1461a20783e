"""Laws of one session's workers that hold after any sequence of calls, by owners of any epoch, in any order.

The test keeps a model of its own: what each worker is, told by nothing but the calls that were made.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fsm import sessions
from fsm.lifecycles import WORKER_EXECUTION
from fsm.observers import Transition, observe
from tests.engines import Engine
from tests.laws import declared_edges, hold, never_seen
from tests.sessions.support import Owner
from tests.workers.model import Model, Turn
from tests.workers.support import OTHER_SECRET, SECRET, Works
from tests.world import ManualClock

WORKERS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["cron", "cron", "child", "compute"])
PICKS = st.integers(0, 7)
LOST = st.sampled_from(["no", "recovered", "not recovered"])
OFFSETS = st.sampled_from([0, 0, 0, 0, 1, 2, -1])
READS = ("session.context", "session.tail_role")

TAKEN: set[tuple[str, str, str]] = set()
SEEN: Counter[str] = Counter()
EXPECTED = {
    *("register: answered", "register: stale_epoch", "register: stale_generation", "register: admission_conflict"),
    *("register: unknown_execution", "registered again"),
    *("adopt: answered", "adopt: stale_epoch", "adopt: stale_generation", "adopt: permission_denied"),
    *("adopt: not_found", "a claim went along"),
    *("do: answered", "do: stale_epoch", "do: stale_generation", "do: invalid_params", "do: admission_conflict"),
    *("do: not_found", "retried", "retried though the session moved on", "retried what shrank"),
    *("settled over a worker", "resolved over a worker"),
}


class Workers(RuleBasedStateMachine):
    """One session, its workers, and the owners of all epochs so far."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    @initialize()
    def start(self) -> None:
        """Begin the first epoch."""
        clock, ids = ManualClock(), itertools.count(1)
        db = self.engine.fresh(clock=clock, new_id=lambda: f"id-{next(ids)}")
        self.owners = [Works(Owner.begin(db, clock))]
        self.workers: dict[str, Model] = {}
        self.said: list[str] = []
        self.turn: Turn | None = None
        self.generation = 0
        self.numbers = itertools.count(1)
        self.reached = (0, 0)
        observe(db, self.note)

    def teardown(self) -> None:
        """Close the database."""
        if hasattr(self, "owners"):
            self.works.db.close()

    @staticmethod
    def note(transition: Transition) -> None:
        """Note which edge was taken."""
        if transition.lifecycle == WORKER_EXECUTION.name:
            TAKEN.add((transition.trigger, transition.source, transition.dest))

    @property
    def works(self) -> Works:
        """The present owner's."""
        return self.owners[-1]

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return len(self.owners)

    def by(self, older: bool) -> tuple[Works, bool]:
        """Return an owner, and whether it is stale."""
        return (self.owners[0], self.epoch > 1) if older else (self.works, False)

    def call(self, name: str, reason: str | None, function: Callable[[], Any]) -> Any:
        """Make a call of which the model knows how it ends; a refusal changes nothing."""
        SEEN[f"{name}: {reason or 'answered'}"] += 1
        if reason is None:
            return function()
        with self.works.refuses(reason):
            function()
        return None

    # --- owners and turns

    @rule(recovers=st.booleans())
    def succeed(self, recovers: bool) -> None:
        """Let another owner begin, which recovers at once or later."""
        self.owners.append(self.works.succeed())
        if recovers:
            self.recover()

    @rule()
    def recover(self) -> None:
        """Lose what older owners left."""
        lost = self.turn is not None and self.turn.status == "started" and self.turn.owner != self.epoch
        assert self.works.owner.recover() == int(lost)
        for each in self.workers.values():
            if each.live and each.owner != self.epoch:
                each.status = "terminal" if each.kind == "child" else "unknown"
        if lost and self.turn is not None:
            self.turn.status = "unknown"

    @rule()
    def begin_turn(self) -> None:
        """Claim an input where nothing stands in its way; the session's generation moves."""
        if self.turn is None and not any(each.live for each in self.workers.values()):
            self.turn = Turn(self.works.owner.start(f"r{next(self.numbers)}"), self.epoch)
            self.generation += 1

    @rule()
    def end_turn(self) -> None:
        """Settle the turn, or resolve it where it is unknown; its workers end with it."""
        turn = self.turn
        if turn is None or (turn.status == "started" and turn.owner != self.epoch):
            return
        mine = [
            each
            for each in self.workers.values()
            if each.live and (each.generation, each.owner) == (turn.view["generation"], turn.owner)
        ]
        if turn.status == "started":
            self.works.owner.settle(turn.view)
            SEEN["settled over a worker"] += len(mine)
        else:
            self.works.owner.resolve(turn.view)
            SEEN["resolved over a worker"] += len(mine)
        for each in mine:
            each.status = "terminal"
        self.turn = None

    # --- registration and adoption

    @rule(worker=WORKERS, kind=KINDS, older=st.booleans(), step=st.sampled_from([0, 0, 0, 1]))
    def register(self, worker: str, kind: str, older: bool, step: int) -> None:
        """Register under a name that may be taken."""
        works, stale = self.by(older)
        known, generation = self.workers.get(worker), self.generation + step
        reason = "stale_epoch" if stale else self.judge_registration(known, kind, generation)
        self.call("register", reason, lambda: works.register(worker, kind=kind, generation=generation))
        if reason is None and known is not None:
            SEEN["registered again"] += 1
        elif reason is None:
            self.workers[worker] = Model(kind, generation, self.epoch)

    def judge_registration(self, known: Model | None, kind: str, generation: int) -> str | None:
        """Return how a registration by the present owner must end."""
        if generation != self.generation:
            return "stale_generation"
        if known is not None:
            same = (known.kind, known.generation, known.owner) == (kind, generation, self.epoch)
            return None if same else "admission_conflict"
        if any(each.live for each in self.workers.values()):
            return "stale_generation"
        return "unknown_execution" if self.turn is not None and self.turn.status == "unknown" else None

    @rule(kind=KINDS)
    def register_another(self, kind: str) -> None:
        """Register under a name of its own."""
        self.register(worker=f"w{next(self.numbers)}", kind=kind, older=False, step=0)

    @rule(pick=st.integers(1, 3))
    def register_again(self, pick: int) -> None:
        """Repeat a registration exactly."""
        name, known = self.pick(pick)
        if known is not None:
            self.register(worker=name, kind=known.kind, older=False, step=known.generation - self.generation)

    @rule(kind=KINDS)
    def register_after_a_loss(self, kind: str) -> None:
        """Let the owner of a turn go that has no worker, and register one for it."""
        self.end_everything()
        self.begin_turn()
        self.succeed(recovers=True)
        self.register_another(kind=kind)

    @rule()
    def end_everything(self) -> None:
        """Let the worker that is at work finish, if it can, and end the turn."""
        for place in (1, 2, 3):
            self.finish(pick=place, offset=0, older=False)
        self.end_turn()

    @rule(kind=KINDS, lost=LOST, does=st.sets(st.sampled_from(["speaks", "proves", "ends"])))
    def work_on_a_turn(self, kind: str, lost: str, does: set[str]) -> None:
        """Begin a turn with a worker; its owner may go, the worker prove itself, and the turn end over it."""
        self.end_everything()
        self.begin_turn()
        self.register_another(kind=kind)
        if "speaks" in does:
            self.say(pick=1, offset=0, older=False)
        if lost != "no":
            self.succeed(recovers=lost == "recovered")
        self.adopt(pick=1, older=False, proves=False)
        if "proves" in does:
            self.adopt(pick=1, older=False, proves=True)
        if "ends" in does:
            self.end_turn()

    def pick(self, pick: int) -> tuple[str, Model | None]:
        """Return one of the latest workers, 1 being the last, or one that was never registered."""
        names = [*self.workers][:-4:-1]
        name = names[(pick - 1) % len(names)] if names and pick else "nobody"
        return name, self.workers.get(name)

    @rule(pick=PICKS, older=st.sampled_from([False, False, True]), proves=st.sampled_from([True, True, False]))
    def adopt(self, pick: int, older: bool, proves: bool) -> None:
        """Let a worker prove itself, or fail to."""
        works, stale = self.by(older)
        name, known = self.pick(pick)
        reason = "stale_epoch" if stale else self.judge_adoption(known, proves)
        given = {"generation": known.generation if known else 0, "adoption_secret": SECRET if proves else OTHER_SECRET}
        self.call("adopt", reason, lambda: works.adopt(name, **given))
        if reason is None and known is not None:
            self.take_along(known)
            known.status, known.owner = "running", self.epoch

    def judge_adoption(self, known: Model | None, proves: bool) -> str | None:
        """Return how an adoption by the present owner must end."""
        if known is None:
            return "not_found"
        if known.generation != self.generation or not known.live:
            return "stale_generation"
        return None if proves else "permission_denied"

    def take_along(self, worker: Model) -> None:
        """Let the claim of a worker go on with it."""
        turn = self.turn
        if turn is not None and (turn.view["generation"], turn.owner) == (worker.generation, worker.owner):
            SEEN["a claim went along"] += turn.owner != self.epoch
            turn.owner, turn.status = self.epoch, "started"

    # --- operations

    @rule(pick=PICKS, offset=OFFSETS, older=st.sampled_from([False] * 4 + [True]))
    def say(self, pick: int, offset: int, older: bool) -> None:
        """Append a message of its own, in or out of order."""
        text = f"m{next(self.numbers)}"
        payload = {"messages": [{"role": "user", "content": text}]}
        if self.operate(pick, "transcript.append", payload, offset, older):
            self.said.append(text)

    @rule(pick=PICKS, offset=OFFSETS, read=st.sampled_from(READS))
    def read(self, pick: int, offset: int, read: str) -> None:
        """Read, in or out of order."""
        self.operate(pick, read, {}, offset, older=False)

    @rule(pick=PICKS, offset=OFFSETS, older=st.booleans())
    def finish(self, pick: int, offset: int, older: bool) -> None:
        """Report the end, in or out of order."""
        self.operate(pick, "execution.finish", {}, offset, older)

    def operate(self, pick: int, operation: str, payload: Any, offset: int, older: bool) -> bool:
        """Report an operation that was never reported; say whether it was taken."""
        works, stale = self.by(older)
        name, known = self.pick(pick)
        number = max(1, (len(known.receipts) if known else 0) + 1 + offset)
        taken = known is not None and number <= len(known.receipts)
        if taken and known is not None and known.receipts[number - 1][:2] == (operation, payload):
            return False
        reason = "stale_epoch" if stale else self.judge_operation(known, number)
        generation = known.generation if known else 0
        answer = self.call("do", reason, lambda: works.do(operation, payload, number, name, generation=generation))
        if reason is None and known is not None:
            known.receipts.append((operation, payload, answer))
            known.status = "terminal" if operation == "execution.finish" else "running"
        return reason is None

    def judge_operation(self, known: Model | None, number: int) -> str | None:
        """Return how the report of something new by the present owner must end."""
        if known is None:
            return "not_found"
        if known.generation != self.generation:
            return "stale_generation"
        if known.owner != self.epoch:
            return "stale_epoch"
        if number <= len(known.receipts):
            return "admission_conflict"
        if known.status not in {"registered", "running"}:
            return "stale_generation"
        return None if number == len(known.receipts) + 1 else "invalid_params"

    @rule(pick=PICKS, place=st.integers(0, 11), older=st.sampled_from([False, False, True]))
    def retry(self, pick: int, place: int, older: bool) -> None:
        """Repeat any earlier report exactly, whatever has happened since."""
        works, stale = self.by(older)
        name, known = self.pick(pick)
        if known is None or not known.receipts:
            return
        number = place % len(known.receipts) + 1
        operation, payload, answer = known.receipts[number - 1]
        shrank = not known.live and known.retires(number)
        reason = "stale_epoch" if stale or known.owner != self.epoch else "stale_generation" if shrank else None
        before = self.works.owner.everything()
        found = self.call("do", reason, lambda: works.do(operation, payload, number, name, generation=known.generation))
        assert self.works.owner.everything() == before
        SEEN["retried what shrank"] += reason == "stale_generation"
        if reason is None:
            assert found == answer
            SEEN["retried"] += 1
            SEEN["retried though the session moved on"] += known.generation != self.generation

    @rule(kind=KINDS, moves=st.booleans())
    def look_back(self, kind: str, moves: bool) -> None:
        """Let a worker speak, read and finish, and the session move on, or not; then repeat each of its reports."""
        self.end_everything()
        self.register_another(kind=kind)
        self.say(pick=1, offset=0, older=False)
        self.read(pick=1, offset=0, read=READS[0])
        self.say(pick=1, offset=-1, older=False)
        self.finish(pick=1, offset=0, older=False)
        if moves:
            self.begin_turn()
        for place in (0, 1, 2):
            self.retry(pick=1, place=place, older=False)

    # --- laws

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """Each worker is what the calls made it, and nothing that an older epoch asked is stored."""
        for name, known in self.workers.items():
            row = self.works.row(name) or {}
            found = (row["kind"], row["generation"], row["owner_epoch"], row["status"], row["last_sequence"])
            assert found == (known.kind, known.generation, known.owner, known.status, len(known.receipts))
        assert len(self.works.owner.execute("SELECT 1 FROM worker_executions")) == len(self.workers)

    @invariant()
    def receipts_have_no_gap(self) -> None:
        """An execution's receipts are numbered from 1 without a gap, and hold what was answered or that it was read."""
        for name, known in self.workers.items():
            rows = self.works.receipts(name)
            assert [row["sequence"] for row in rows] == list(range(1, len(known.receipts) + 1))
            for number, row in enumerate(rows, start=1):
                shrank = not known.live and known.retires(number)
                expected = {"retired": True} if shrank else known.receipts[number - 1][2]
                assert json.loads(str(row["result_json"])) == expected

    @invariant()
    def a_receipt_is_applied_once(self) -> None:
        """The transcript holds each message that was taken once, in the order in which they were, and no other."""
        assert [each["content"] for each in sessions.list_messages(self.works.db, "s")] == self.said

    @invariant()
    def nothing_goes_back(self) -> None:
        """The session's generation and revision never go back, and one worker at most is at work."""
        row = self.works.owner.session()
        now = (int(row["runtime_generation"] or 0), int(row["runtime_revision"] or 0))
        assert now[0] == self.generation
        assert all(a >= b for a, b in zip(now, self.reached, strict=True))
        self.reached = now
        assert sum(each.live for each in self.workers.values()) <= 1


def test_the_laws(engine: Engine) -> None:
    """No sequence of calls breaks a law; every outcome that the model knows, and every edge, was seen in some."""
    SEEN.clear()
    TAKEN.clear()
    # A child is never left unknown by the library; `test_executions` ends one that a gateway has left so.
    edges = declared_edges(WORKER_EXECUTION, but=("discard", "delete")) - {("lose", "unknown", "terminal")}
    hold(Workers, engine, lambda: never_seen(EXPECTED, SEEN) | (edges - TAKEN), examples=80, on_server=8, steps=30)
