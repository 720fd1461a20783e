"""Whatever raises, wherever it raises: rows, what observers would hear and the record in memory are as they were."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest

from fsm import Machine, Record, StorageError, observe
from fsm.observers import Transition
from storage import Database, Row, Transaction, Value
from tests.machine.parcels import FINISHING, everything, machine, note, prepare, take


class Boom(Exception):  # noqa: N818 # it stands for anything at all that can go wrong
    """Anything at all."""


@pytest.fixture
def heard(db: Database) -> list[Transition]:
    """What observers of the database hear."""
    transitions: list[Transition] = []
    observe(db, transitions.append)
    return transitions


def _raise(*_: object) -> None:
    raise Boom


def _after(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> None:
        function(*args)
        raise Boom

    return call


def _places(parcels: Machine) -> Iterator[tuple[str, list[Any], int]]:
    """Yield every list of callables that a call of `finish` runs through, with each index in it."""
    plan = parcels._plans["finish"]
    first = list(plan.first)
    plan.first = cast("Any", first)
    for index in range(len(first)):
        yield "step", first, index
    for transition in parcels._engine.events["finish"].transitions["riding"]:
        if transition.dest == "delivered":
            yield from (("condition", transition.conditions, index) for index in range(len(transition.conditions)))
            yield from (("before", transition.before, index) for index in range(len(transition.before)))
            yield from (("after", transition.after, index) for index in range(len(transition.after)))


PLACES = [(kind, index) for kind, _, index in _places(machine())]


def _sabotage(parcels: Machine, place: tuple[str, int], wrap: Callable[[Any], Any]) -> None:
    for kind, callables, index in _places(parcels):
        if (kind, index) == place:
            target = callables[index]
            if kind == "condition":
                target.func = wrap(target.func)
            else:
                callables[index] = wrap(target)
            return
    raise AssertionError(place)


def _watched(records: list[Record]) -> Machine:
    def spy(record: Record) -> None:
        records.append(record)
        note("note_before")(record)

    return machine(note_before=spy)


@pytest.mark.parametrize("wrap", [lambda _: _raise, _after], ids=["instead", "afterwards"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]}-{place[1]}")
def test_a_failure_anywhere_leaves_no_trace(
    db: Database, heard: list[Transition], place: tuple[str, int], wrap: Callable[[Any], Any]
) -> None:
    """What raises, before or after its work, leaves rows, observers and memory as they were."""
    records: list[Record] = []
    parcels = _watched(records)
    prepare(db, parcels)
    take(db, parcels)
    before, told = everything(db), list(heard)
    _sabotage(parcels, place, wrap)
    with pytest.raises(Boom):
        db.write(lambda tx: parcels.fire(tx, "finish", now=3.0, **FINISHING))
    assert everything(db) == before
    assert heard == told
    assert all(
        (record.state, record.row, record.previous, record.found) == (None, None, None, {}) for record in records
    )


class _Failing(Transaction):
    """Passes statements on, and raises at one of them: before it, or after it took effect."""

    def __init__(self, tx: Transaction, at: int, *, afterwards: bool) -> None:
        self.tx, self.at, self.afterwards, self.count = tx, at, afterwards, 0
        self.database = tx.database

    def execute(self, sql: str, parameters: Mapping[str, Value] | None = None) -> list[Row]:
        self.count += 1
        if self.count == self.at and not self.afterwards:
            raise Boom
        rows = self.tx.execute(sql, parameters or {})
        if self.count == self.at:
            raise Boom
        return rows

    @property
    def changes(self) -> int:
        return self.tx.changes

    def after_commit(self, action: Callable[[], None]) -> None:
        self.tx.after_commit(action)

    def doom(self, reason: str) -> None:
        self.tx.doom(reason)

    def mark(self) -> object:
        return self.tx.mark()

    def keep(self, mark: object) -> None:
        self.tx.keep(mark)

    def undo(self, mark: object) -> None:
        self.tx.undo(mark)

    def lock_name(self, name: str) -> None:
        self.tx.lock_name(name)

    def table_exists(self, name: str) -> bool:
        return self.tx.table_exists(name)


STATEMENTS = 7


@pytest.mark.parametrize("afterwards", [False, True])
@pytest.mark.parametrize("at", range(1, STATEMENTS + 1))
def test_a_failing_statement_leaves_no_trace(db: Database, heard: list[Transition], at: int, afterwards: bool) -> None:
    """Each statement of a call may fail, before or after it took effect, and nothing of the call remains."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    before, told = everything(db), list(heard)
    with pytest.raises(Boom):
        db.write(lambda tx: parcels.fire(_Failing(tx, at, afterwards=afterwards), "finish", now=3.0, **FINISHING))
    assert everything(db) == before
    assert heard == told


def test_the_statements_above_are_all_there_are(db: Database) -> None:
    """The call whose statements fail in turn has exactly so many of them."""
    parcels = machine()
    prepare(db, parcels)
    take(db, parcels)
    counted: list[_Failing] = []

    def body(tx: Transaction) -> None:
        counted.append(_Failing(tx, 0, afterwards=False))
        parcels.fire(counted[0], "finish", now=3.0, **FINISHING)

    db.write(body)
    assert counted[0].count == STATEMENTS


def test_a_caught_failure_cannot_be_committed_by_half(db: Database) -> None:
    """Where something was written before the failure, a caller who catches it still cannot commit."""
    parcels = machine(note_after=_raise)
    prepare(db, parcels)
    take(db, parcels)
    before = everything(db)

    def go_on() -> None:
        with db.transaction() as tx:
            with pytest.raises(Boom):
                parcels.fire(tx, "finish", now=3.0, **FINISHING)
            tx.execute("INSERT INTO log (line) VALUES ('went on')")

    with pytest.raises(StorageError, match="rolled back"):
        go_on()
    assert everything(db) == before


def test_a_caught_refusal_before_any_write_harms_nothing(db: Database) -> None:
    """A refusal that nothing preceded may be caught, and the caller's transaction goes on."""
    parcels = machine()
    prepare(db, parcels)
    with db.transaction() as tx:
        with pytest.raises(ValueError, match="found none with this key"):
            parcels.fire(tx, "forget", now=3.0, parcel_id="p9")
        tx.execute("INSERT INTO log (line) VALUES ('went on')")
    assert [row["line"] for row in everything(db)["log"]] == ["went on"]


def test_a_rolled_back_transaction_is_never_heard(db: Database, heard: list[Transition]) -> None:
    """Observers hear of a transition only when, and after, its transaction has committed."""
    parcels = machine()
    prepare(db, parcels)
    told = len(heard)

    def fail() -> None:
        with db.transaction() as tx:
            parcels.fire(tx, "take", now=2.0, depot_id="d", epoch=1, courier="c")
            assert len(heard) == told
            raise Boom

    with pytest.raises(Boom):
        fail()
    assert len(heard) == told
    take(db, parcels)
    assert [(each.trigger, each.source, each.dest, each.key) for each in heard[told:]] == [
        ("take", "waiting", "riding", {"parcel_id": "p1"})
    ]
