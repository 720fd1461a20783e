"""Steps that say that they only read, or that they are the caller's own: no savepoint is set that nobody needs."""

from typing import Any

import pytest
from attrs import evolve

from fsm import DefinitionError, Lifecycle, Machine, table_of
from fsm.lifecycle import DECLINE, NEW, Arg, Check, Do, Edge, Load, Look, Of, Source, Term, Trigger, Write, stored
from storage import Column, Database, Schema, Table, Transaction
from storage.transacting import EngineTransaction

JOBS = Table(
    "jobs",
    (Column("id", "TEXT"), Column("status", "TEXT"), Column("n", "INTEGER", default=0)),
    primary_key=("id",),
)
OPEN = stored("status", "open", "it may be done")
DONE = stored("status", "done", "it was done", final=True)
CREATE = Trigger("create", "it is asked for", Load(), Write(), edges=(Edge(NEW, OPEN),))
NEVER = Look("never", JOBS, Term("n", ">", 9), checks=(Check(Term("id", "is null"), DECLINE),))
HOOK = Do("gate", "the caller's own check", hook=True)
READS = Do("count", "how many there are", reads_only=True)


def finish(*steps: Any, writes: Any = None) -> Lifecycle:
    """Declare jobs that end through these steps."""
    edge = Edge(OPEN, DONE, (), writes or {})
    trigger = Trigger("finish", "it is done", Load(), Source(), *steps, NEVER, Write(), edges=(edge,))
    return Lifecycle("job", "work", JOBS, (OPEN, DONE), (CREATE, trigger))


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every savepoint that a transaction sets."""
    made: list[object] = []
    mark = EngineTransaction.mark

    def set_one(tx: "EngineTransaction[object]") -> object:
        made.append(tx)
        return mark(tx)

    monkeypatch.setattr(EngineTransaction, "mark", set_one)
    return made


def prepared(db: Database, machine: Machine) -> Machine:
    """Store one open job, `a`."""
    db.require(Schema("jobs", (table_of(machine.lifecycle),)))
    db.write(lambda tx: machine.fire(tx, "create", now=1.0, id="a"))
    return machine


def scribble(tx: Transaction) -> None:
    """Write what an undone call must not leave behind."""
    tx.execute("UPDATE jobs SET n = n + 10")


def test_a_hook_runs_only_where_one_is_handed_over(db: Database, marks: list[object]) -> None:
    """Without a hook the step does nothing and the call sets no savepoint."""
    seen: list[str] = []
    jobs = prepared(db, Machine(finish(HOOK), {"gate": lambda record: seen.append(record.context["gate"])}))
    assert db.write(lambda tx: jobs.fire(tx, "finish", now=1.0, id="a")).state == "done"
    assert (seen, marks) == ([], [])


def test_what_a_hook_wrote_is_undone_where_the_call_declines(db: Database, marks: list[object]) -> None:
    """A hook that is handed over may write, and a call that then declines has written nothing."""
    jobs = prepared(db, Machine(finish(HOOK), {"gate": lambda record: scribble(record.tx)}))
    outcome = db.write(lambda tx: jobs.fire(tx, "finish", {"gate": "shut"}, now=1.0, id="a"))
    assert outcome.declined
    assert len(marks) == 1
    assert db.read(lambda tx: tx.execute("SELECT status, n FROM jobs")) == [{"status": "open", "n": 0}]


def test_a_reader_answers_without_a_savepoint(db: Database, marks: list[object]) -> None:
    """A step that only reads is found by the steps after it, and nothing is set up for its undoing."""
    counting = {"count": lambda record: {"jobs": len(record.tx.execute("SELECT id FROM jobs"))}}
    jobs = prepared(db, Machine(finish(READS, writes={"n": Of("count", "jobs")}), counting))
    assert db.write(lambda tx: jobs.fire(tx, "finish", now=1.0, id="a")).stored["n"] == 1
    assert marks == []


def test_a_reader_that_writes_is_found_out(db: Database) -> None:
    """A step that is declared to read and writes is a wrong binding, said by name, and nothing of it stays."""
    jobs = prepared(db, Machine(finish(READS), {"count": lambda record: scribble(record.tx)}))
    with pytest.raises(DefinitionError, match="the step count reads only, and changed rows; take reads_only away"):
        db.write(lambda tx: jobs.fire(tx, "finish", now=1.0, id="a"))
    assert db.read(lambda tx: tx.execute("SELECT n FROM jobs")) == [{"n": 0}]


@pytest.mark.parametrize("step", [evolve(READS, fires=(("job", "create"),)), evolve(READS, hook=True)])
def test_a_reader_fires_nothing_and_is_nobodys_hook(step: Do) -> None:
    """What a caller hands over, or another trigger does, may write."""
    with pytest.raises(DefinitionError, match="step count is declared to read only"):
        finish(step)


def test_nothing_depends_on_the_answer_of_a_hook() -> None:
    """A hook may not run, so that its answer cannot be a value of the declaration."""
    with pytest.raises(DefinitionError, match="it uses what the hook gate answers"):
        finish(HOOK, writes={"n": Of("gate", "n")})
    assert finish(HOOK, writes={"n": Arg("n")}).name == "job"
