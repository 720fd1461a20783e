"""Steps, values and constants that could not run are refused when they are declared, never when they are fired."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from attrs import evolve

from fsm.errors import DefinitionError, RefusedError
from fsm.lifecycle import (
    DECLINE,
    GONE,
    NEW,
    NOW,
    Arg,
    Authority,
    Check,
    Do,
    Edge,
    Fence,
    Greater,
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
    given,
    stored,
)
from fsm.lifecycle.terms import Column as TermColumn
from fsm.machine import Machine, connect
from storage import Column, Table
from tests.lifecycle.test_checks import CREATE, DONE, FINISH, OPEN, OTHER, REFUSED, TABLE, declare, finish

BUSY = stored("status", "busy", "it is being done")
ABSENT = State("absent", "there is none", row=False)
LOOK = Look("look", OTHER, Term("m", "=", 1))
ODD_KEY = Table("jobs", (Column("an id", "TEXT"), Column("status", "TEXT")), ("an id",))
ELSEWHERE = Table("j", (Column("m", "TEXT"),), ("m",))
OWNER = Authority("owner", OTHER, {"id": Arg("id")}, REFUSED)
COUNT = Look("many", OTHER, Term("m", "=", 1), count=True)
OWN_LOOK = Look("next", TABLE, OPEN.terms)


def with_steps(*steps: Any, **more: Any) -> Lifecycle:
    """Declare the jobs with these steps around Load, Source and Write."""
    return declare(CREATE, finish(Load(), Source(), *steps, Write(), **more))


def sweep(*edges: Edge, over: Any = (), states: tuple[State, ...] = (OPEN, DONE)) -> Lifecycle:
    """Declare the jobs with one sweep over these edges."""
    return declare(CREATE, FINISH, Trigger("sweep", "many", edges=edges, kind="sweep", over=over), states=states)


class Colour(str, Enum):  # noqa: UP042 # a text mixed into an enumeration, as older code has it
    """A text that is more than a text."""

    RED = "red"


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a value of a column that an authority lacks": (
        lambda: declare(
            CREATE,
            finish(
                Authority("owner", OTHER, {"id": Arg("id")}, REFUSED),
                Load(),
                Fence(Term("n", "=", Of("owner", "x"))),
                Write(),
            ),
        ),
        "owner does not answer 'x'",
    ),
    "a value of a column that the record lacks": (
        lambda: with_steps(Fence(Term("n", "=", Of("record", "x")))),
        "record does not answer 'x'",
    ),
    "a column of a count": (
        lambda: with_steps(COUNT, Fence(Term("n", "=", Of("many", "m")))),
        "many does not answer 'm'",
    ),
    "a joined value without a join": (
        lambda: with_steps(Fence(Term("n", "=", Of("joined", "n")))),
        "no step joined has answered",
    ),
    "a replay on a join that is none": (
        lambda: with_steps(Replay(given("n"), on="joined")),
        "joined stands before the replay",
    ),
    "a replay on what a Do answers": (
        lambda: with_steps(Do("tell", "told"), Replay(given("n"), on="tell")),
        "tell stands before the replay",
    ),
    "a count where nothing is counted": (
        lambda: with_steps(evolve(LOOK, checks=(Check(Term("count", "<", 3), REFUSED),))),
        "'count' is no column of others",
    ),
    "a column where only a count is": (
        lambda: with_steps(evolve(COUNT, checks=(Check(Term("m", "<", 3), REFUSED),))),
        "'m' is no column of the count",
    ),
    "a found value in a sweep": (
        lambda: sweep(Edge(OPEN, DONE, Term("n", "=", Of("head", "n")))),
        "no step head has answered",
    ),
    "a found value in what a sweep is over": (
        lambda: sweep(Edge(OPEN, DONE), over=Term("n", "=", Of("head", "n"))),
        "no step head has answered",
    ),
    "a state that depends on an argument": (
        lambda: declare(CREATE, FINISH, states=(OPEN, evolve(DONE, terms=(*DONE.terms, *given("n"))))),
        "name an argument or a found value",
    ),
    "a column on the right": (lambda: Term("n", "=", TermColumn("m")), "a column is named on the left"),
    "a number on the left": (lambda: Term(5, "=", 5), "begins with a column"),
    "a list on the right": (lambda: Term("n", "in", [1]), "is none of them"),
    "an infinity in a list": (lambda: Term("n", "in", (1, float("inf"))), "is none of them"),
    "an integer beyond 64 bits": (lambda: Term("n", "=", 2**63), "is none of them"),
    "bytes": (lambda: Term("n", "=", b"x"), "is none of them"),
    "a text with NUL": (lambda: Term("id", "=", "a\0b"), "is none of them"),
    "an infinity that is written": (lambda: Edge(OPEN, DONE, (), {"n": float("inf")}), "is none of them"),
    "a text compared with a number": (
        lambda: with_steps(Fence(Term("n", "=", "1"))),
        "str does not fit the INTEGER column 'n'",
    ),
    "a number compared with a text": (
        lambda: with_steps(Fence(Term("id", "in", (1, 2)))),
        "int does not fit the TEXT column 'id'",
    ),
    "a text written into a number": (
        lambda: with_steps(edges=(Edge(OPEN, DONE, (), {"n": "1"}),)),
        "str does not fit the INTEGER column 'n'",
    ),
    "null written where none may be": (
        lambda: with_steps(edges=(Edge(OPEN, DONE, (), {"n": None}),)),
        "NoneType does not fit the INTEGER column 'n'",
    ),
    "a load by what is no look": (
        lambda: declare(CREATE, finish(Load(by="next"), Write())),
        "no earlier Look at the record's own table",
    ),
    "a load by a look elsewhere": (lambda: declare(CREATE, finish(LOOK, Load(by="look"), Write())), "no earlier Look"),
    "a load by a count": (
        lambda: declare(CREATE, finish(Look("next", TABLE, OPEN.terms, count=True), Load(by="next"), Write())),
        "no earlier Look",
    ),
    "a new record loaded by a look": (
        lambda: declare(Trigger("create", "x", OWN_LOOK, Load(by="next"), Write(), edges=CREATE.edges), FINISH),
        "cannot be loaded by what a Look found",
    ),
    "an edge from nowhere to nowhere": (
        lambda: declare(CREATE, FINISH, Trigger("drop", "x", Load(), Write(), edges=(Edge(NEW, GONE),))),
        "joins two places without a row",
    ),
    "an edge that writes into a row-less state": (
        lambda: declare(
            Trigger("create", "x", Load(), Write(), edges=(Edge(ABSENT, OPEN),)),
            finish(Load(), Write(), edges=(Edge(OPEN, ABSENT, (), {"n": 1}),)),
            states=(ABSENT, OPEN),
        ),
        "an edge to absent writes",
    ),
    "an edge from new beside a row-less state": (
        lambda: declare(CREATE, finish(Load(), Write(), edges=(Edge(OPEN, ABSENT),)), states=(ABSENT, OPEN)),
        "it leaves new, while absent stands for a record without a row",
    ),
    "a sweep that makes records": (lambda: sweep(Edge(NEW, OPEN)), "a sweep cannot make records"),
    "a clock that makes records": (
        lambda: declare(Trigger("create", "x", kind="time", edges=(Edge(NEW, OPEN),)), FINISH),
        "a time cannot make records",
    ),
    "a sweep that moves a record twice": (
        lambda: sweep(Edge(OPEN, BUSY), Edge(BUSY, DONE), states=(OPEN, BUSY, DONE)),
        "reaches busy would be moved on by the same sweep",
    ),
    "a new row that lacks a column": (
        lambda: declare(CREATE, FINISH, table=evolve(TABLE, columns=(*TABLE.columns, Column("who", "TEXT")))),
        "a new row lacks who",
    ),
    "a write of the key": (
        lambda: with_steps(edges=(Edge(OPEN, DONE, (), {"id": Arg("id")}),)),
        "writes 'id', which names the record",
    ),
    "a key that is no argument": (
        lambda: Lifecycle(
            "job",
            "x",
            Table("jobs", (Column("an id", "TEXT"), Column("status", "TEXT")), ("an id",)),
            (OPEN, DONE),
            (CREATE, FINISH),
        ),
        "no argument can have this name",
    ),
    "a join without the record's key": (
        lambda: Lifecycle(
            "job", "x", TABLE, (OPEN, DONE), (CREATE, FINISH), Table("j", (Column("m", "TEXT"),), ("m",))
        ),
        "joined table: 'id' is no column of j",
    ),
    "a kind that is none": (lambda: finish(kind="swep"), "its kind is fire or sweep or time"),
    "a refusal of a state that is left": (
        lambda: declare(CREATE, finish(Load(), Source(REFUSED, per={OPEN: REFUSED}), Write())),
        "Source refuses open",
    ),
    "a refusal that raises nothing": (
        lambda: declare(CREATE, finish(Load(Refusal(str, "x")), Write())),  # type: ignore[arg-type] # what is tested
        "nothing that it could raise",
    ),
    "an authority without a refusal": (
        lambda: declare(CREATE, finish(Authority("owner", OTHER, {"id": Arg("id")}, None), Load(), Write())),  # type: ignore[arg-type] # what is tested
        "nothing that it could raise",
    ),
    "a sum with a text": (lambda: Plus("n", "x"), "what Plus adds must be int or Arg or Of"),  # type: ignore[arg-type] # what is tested
    "the greater of a constant": (lambda: Greater("n", 5), "must be Arg"),  # type: ignore[arg-type] # what is tested
    "a fence in words": (lambda: Fence("n = 1"), "a condition is a Term"),  # type: ignore[arg-type] # what is tested
    "a step in words": (lambda: finish("load"), "a step must be"),
    "an edge in words": (lambda: finish(Load(), edges=("open -> done",)), "an edge must be Edge"),
    "no states": (lambda: declare(CREATE, states=()), "it needs a tuple of States"),
    "an unreadable name": (lambda: Lifecycle(None, "x", TABLE, (OPEN, DONE), (CREATE, FINISH)), "not lower_case words"),  # type: ignore[arg-type] # what is tested
    "a secret that is no argument": (
        lambda: with_steps(Secret("id", Of("record", "id"), REFUSED)),  # type: ignore[arg-type] # what is tested
        "a secret is proven by an argument",
    ),
    "machines of one name": (
        lambda: connect(Machine(declare(CREATE, FINISH)), Machine(declare(CREATE, FINISH))),
        "one lifecycle's name",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_could_not_run_is_refused(kind: str) -> None:
    """Each is refused with DefinitionError where it is written, with what is wrong."""
    make, said = WRONG[kind]
    with pytest.raises(DefinitionError) as refusal:
        make()
    assert said in str(refusal.value)


def test_constants_are_taken_by_their_value() -> None:
    """An enumeration's member and a bool count as the text and the integer that they are."""
    assert Term("id", "=", Colour.RED) == Term("id", "=", "red")
    assert type(Term("id", "=", Colour.RED).right) is str
    assert type(Term("n", "=", bool(1)).right) is int


def test_a_step_may_decline_wherever_it_may_refuse() -> None:
    """DECLINE stands in the place of any refusal but a conflict's."""
    declined = declare(CREATE, finish(Load(DECLINE), Fence(given("n"), DECLINE), Source(DECLINE), Write(DECLINE)))
    assert Machine(declined).lifecycle is declined


def test_a_refusal_may_be_any_function_that_makes_an_error() -> None:
    """What makes the error may be a class or a function, and a state may depend on the clock."""
    late = State("late", "it should be done", (*OPEN.terms, Term("n", "<", NOW)))
    early = State("early", "there is time", (*OPEN.terms, Term("n", ">=", NOW)))
    made = Refusal(lambda said: RefusedError(said.upper()), "try again")
    create = evolve_edges(CREATE, early)
    end = finish(Load(made), Source(made), Write(made), edges=(Edge(early, DONE), Edge(late, DONE)))
    clock = Trigger("pass", "time goes by", kind="time", edges=(Edge(early, late),))
    assert Machine(declare(create, end, clock, states=(early, late, DONE))).lifecycle.initial == (early,)


def evolve_edges(trigger: Trigger, dest: State) -> Trigger:
    """Return the creating trigger with another destination."""
    return Trigger(trigger.name, trigger.when, *trigger.steps, edges=(Edge(NEW, dest, (), {"n": NOW}),))
