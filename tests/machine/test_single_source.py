"""One more state or edge in a declaration changes machine, SQL, CHECK, diagram and reference table by itself."""

from attrs import frozen

from diagrams import describe, mermaid, reference
from fsm import Edge, Lifecycle, Load, Machine, Source, Trigger, Write, stored, table_of
from fsm.lifecycle.structure import GONE, NEW
from fsm.machine.statements import write_statement
from storage import Column, Database, Schema, Table

DOORS = Table("doors", (Column("id", "INTEGER"), Column("status", "TEXT")), primary_key=("id",))
OPEN = stored("status", "open", "one can walk through")
SHUT = stored("status", "shut", "one must open it first")
LOCKED = stored("status", "locked", "one needs a key")

BUILD = Trigger("build", "a wall gets a door", Load(), Write(), edges=(Edge(NEW, OPEN),))
SHUTTING = Trigger("close", "it is cold", Load(), Source(), Write(), edges=(Edge(OPEN, SHUT),))
REMOVE = Trigger("remove", "it is walled up", Load(), Source(), Write(), edges=(Edge(SHUT, GONE),))
LOCK = Trigger("lock", "it is night", Load(), Source(), Write(), edges=(Edge(SHUT, LOCKED),))
UNLOCK = Trigger("unlock", "it is day", Load(), Source(), Write(), edges=(Edge(LOCKED, SHUT),))


@frozen
class Derived:
    """Everything that comes from a declaration."""

    triggers: frozenset[str]
    statements: tuple[str, ...]
    check: tuple[str, ...]
    diagram: str
    table: str


def derive(lifecycle: Lifecycle) -> Derived:
    """Return what machine, SQL, CHECK, diagram and reference table say of a lifecycle."""
    statements = (write_statement(lifecycle, trigger, edge) for trigger in lifecycle.triggers for edge in trigger.edges)
    check = next(column.one_of for column in table_of(lifecycle).columns if column.name == "status")
    model = describe(lifecycle)
    return Derived(
        frozenset(Machine(lifecycle)._engine.events), tuple(statements), check, mermaid(model), reference(model)
    )


SMALL = Lifecycle("door", "a door in a wall", DOORS, (OPEN, SHUT), (BUILD, SHUTTING, REMOVE))
LARGE = Lifecycle("door", "a door in a wall", DOORS, (OPEN, SHUT, LOCKED), (BUILD, SHUTTING, REMOVE, LOCK, UNLOCK))


def test_a_new_state_shows_everywhere() -> None:
    """The state and its edges appear in all five, from nothing but the longer declaration."""
    small, large = derive(SMALL), derive(LARGE)
    assert large.triggers - small.triggers == {"lock", "unlock"}
    assert len(large.statements) - len(small.statements) == 2
    assert any("\"status\" = 'locked'" in statement for statement in large.statements)
    assert (small.check, large.check) == (("open", "shut"), ("open", "shut", "locked"))
    assert "locked" not in small.diagram
    assert "locked" in large.diagram
    assert "one needs a key" in large.table


def test_the_longer_declaration_runs_on_the_older_table(db: Database) -> None:
    """The database takes the new state as soon as the schema is required: the CHECK is rebuilt from the declaration."""
    doors = Machine(LARGE)
    db.require(Schema("small", (table_of(SMALL),)))
    with db.transaction() as tx:
        doors.fire(tx, "build", now=1.0, id=1)
        doors.fire(tx, "close", now=1.0, id=1)
    db.require(Schema("large", (table_of(LARGE),)))
    with db.transaction() as tx:
        assert doors.fire(tx, "lock", now=2.0, id=1).state == "locked"
        assert doors.fire(tx, "unlock", now=3.0, id=1).state == "shut"
