"""A declaration that contradicts itself is refused, and the message names the place and the remedy."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given as hypothesis_given

from fsm.errors import DefinitionError, RefusedError
from fsm.lifecycle import (
    GONE,
    NEW,
    Arg,
    Authority,
    Check,
    Do,
    Edge,
    Fence,
    Lifecycle,
    Load,
    Look,
    Of,
    Plus,
    Refusal,
    Replay,
    Secret,
    Source,
    State,
    Term,
    Trigger,
    Write,
    choice,
    given,
    stored,
)
from fsm.machine import Machine, connect
from storage import Column, Table
from tests.strategies import lifecycles

TABLE = Table(
    "jobs", (Column("id", "TEXT"), Column("status", "TEXT"), Column("n", "INTEGER", default=0)), primary_key=("id",)
)
OTHER = Table("others", (Column("id", "TEXT"), Column("m", "INTEGER")), primary_key=("id",))
OPEN = stored("status", "open", "it may be done")
DONE = stored("status", "done", "it was done", final=True)
LOST = stored("status", "lost", "nobody knows", final=True)
REFUSED = Refusal(RefusedError, "try again")
CREATE = Trigger("create", "it is asked for", Load(), Write(), edges=(Edge(NEW, OPEN),))
ON_TO_DONE = (Edge(OPEN, DONE),)
FINISH = Trigger("finish", "it is done", Load(), Source(), Write(), edges=ON_TO_DONE)


def declare(*triggers: Trigger, states: tuple[State, ...] = (OPEN, DONE), table: Table = TABLE) -> Lifecycle:
    """Declare a lifecycle of jobs."""
    return Lifecycle("job", "work to be done", table, states, triggers)


def finish(*steps: Any, edges: Any = ON_TO_DONE, **more: Any) -> Trigger:
    """Return a trigger `finish` with these steps."""
    return Trigger("finish", "it is done", *steps, edges=edges, **more)


WRONG: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "an unknown state in an edge": (
        lambda: declare(
            CREATE, finish(Load(), Source(), Write(), edges=(Edge(OPEN, DONE), Edge(OPEN, LOST, given("n"))))
        ),
        ("trigger finish", "state lost is unknown", "add it"),
    ),
    "no creating trigger": (lambda: declare(FINISH), ("one trigger must create", "found none")),
    "a second creating trigger": (
        lambda: declare(CREATE, FINISH, Trigger("make", "again", Load(), Write(), edges=(Edge(NEW, OPEN),))),
        ("found create, make", "imports=True"),
    ),
    "a state that cannot be reached": (
        lambda: declare(CREATE, FINISH, states=(OPEN, DONE, LOST)),
        ("state lost", "cannot be reached", "add an edge"),
    ),
    "a non-final state with no way out": (
        lambda: declare(CREATE, FINISH, states=(OPEN, stored("status", "done", "it was done"))),
        ("state done is unknown",),
    ),
    "a state that is never left": (
        lambda: declare(CREATE, states=(OPEN,)),
        ("state open", "no way out", "declare it final"),
    ),
    "a final state with a way out": (
        lambda: declare(
            CREATE, FINISH, Trigger("reopen", "again", Load(), Source(), Write(), edges=(Edge(DONE, OPEN),))
        ),
        ("state done", "leads to open", "remove the edge"),
    ),
    "two edges that could both be taken": (
        lambda: declare(
            CREATE,
            finish(Load(), Source(), Write(), edges=(Edge(OPEN, DONE), Edge(OPEN, LOST))),
            states=(OPEN, DONE, LOST),
        ),
        ("trigger finish", "two edges from open", "contradict"),
    ),
    "two states that a record could be in at once": (
        lambda: declare(CREATE, FINISH, states=(OPEN, DONE, State("busy", "at work", Term("n", ">", 0)))),
        ("states open and busy", "in both", "contradict"),
    ),
    "a fence on no column": (
        lambda: declare(CREATE, finish(Load(), Fence(given("generation")), Source(), Write())),
        ("trigger finish", "'generation' is no column of jobs", "id, n, status"),
    ),
    "a guard on no column": (
        lambda: declare(CREATE, finish(Load(), Source(), Write(), edges=(Edge(OPEN, DONE, given("generation")),))),
        ("trigger finish", "'generation' is no column"),
    ),
    "a write to no column": (
        lambda: declare(CREATE, finish(Load(), Source(), Write(), edges=(Edge(OPEN, DONE, (), {"at": 1}),))),
        ("trigger finish", "'at' is no column"),
    ),
    "a state's term on no column": (
        lambda: declare(CREATE, FINISH, states=(OPEN, DONE, State("odd", "odd", Term("colour", "=", "red")))),
        ("state odd", "'colour' is no column"),
    ),
    "a requirement on no column": (
        lambda: declare(CREATE, FINISH, states=(evolve(OPEN, requires=Term("colour", "is null")), DONE)),
        ("state open", "'colour' is no column"),
    ),
    "a look at no column": (
        lambda: declare(CREATE, finish(Load(), Source(), Look("first", OTHER, Term("n", "=", 1)), Write())),
        ("'n' is no column of others",),
    ),
    "an authority on no column": (
        lambda: declare(
            CREATE,
            finish(
                Authority("owner", OTHER, {"id": Arg("id")}, REFUSED, (Check(given("n"), REFUSED),)), Load(), Write()
            ),
        ),
        ("'n' is no column of others",),
    ),
    "a secret in no column": (
        lambda: declare(CREATE, finish(Load(), Secret("digest", Arg("secret"), REFUSED), Write())),
        ("'digest' is no column",),
    ),
    "a found value that nothing found": (
        lambda: declare(CREATE, finish(Load(), Source(), Fence(Term("n", "=", Of("head", "n"))), Write())),
        ("no step head has answered",),
    ),
    "a replay on a row that nothing found": (
        lambda: declare(CREATE, finish(Load(), Replay(given("n"), on="head"), Source(), Write())),
        ("no Look or joined row head stands before the replay",),
    ),
    "an edge write that the state itself makes": (
        lambda: declare(CREATE, finish(Load(), Source(), Write(), edges=(Edge(OPEN, DONE, (), {"status": "lost"}),))),
        ("writes 'status'", "remove it"),
    ),
    "an edge to gone that writes": (
        lambda: declare(
            CREATE, FINISH, Trigger("drop", "away", Load(), Write(), edges=(Edge(DONE, GONE, (), {"n": 1}),))
        ),
        ("an edge to gone writes",),
    ),
    "an edge that leaves gone": (
        lambda: declare(CREATE, FINISH, Trigger("revive", "back", Load(), Write(), edges=(Edge(GONE, OPEN),))),
        ("leaves gone",),
    ),
    "a new row that computes": (
        lambda: declare(
            Trigger("create", "x", Load(), Write(), edges=(Edge(NEW, OPEN, (), {"n": Plus("n", 1)}),)), FINISH
        ),
        ("trigger create", "computes 'n' from a row that is not there", "constant"),
    ),
    "a replay whose conflict raises nothing": (
        lambda: declare(CREATE, finish(Load(), Replay(given("n"), conflict=()), Source(), Write())),
        ("a conflict without a refusal", "both or neither"),
    ),
    "no write": (lambda: declare(CREATE, finish(Load(), Source())), ("one Load and one Write",)),
    "no load": (lambda: declare(CREATE, finish(Write())), ("one Load and one Write",)),
    "a comparison after the write": (
        lambda: declare(CREATE, finish(Load(), Write(), Source())),
        ("compares after the write", "ahead of the Write"),
    ),
    "a fence before the load": (
        lambda: declare(CREATE, finish(Fence(given("n")), Load(), Write())),
        ("Fence reads the record before the Load",),
    ),
    "a trigger without an edge": (
        lambda: declare(CREATE, FINISH, Trigger("idle", "never", Load(), Write())),
        ("no edge",),
    ),
    "a sweep that loads": (
        lambda: declare(CREATE, finish(Load(), kind="sweep")),
        ("a sweep has only Authority and Look",),
    ),
    "a time edge that writes": (
        lambda: declare(CREATE, finish(kind="time", edges=(Edge(OPEN, DONE, (), {"n": 1}),))),
        ("the clock checks and writes nothing",),
    ),
    "a name with capitals": (
        lambda: declare(CREATE, FINISH, states=(OPEN, DONE, stored("status", "Half Done", "odd"))),
        ("'Half Done'", "lower_case"),
    ),
    "a name that is reserved": (
        lambda: declare(CREATE, FINISH, states=(OPEN, DONE, stored("status", "gone", "odd"))),
        ("'gone'", "meaning of its own"),
    ),
    "a state twice": (lambda: declare(CREATE, FINISH, states=(OPEN, DONE, OPEN)), ("'open'", "declared 2 times")),
    "a trigger twice": (lambda: declare(CREATE, FINISH, FINISH), ("'finish'", "declared 2 times")),
    "a step that fires what does not exist": (
        lambda: connect(
            Machine(
                declare(CREATE, finish(Load(), Source(), Do("tell", "told", fires=(("bell", "ring"),)), Write())),
                {"tell": print},
            )
        ),
        ("trigger finish", "step tell fires bell.ring", "does not exist"),
    ),
    "a step that fires an unknown trigger": (
        lambda: connect(
            Machine(
                declare(CREATE, finish(Load(), Source(), Do("tell", "told", fires=(("job", "ring"),)), Write())),
                {"tell": print},
            )
        ),
        ("step tell fires job.ring", "does not exist"),
    ),
    "a step that only reads and fires": (
        lambda: declare(
            CREATE,
            finish(Load(), Source(), Do("tell", "told", fires=(("job", "create"),), reads_only=True), Write()),
        ),
        ("trigger finish", "step tell is declared to read only, and to fire", "take reads_only away, or the rest"),
    ),
    "a step that is bound to nothing": (
        lambda: Machine(declare(CREATE, finish(Load(), Source(), Do("tell", "told"), Write()))),
        ("'tell' is declared and bound to nothing",),
    ),
    "a binding that is not declared": (
        lambda: Machine(declare(CREATE, FINISH), {"tell": print}),
        ("'tell' is bound and not declared",),
    ),
    "a binding that is no function": (
        lambda: Machine(declare(CREATE, finish(Load(), Source(), Do("tell", "told"), Write())), {"tell": "tell"}),  # type: ignore[dict-item] # what is tested
        ("pass a callable",),
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_declaration_is_refused(kind: str) -> None:
    """Each kind of wrong declaration is refused when it is declared, naming lifecycle, place and remedy."""
    make, said = WRONG[kind]
    with pytest.raises(DefinitionError) as refusal:
        make()
    message = str(refusal.value)
    assert message.startswith(("lifecycle job, ", "lifecycle job:"))
    assert ";" in message
    for part in said:
        assert part in message


def test_the_right_declaration_is_accepted() -> None:
    """What the wrong declarations were made from is itself accepted."""
    assert declare(CREATE, FINISH).initial == (OPEN,)


def test_a_choice_takes_the_state_that_the_argument_names() -> None:
    """The edges of a choice contradict each other, since each needs another value of one argument."""
    both = finish(Load(), Source(), Write(), edges=choice(Arg("outcome"), OPEN, (DONE, LOST), {"n": Plus("n", 1)}))
    assert [edge.dest.name for edge in declare(CREATE, both, states=(OPEN, DONE, LOST)).triggers[1].edges] == [
        "done",
        "lost",
    ]


@hypothesis_given(lifecycles())
def test_what_is_accepted_compiles(lifecycle: Lifecycle) -> None:
    """Every lifecycle that passes the checks becomes a machine."""
    assert Machine(lifecycle).lifecycle is lifecycle
