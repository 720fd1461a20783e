"""A record named by another unique key than its primary one, and what a caller hands to the operation's own steps."""

from typing import Any

import pytest

from fsm import DefinitionError, Lifecycle, Machine, Record, observe, table_of
from fsm.lifecycle import GONE, NEW, Arg, Do, Edge, Load, Look, Source, Trigger, Write, stored
from fsm.observers import Transition
from storage import Column, Database, Schema, Table

TICKETS = Table(
    "tickets",
    (Column("seq", "INTEGER"), Column("ticket", "TEXT"), Column("status", "TEXT"), Column("n", "INTEGER", default=0)),
    primary_key=("seq",),
    unique=(("ticket",),),
    autoincrement=True,
)
WAITING = stored("status", "waiting", "nobody has called it yet")
CALLED = stored("status", "called", "it is at the counter", final=True)
DRAW = Trigger("draw", "somebody comes in", Load(), Write(), edges=(Edge(NEW, WAITING, (), {"n": Arg("n")}),))
SERVE = Trigger(
    "serve", "it is its turn", Load(), Source(), Do("say", "says it"), Write(), edges=(Edge(WAITING, CALLED),)
)
NEXT = Trigger(
    "next",
    "the counter is free",
    Look("head", TICKETS, WAITING.terms, order=("seq",)),
    Load(by="head"),
    Source(),
    Write(),
    edges=(Edge(WAITING, CALLED),),
)
TEAR = Trigger("tear", "it is done with", Load(), Source(), Write(), edges=(Edge(CALLED, GONE),))


def declare(key: tuple[str, ...] = ("ticket",)) -> Lifecycle:
    """Declare the tickets of a queue."""
    return Lifecycle("ticket", "a place in a queue", TICKETS, (WAITING, CALLED), (DRAW, SERVE, NEXT, TEAR), key=key)


@pytest.fixture
def said() -> list[Any]:
    """What the step `say` was handed, call by call."""
    return []


@pytest.fixture
def tickets(db: Database, said: list[Any]) -> Machine:
    """The machine of the tickets, on an empty table."""
    machine = Machine(declare(), {"say": lambda record: said.append(record.context.get("words"))})
    db.require(Schema("tickets", (table_of(machine.lifecycle),)))
    return machine


def draw(db: Database, tickets: Machine, *names: str) -> None:
    """Draw a ticket of each name."""
    with db.transaction() as tx:
        for name in names:
            tickets.fire(tx, "draw", now=1.0, ticket=name, n=0)


def test_a_record_is_named_by_the_declared_key(db: Database, tickets: Machine) -> None:
    """Insert, update and delete find the row by the key that the lifecycle says; the database still numbers it."""
    draw(db, tickets, "b", "a")
    with db.transaction() as tx:
        assert tickets.fire(tx, "serve", now=1.0, ticket="a").stored == {
            "seq": 2,
            "ticket": "a",
            "status": "called",
            "n": 0,
        }
        assert tickets.fire(tx, "tear", now=1.0, ticket="a").row is None
        left = tx.execute("SELECT ticket, seq FROM tickets")
    assert left == [{"ticket": "b", "seq": 1}]


def test_a_look_finds_the_declared_key(db: Database, tickets: Machine) -> None:
    """The head of a queue is loaded by the declared key, whatever the order that found it."""
    draw(db, tickets, "b", "a")
    first = db.write(lambda tx: tickets.fire(tx, "next", now=1.0))
    assert (first.stored["ticket"], first.found["head"]["ticket"]) == ("b", "b")


def test_observers_hear_the_declared_key(db: Database, tickets: Machine) -> None:
    """A transition names its record by the declared key."""
    heard: list[Transition] = []
    observe(db, heard.append)
    draw(db, tickets, "a")
    assert [each.key for each in heard] == [{"ticket": "a"}]


@pytest.mark.parametrize("key", [("n",), ("status",), (), ("ticket", "seq")])
def test_what_names_no_single_row_is_no_key(key: tuple[str, ...]) -> None:
    """A key that the table does not declare unique is refused when the lifecycle is declared."""
    with pytest.raises(DefinitionError, match="is no key of the table tickets"):
        declare(key)


def test_the_primary_key_is_the_key_unless_said(db: Database) -> None:
    """Without a word about it the primary key names a record, and the database gives it."""
    trigger = Trigger("draw", "x", Load(), Write(), edges=(Edge(NEW, WAITING, (), {"ticket": Arg("name")}),))
    lifecycle = Lifecycle("ticket", "x", TICKETS, (WAITING, CALLED), (trigger, NEXT))
    db.require(Schema("tickets", (table_of(lifecycle),)))
    assert db.write(lambda tx: Machine(lifecycle).fire(tx, "draw", now=1.0, name="a")).stored["seq"] == 1


def test_a_step_is_handed_the_callers_context(db: Database, tickets: Machine, said: list[Any]) -> None:
    """What a caller hands over reaches the operation's steps, of any type; without it there is nothing."""
    draw(db, tickets, "a", "b")
    words = object()
    db.write(lambda tx: tickets.fire(tx, "serve", {"words": words}, now=1.0, ticket="a"))
    db.write(lambda tx: tickets.fire(tx, "serve", now=1.0, ticket="b"))
    assert said == [words, None]


def test_an_argument_may_be_called_context(db: Database) -> None:
    """The context is handed over by position, so that a declaration may use its name for an argument."""
    trigger = Trigger("draw", "x", Load(), Write(), edges=(Edge(NEW, WAITING, (), {"n": Arg("context")}),))
    lifecycle = Lifecycle("ticket", "x", TICKETS, (WAITING, CALLED), (trigger, NEXT), key=("ticket",))
    machine = Machine(lifecycle)
    db.require(Schema("tickets", (table_of(lifecycle),)))
    assert db.write(lambda tx: machine.fire(tx, "draw", now=1.0, ticket="a", context=7)).stored["n"] == 7


def test_the_context_goes_along_to_what_a_step_fires(db: Database, said: list[Any]) -> None:
    """A record that a step fires is handed the same context."""

    def call(record: Record) -> None:
        record.fire("ticket", "serve", ticket="b")

    calls = Do("call", "calls the next", fires=(("ticket", "serve"),))
    tear = Trigger("tear", "x", Load(), Source(), calls, Write(), edges=(Edge(CALLED, GONE),))
    lifecycle = Lifecycle("ticket", "x", TICKETS, (WAITING, CALLED), (DRAW, SERVE, tear), key=("ticket",))
    machine = Machine(
        lifecycle,
        {
            "say": lambda record: said.append(record.context["words"]),
            "call": call,
        },
    )
    machine.link({"ticket": machine})
    db.require(Schema("tickets", (table_of(lifecycle),)))
    draw(db, machine, "a", "b")
    with db.transaction() as tx:
        machine.fire(tx, "serve", {"words": 1}, now=1.0, ticket="a")
        machine.fire(tx, "tear", {"words": 2}, now=1.0, ticket="a")
    assert said == [1, 2]
