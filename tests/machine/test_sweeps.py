"""Sweeps, generated lifecycles, and what the engine underneath must not offer."""

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

from fsm import (
    DefinitionError,
    Lifecycle,
    Machine,
    Outcome,
    Record,
    RefusedError,
    connect,
    table_of,
)
from fsm.lifecycle import NEW, Do, Edge, Load, Source, Trigger, Write, Writes, stored
from fsm.lifecycle.structure import GONE
from storage import Database, Schema, Value
from tests.engines import Engine
from tests.machine.parcels import (
    FINISHING,
    FOREIGN,
    PARCEL,
    SCHEMA,
    WAITING,
    ForeignDepotError,
    everything,
    machine,
    note,
    prepare,
    take,
)
from tests.strategies import lifecycles

HANDED_IN: Writes = {"code": "x", "depot_id": "d"}
DONE = stored("status", "done", "it is over", final=True)


def finish(db: Database, parcels: Machine) -> Outcome:
    """Fire `finish`."""
    return db.write(lambda tx: parcels.fire(tx, "finish", now=3.0, **FINISHING))


def test_the_engine_offers_no_way_round_the_declaration() -> None:
    """No `to_` trigger exists, nothing is queued, and errors are never swallowed."""
    engine = machine()._engine
    assert set(engine.events) == {"hand_in", "take", "finish", "lose_one", "forget"}
    assert not engine.models
    assert not engine.has_queue
    assert not engine.on_exception
    assert not engine.finalize_event
    assert engine.send_event
    callbacks = [
        c for e in engine.events.values() for ts in e.transitions.values() for t in ts for c in (*t.before, *t.after)
    ]
    assert callbacks
    assert all(callable(callback) for callback in callbacks)


def test_a_state_cannot_be_set_from_outside(db: Database) -> None:
    """An action reads the record's state and cannot assign it."""

    def assign(record: Record) -> None:
        record.state = "delivered"  # type: ignore[misc] # that it cannot be assigned is what is tested

    parcels = machine(note_inside=assign)
    prepare(db, parcels)
    take(db, parcels)
    with pytest.raises(AttributeError):
        finish(db, parcels)


@hypothesis_given(
    st.lists(
        st.tuples(st.sampled_from(["waiting", "riding", "delivered", "lost"]), st.sampled_from(["d", "e"])), max_size=8
    )
)
@settings(max_examples=60, deadline=None)
def test_sweeping_reaches_what_firing_one_by_one_reaches(engine: Engine, rows: list[tuple[str, str]]) -> None:
    """A sweep and the same edges fired row by row leave the same rows, and the sweep reports each one's source."""
    results = []
    for sweeping in (True, False):
        db = engine.fresh()
        db.require(SCHEMA)
        parcels = machine()
        with db.transaction() as tx:
            tx.execute("INSERT INTO depots VALUES ('d', 1)")
            for number, (status, depot) in enumerate(rows):
                values: dict[str, Value] = {"id": f"p{number}", "depot": depot, "status": status}
                tx.execute("INSERT INTO parcels VALUES (:id, :depot, :status, 'x', 0, 'c', NULL)", values)
        with db.transaction() as tx:
            if sweeping:
                moved = parcels.sweep(tx, "lose", now=5.0, depot_id="d", epoch=1).moved
                expected = [(s, f"p{n}") for n, (s, d) in enumerate(rows) if d == "d" and s in {"waiting", "riding"}]
                assert sorted((source, key["parcel_id"]) for source, _, key in moved) == sorted(expected)
            else:
                for number, (status, depot) in enumerate(rows):
                    if depot == "d" and status in {"waiting", "riding"}:
                        parcels.fire(tx, "lose_one", now=5.0, depot_id="d", epoch=1, parcel_id=f"p{number}")
        results.append(everything(db))
        db.close()
    assert results[0] == results[1]


def test_a_sweep_is_refused_by_its_authority(db: Database) -> None:
    """A sweep checks the rows that it stands on before it moves anything."""
    parcels = machine()
    prepare(db, parcels)
    before = everything(db)
    with pytest.raises(ForeignDepotError, match=FOREIGN.remedy):
        db.write(lambda tx: parcels.sweep(tx, "lose", now=1.0, depot_id="d", epoch=2))
    assert everything(db) == before


def test_an_unconnected_machine_is_refused() -> None:
    """Machines whose steps fire others are connected before they run; an unknown name is found then."""
    other = Machine(
        Lifecycle(
            "caller",
            "it calls",
            PARCEL.table,
            (WAITING, DONE),
            (
                Trigger("start", "it begins", Load(), Write(), edges=(Edge(NEW, WAITING, (), HANDED_IN),)),
                Trigger(
                    "end",
                    "x",
                    Load(),
                    Source(),
                    Do("call", "calls", fires=(("parcel", "take"),)),
                    Write(),
                    edges=(Edge(WAITING, DONE),),
                ),
                Trigger("drop", "x", Load(), Source(), Write(), edges=(Edge(DONE, GONE),)),
            ),
        ),
        {"call": note("called")},
    )
    with pytest.raises(DefinitionError, match="fires parcel.take, which does not exist"):
        connect(other)
    connect(other, machine())


@hypothesis_given(lifecycles(), st.data())
@settings(max_examples=60, deadline=None)
def test_generated_lifecycles_run_as_declared(engine: Engine, lifecycle: Lifecycle, data: st.DataObject) -> None:
    """Every walk over a generated lifecycle does what the declaration says, and nothing else is possible."""
    db = engine.fresh()
    db.require(Schema("toys", (table_of(lifecycle),)))
    toy = Machine(lifecycle)
    state = "new"
    for _ in range(6):
        trigger = data.draw(st.sampled_from([each.name for each in lifecycle.triggers]))
        declared = lifecycle.trigger(trigger)
        assert declared is not None
        dest = next((edge.dest.name for edge in declared.edges if edge.source.name == state), None)
        if dest is None:
            with db.transaction() as tx, pytest.raises(RefusedError):
                toy.fire(tx, trigger, now=1.0, id=1)
            continue
        with db.transaction() as tx:
            assert toy.fire(tx, trigger, now=1.0, id=1).state == dest
        state = "new" if dest == "gone" else dest
