"""A Do that is declared to read only: nothing is kept ready to be undone for it, and it is held to its word."""

from typing import Any

import pytest
from attrs import evolve

from fsm import DefinitionError, StorageError
from fsm.lifecycle import DECLINE, Do, Load, Look, Of, Source, Term, Write
from fsm.lifecycle.structure import Edge
from fsm.lifecycles import DRIVER_TASK, HOSTED_ROOM
from fsm.machine import Record
from storage import Database
from storage.transacting import EngineTransaction
from tests.machine.parcels import note
from tests.machine.test_tentative import BUSY, DONE, JOBS, NEVER, finish, fire, machine, prepared, rows

READS = Do("read", "reads", reads_only=True)
WRITES = evolve(READS, reads_only=False)
REFERRING = Edge(BUSY, DONE, (), {"n": Of("read", "n")})
ORDERS = {
    "before a comparison": (Load(), Source(), READS, Look("any", JOBS, Term("id", "=", "a")), Write()),
    "after the comparisons, where the write may decline": (Load(), Source(), READS, Write(stale=DECLINE)),
}


def read(record: Record) -> dict[str, Any]:
    """Read as an operation would, in the transaction."""
    (row,) = record.tx.execute("SELECT COUNT(*) AS n FROM jobs")
    return {"n": row["n"]}


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every mark that a transaction has set."""
    seen: list[object] = []
    mark = EngineTransaction.mark

    def counted(transaction: EngineTransaction[Any]) -> object:
        seen.append(mark(transaction))
        return seen[-1]

    monkeypatch.setattr(EngineTransaction, "mark", counted)
    return seen


@pytest.mark.parametrize("order", ORDERS)
def test_a_step_that_only_reads_needs_no_mark(db: Database, marks: list[object], order: str) -> None:
    """A mark, which costs a server two round trips, is set for the Dos that may write alone."""
    steps = ORDERS[order]
    jobs = prepared(db, machine(finish(*steps, edge=REFERRING), read=read), "busy", "open")
    assert fire(db, jobs).stored["n"] == 2
    assert marks == []
    careful = tuple(WRITES if step is READS else step for step in steps)
    again = machine(finish(*careful, edge=REFERRING), read=read)
    db.write(lambda tx: tx.execute("UPDATE jobs SET status = 'busy'"))
    assert fire(db, again).stored["n"] == 2
    assert len(marks) == 1


def test_a_call_that_ends_after_a_reading_step_leaves_the_transaction_as_it_was(db: Database) -> None:
    """Where nothing can have been written, a decline undoes nothing of what the caller wrote."""
    jobs = prepared(db, machine(finish(Load(), Source(), READS, NEVER, Write()), read=read), "busy")
    with db.transaction() as tx:
        note("before")(Record(tx, "job", {}, {}))
        assert jobs.fire(tx, "finish", now=1.0, id="a").declined
    assert [row["line"] for row in rows(db, "log")] == ["before"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_step_that_only_reads_must_not_write(db: Database, order: str) -> None:
    """A Do that changed a row against its declaration is named, and nothing of the transaction is stored."""
    jobs = prepared(db, machine(finish(*ORDERS[order]), read=note("read")), "busy")
    before = rows(db)
    with pytest.raises(DefinitionError, match=r"trigger finish: the step read reads only, and changed rows"):
        fire(db, jobs)

    def go_on() -> None:
        with db.transaction() as tx, pytest.raises(DefinitionError):
            jobs.fire(tx, "finish", now=1.0, id="a")

    with pytest.raises(StorageError, match="rolled back"):
        go_on()
    assert (rows(db), rows(db, "log")) == (before, [])


def test_a_step_that_only_reads_may_come_before_the_record_is_loaded(db: Database) -> None:
    """What was locked ahead of a Do that only reads is read from the lock, and is as stored."""
    steps = (READS, Load(), Source(), Look("any", JOBS, Term("id", "=", "a")), Write())
    jobs = prepared(db, machine(finish(*steps, edge=REFERRING), read=read), "busy")
    assert fire(db, jobs).stored["n"] == 1


def test_the_gateways_own_reading_steps_say_so() -> None:
    """What a start, a settlement and an adoption run ahead of their write writes nothing, and is declared so."""
    declared = {step for lifecycle in (DRIVER_TASK, HOSTED_ROOM) for each in lifecycle.triggers for step in each.dos()}
    assert {step.name for step in declared if step.reads_only} == {"read_payload", "match_members"}
