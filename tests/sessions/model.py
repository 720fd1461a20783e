"""What a session's inputs are by all the calls that were made, and the laws that hold of them after each."""

from collections import Counter
from typing import Any

from attrs import define, evolve
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from fsm import sessions
from fsm.lifecycles import SESSION_ADMISSION
from fsm.observers import Transition, observe
from tests.engines import Engine
from tests.sessions.support import Owner
from tests.world import ManualClock

FINAL = {"completed", "interrupted", "rejected", "failed", "cancelled", "steered"}
SEEN: Counter[str] = Counter()
"""How often each outcome of a call has happened."""
TAKEN: set[tuple[str, str, str]] = set()
"""The edges that were taken."""


@define
class Input:
    """An input by all that was asked of it: `state` as declared, and the claim it belongs to."""

    request: str
    session: str
    payload: dict[str, Any]
    admission_id: str
    seq: int
    state: str = "queued"
    epoch: int | None = None
    generation: int | None = None
    settlement: tuple[str, Any] | None = None
    delivered: int = 0


@define
class Worker:
    """A worker at work on a session's turn, or lost."""

    execution_id: str
    epoch: int
    generation: int
    lost: bool = False


@define
class Home:
    """A session by all that was asked of it."""

    generation: int = 0
    revision: int = 0
    worker: Worker | None = None


class Model(RuleBasedStateMachine):
    """Three sessions, and owners that replace each other."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    @initialize()
    def start(self) -> None:
        """Begin an epoch over three empty sessions."""
        self.db = self.engine.fresh(clock=ManualClock())
        observe(self.db, self.hear)
        owner = Owner.begin(self.db, ManualClock())
        for name in ("t", "u"):
            owner.open(name)
        self.owners = [owner, evolve(owner, epoch=0)]
        self.inputs: list[Input] = []
        self.homes = {name: Home() for name in ("s", "t", "u")}
        self.numbers = iter(range(1, 10_000))
        self.reached: dict[str, tuple[Any, Any]] = {}

    def hear(self, transition: Transition) -> None:
        """Note an edge that was taken."""
        if transition.lifecycle == SESSION_ADMISSION.name:
            TAKEN.add((transition.trigger, transition.source, transition.dest))

    def teardown(self) -> None:
        """Close the database."""
        if hasattr(self, "db"):
            self.db.close()

    # --- what the model knows

    @property
    def epoch(self) -> int:
        """The epoch of the present owner."""
        return self.owners[0].epoch

    def among(self, session: str, *states: str) -> list[Input]:
        """Return the inputs of a session in these states, in the order of their numbers."""
        return sorted(
            (each for each in self.inputs if each.session == session and each.state in states),
            key=lambda each: each.seq,
        )

    def pick(self, number: int) -> Input | None:
        """Return some input, as often as not one that has not ended."""
        unfinished = [each for each in self.inputs if each.state not in FINAL]
        pool = unfinished if number % 2 and unfinished else self.inputs
        return pool[number // 2 % len(pool)] if pool else None

    def call(self, which: int, reason: str | None, what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a call of which the model knows how it ends; a refusal changes nothing. An older owner gets nowhere."""
        owner = self.owners[which]
        if owner.epoch != self.epoch:
            reason, what = "stale_epoch", "stale_epoch"
        SEEN[f"{function.__name__}: {reason}" if reason and reason != "stale_epoch" else what] += 1
        if reason is None:
            return function(owner, *args, **kwargs)
        with owner.refuses(reason):
            function(owner, *args, **kwargs)
        return None

    def check_view(self, known: Input, view: Any) -> None:
        """Compare a view with the model."""
        state = view["outcome"] if view["status"] == "terminal" else view["status"]
        assert (view["admission_id"], view["seq"], state) == (known.admission_id, known.seq, known.state)
        assert (view["payload"], view["target_session_id"]) == (known.payload, known.session)
        assert known.state in {"queued", "cancelled"} or view["generation"] == known.generation

    def bound_to(self, running: Input) -> list[Input]:
        """Return what steers towards a turn."""
        claim = (running.epoch, running.generation)
        return [each for each in self.among(running.session, "steering") if (each.epoch, each.generation) == claim]

    def deliver(self, each: Input, delivered: bool | None, outcome: str) -> None:
        """Let the model follow what becomes of a transfer."""
        if delivered is False:
            each.state, each.generation = "queued", None
        else:
            each.state = "steered" if delivered and outcome == "completed" else "interrupted"
            each.delivered += 1

    # --- laws

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """Each input is in the state that the calls gave it, under the claim that they gave it, in its own place."""
        stored = self.owners[0].execute("SELECT * FROM session_admissions")
        rows = {str(row["admission_id"]): row for row in stored}
        assert rows.keys() == {each.admission_id for each in self.inputs}
        for each in self.inputs:
            row = rows[each.admission_id]
            state = row["outcome"] if row["status"] == "terminal" else row["status"]
            assert (state, row["seq"], row["target_session_id"]) == (each.state, each.seq, each.session)
            assert each.state in {"queued", "cancelled"} or (row["owner_epoch"], row["generation"]) == (
                each.epoch,
                each.generation,
            )

    @invariant()
    def a_session_has_one_turn(self) -> None:
        """At most one input of a session is started or unknown, and it has the session's own generation."""
        for name, home in self.homes.items():
            standing = self.among(name, "started", "unknown")
            assert len(standing) <= 1
            assert all(each.generation == home.generation for each in standing)

    @invariant()
    def sessions_are_as_the_model_says(self) -> None:
        """Generations and revisions move as the calls say, and never go back."""
        for row in self.owners[0].execute("SELECT * FROM sessions"):
            name, now = str(row["id"]), (row["runtime_generation"], row["runtime_revision"])
            assert now == (self.homes[name].generation, self.homes[name].revision)
            assert all(a >= b for a, b in zip(now, self.reached.get(name, (0, 0)), strict=True))
            self.reached[name] = now

    @invariant()
    def a_text_is_delivered_once(self) -> None:
        """What was handed to a turn ends with it once, and is never claimed after it may have been delivered."""
        assert all(each.delivered <= 1 for each in self.inputs)
        assert all(each.state in {"steered", "interrupted"} for each in self.inputs if each.delivered)

    @invariant()
    def what_is_read_is_what_is_stored(self) -> None:
        """A session's list shows its open inputs in their order: by it a caller learns what became of a lost claim."""
        for name in self.homes:
            listed = sessions.list_session_admissions(self.db, session_id=name)
            known = self.among(name, "queued", "started", "unknown")
            assert [(each["seq"], each["status"]) for each in listed] == [(each.seq, each.state) for each in known]
            for view, each in zip(listed, known, strict=True):
                assert each.state == "queued" or (view["owner_epoch"], view["generation"]) == (
                    each.epoch,
                    each.generation,
                )
