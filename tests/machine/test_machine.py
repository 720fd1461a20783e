"""The machine: what it fires, refuses, declines and replays, and what it never does."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from fsm import (
    ArgumentError,
    DefinitionError,
    Lifecycle,
    Machine,
    Outcome,
    Record,
    RefusedError,
    Term,
    observe,
)
from fsm.lifecycle import DECLINE, NEW, Edge, Load, Source, Trigger, Write, Writes, stored
from storage import Database, Schema, Value
from tests.machine.parcels import (
    FINISHING,
    PARCEL,
    RIDING,
    SCHEMA,
    WAITING,
    ForeignDepotError,
    NotFoundError,
    StaleError,
    everything,
    machine,
    prepare,
    take,
)


def finish(db: Database, parcels: Machine, **changes: Value) -> Outcome:
    """Fire `finish` with some arguments changed."""
    return db.write(lambda tx: parcels.fire(tx, "finish", now=3.0, **{**FINISHING, **changes}))


def test_a_record_moves_and_every_step_ran_in_order(db: Database) -> None:
    """A fired trigger runs its steps in their order around one fenced write, and returns the row as stored."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    outcome = finish(db, parcels, steps=4)
    assert (outcome.source, outcome.state, outcome.replayed, outcome.declined) == ("riding", "delivered", False, False)
    assert outcome.stored == everything(db)["parcels"][0]
    assert (outcome.stored["generation"], outcome.stored["seen_at"]) == (5, 3.0)
    assert [row["line"] for row in everything(db)["log"]] == ["note_before", "note_inside", "note_after"]


def test_the_argument_chooses_the_destination(db: Database) -> None:
    """Of two edges from one state the one is taken whose guard holds."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    assert finish(db, parcels, outcome="lost").state == "lost"


def test_no_edge_that_fits_is_refused(db: Database) -> None:
    """Where no guard holds the Write refuses, and the message says what to do."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    with pytest.raises(StaleError, match="nothing leads on from state riding for this call; look again"):
        finish(db, parcels, outcome="eaten")


def test_an_exact_retry_writes_nothing(db: Database) -> None:
    """A replayed call answers with what is stored."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    first = finish(db, parcels)
    before = everything(db)
    again = finish(db, parcels)
    assert (again.replayed, again.row, again.state) == (True, first.row, "delivered")
    assert everything(db) == before


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"depot_id": "x"}, ForeignDepotError, "expected a row of depots, found none"),
        ({"epoch": 2}, ForeignDepotError, "expected epoch = given.epoch, found epoch 1"),
        ({"parcel_id": "x"}, NotFoundError, "found none with this key"),
        ({"generation": 7}, StaleError, "found generation 1"),
        ({"code": "wrong"}, ForeignDepotError, "expected the secret of code"),
        ({"code": ""}, ForeignDepotError, "expected the secret of code"),
        ({"code": "", "generation": 7}, StaleError, "found generation 1"),
        ({"epoch": 2, "parcel_id": "x"}, ForeignDepotError, "epoch"),
    ],
)
def test_the_first_step_that_does_not_hold_refuses(
    db: Database, changes: dict[str, Value], error: type[RefusedError], said: str
) -> None:
    """Steps refuse in the order in which they are declared, with their own class, and nothing is written."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    before = everything(db)
    with pytest.raises(error, match=said) as refusal:
        finish(db, parcels, **changes)
    assert (refusal.value.lifecycle, refusal.value.trigger) == ("parcel", "finish")
    assert "secret" not in str(refusal.value).replace("the secret of", "")
    assert everything(db) == before


def test_the_key_may_be_what_a_look_found(db: Database) -> None:
    """The head of a queue is loaded by the key that a Look answered; an empty queue is a missing record."""
    parcels = machine()
    prepare(db, parcels, count=3)
    assert [take(db, parcels) for _ in range(3)] == ["p1", "p2", "p3"]
    with pytest.raises(NotFoundError):
        take(db, parcels)


def test_a_greater_value_never_goes_back(db: Database) -> None:
    """What is written as the greater of column and argument keeps the column's value where the argument is less."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels, now=0.5)
    assert everything(db)["parcels"][0]["seen_at"] == 1.0


def test_a_stolen_row_loses_the_fence(db: Database) -> None:
    """The write repeats the fence: a row that changed after it was compared is not written."""

    def steal(record: Record) -> None:
        record.tx.execute("UPDATE parcels SET generation = 9 WHERE parcel_id = 'p1'")

    parcels = machine(note_inside=steal)
    prepare(db, parcels)
    take(db, parcels)
    with pytest.raises(StaleError, match="changed 0"):
        finish(db, parcels)
    assert everything(db)["parcels"][0]["generation"] == 1


def test_a_row_in_an_undeclared_state_is_refused(db: Database) -> None:
    """A status that the declaration lacks, stored past the library, is a refusal and no crash."""
    parcels = machine()
    prepare(db, parcels)
    db.require(Schema("loose", ()))
    with db.transaction() as tx:
        tx.execute("CREATE TABLE loose AS SELECT * FROM parcels")
        tx.execute("UPDATE loose SET status = 'odd', generation = 1")
        tx.execute("DROP TABLE parcels")
        tx.execute("ALTER TABLE loose RENAME TO parcels")
    assert parcels.state_of(everything(db)["parcels"][0], now=3.0) == "(undeclared)"
    with pytest.raises(StaleError, match="expected state riding, found \\(undeclared\\)"):
        finish(db, parcels)


def test_an_outcome_without_a_row_says_so(db: Database) -> None:
    """A deleted record has no row to read, and asking for it names the state."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    finish(db, parcels)
    outcome = db.write(lambda tx: parcels.fire(tx, "forget", now=4.0, parcel_id="p1"))
    assert (outcome.state, outcome.row) == ("gone", None)
    with pytest.raises(ArgumentError, match="gone"):
        _ = outcome.stored


@pytest.mark.parametrize(
    ("trigger", "said"), [("fly", "no trigger 'fly' to fire"), ("lose", "no trigger 'lose' to fire")]
)
def test_an_unknown_trigger_is_refused(db: Database, trigger: str, said: str) -> None:
    """Firing a trigger that is not declared, or is a sweep, is refused by name."""
    parcels = machine()
    with db.transaction() as tx, pytest.raises(ArgumentError, match=said):
        parcels.fire(tx, trigger, now=1.0)


def test_a_missing_argument_is_named(db: Database) -> None:
    """A trigger without an argument that its declaration names is refused, all missing ones by name."""
    parcels = machine()
    with db.transaction() as tx, pytest.raises(ArgumentError, match="code, steps"):
        parcels.fire(tx, "finish", now=1.0, **{k: v for k, v in FINISHING.items() if k not in {"code", "steps"}})


def test_a_step_fires_only_what_it_declares(db: Database) -> None:
    """A Do may fire the triggers that its declaration names, in the same transaction, and no other."""

    def sweep(record: Record) -> None:
        record.sweep("parcel", "lose", depot_id="d", epoch=1)

    parcels = machine(note_after=sweep)
    prepare(db, parcels, count=3)
    take(db, parcels)
    finish(db, parcels)
    assert [row["status"] for row in everything(db)["parcels"]] == ["delivered", "lost", "lost"]
    undeclared = machine(note_inside=sweep)
    with db.transaction() as tx:
        tx.execute("UPDATE parcels SET status = 'riding', generation = 1")
    with pytest.raises(DefinitionError, match="may not fire parcel.lose; name it in the step's fires"):
        finish(db, undeclared)


def test_what_a_step_answers_is_found_by_the_caller(db: Database) -> None:
    """The answers of Authority, Look and Do are in the outcome under their names."""

    def answer(_: Record) -> Mapping[str, Any]:
        return {"weight": 7}

    parcels = machine(note_inside=answer)
    prepare(db, parcels)
    take(db, parcels)
    found = finish(db, parcels).found
    assert found["note_inside"] == {"weight": 7}
    assert found["depot"] == {"depot_id": "d", "epoch": 1}
    assert found["others"] == {"count": 1}


def test_a_declining_step_ends_the_call_without_an_error(db: Database) -> None:
    """A step that declines instead of refusing answers with an outcome that says so; nothing is written."""
    finish_or_not = Trigger(
        "finish", "maybe", Load(DECLINE), Source(DECLINE), Write(DECLINE), edges=(Edge(RIDING, DONE),)
    )
    start = Trigger("start", "it begins", Load(), Write(), edges=(Edge(NEW, WAITING, (), HANDED_IN),))
    ride = Trigger("ride", "off", Load(), Source(), Write(DECLINE), edges=(Edge(WAITING, RIDING, GUARD),))
    reluctant = Machine(evolve_lifecycle(start, ride, finish_or_not))
    db.require(SCHEMA)
    with db.transaction() as tx:
        tx.execute("INSERT INTO parcels VALUES ('p1', 'd', 'waiting', 'x', 0, NULL, NULL)")
    with db.transaction() as tx:
        missing = reluctant.fire(tx, "finish", now=1.0, parcel_id="p9")
        unfit = reluctant.fire(tx, "finish", now=1.0, parcel_id="p1")
        unmatched = reluctant.fire(tx, "ride", now=1.0, parcel_id="p1", courier="c")
    assert [(each.declined, each.state) for each in (missing, unfit, unmatched)] == [
        (True, "new"),
        (True, "waiting"),
        (True, "waiting"),
    ]


HANDED_IN: Writes = {"code": "x", "depot_id": "d"}
DONE = stored("status", "done", "it is over", final=True)
GUARD = Term("generation", ">", 5)


def evolve_lifecycle(*triggers: Trigger) -> Lifecycle:
    """Declare a small lifecycle over the table of parcels."""
    return Lifecycle("reluctant", "it may decline", PARCEL.table, (WAITING, RIDING, DONE), triggers)


def test_a_wrong_write_is_noticed_before_it_is_committed(db: Database) -> None:
    """A write that does not lead to the declared state is a wrong declaration, found in the transaction."""
    heavy = evolve(RIDING, terms=(*RIDING.terms, GUARD))
    start = Trigger("start", "it begins", Load(), Write(), edges=(Edge(NEW, WAITING, (), HANDED_IN),))
    ride = Trigger("ride", "off", Load(), Source(), Write(), edges=(Edge(WAITING, heavy),))
    end = Trigger("end", "over", Load(), Source(), Write(), edges=(Edge(heavy, DONE),))
    wrong = Machine(Lifecycle("wrong", "it forgets a write", PARCEL.table, (WAITING, heavy, DONE), (start, ride, end)))
    db.require(SCHEMA)
    with db.transaction() as tx:
        tx.execute("INSERT INTO parcels VALUES ('p1', 'd', 'waiting', 'x', 0, NULL, NULL)")
    with pytest.raises(DefinitionError, match=r"wrong.ride: what it wrote is not in the state riding"):
        db.write(lambda tx: wrong.fire(tx, "ride", now=1.0, parcel_id="p1"))
    assert everything(db)["parcels"][0]["status"] == "waiting"


def test_an_observer_that_fails_changes_nothing(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    """An observer that raises is reported through logging; the transition stands and the others hear of it."""
    heard: list[str] = []

    def fail(_: object) -> None:
        raise RuntimeError("deaf")

    observe(db, fail)
    observe(db, lambda transition: heard.append(transition.trigger))
    parcels = machine()
    prepare(db, parcels)
    assert heard == ["hand_in"]
    assert "an observer of parcel.hand_in failed" in caplog.text
    assert everything(db)["parcels"]


def test_one_machine_serves_all_threads(db: Database) -> None:
    """Threads share a machine and its database; each record is moved exactly once."""
    parcels = machine()
    prepare(db, parcels, count=40)
    taken: list[str] = []

    def work() -> None:
        taken.extend(take(db, parcels) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(f"p{number}" for number in range(1, 41))
