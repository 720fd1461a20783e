"""What must stand is asked outside of a trigger by the same authority, with the same refusals."""

import pytest

from fsm import Arg, Authority, Check, Refusal, RefusedError, Term
from fsm.lifecycle import DECLINE, given
from fsm.machine.standing import require
from storage import Column, Database, Schema, Table

GATES = Table("gates", (Column("id", "TEXT"), Column("epoch", "INTEGER"), Column("note", "TEXT")), primary_key=("id",))
MISSING = Refusal(RefusedError, "build it")
STALE = Refusal(KeyError, "read it again")
GATE = Authority("gate", GATES, {"id": Arg("gate_id")}, MISSING, (Check(given("epoch"), STALE),))
OTHER = Authority("other", GATES, {"id": Arg("other_id")}, DECLINE, (Check(Term("epoch", ">", 5), DECLINE),))


@pytest.fixture
def gates(db: Database) -> Database:
    """A database with one gate."""
    db.require(Schema("gates", (GATES,)))
    db.write(lambda tx: tx.execute("INSERT INTO gates VALUES ('north', 3, 'oak')"))
    return db


def test_a_row_that_stands_is_answered_whole(gates: Database) -> None:
    """Each row comes under its authority's name, with every declared column."""
    found = gates.write(lambda tx: require(tx, GATE, gate_id="north", epoch=3))
    assert found == {"gate": {"id": "north", "epoch": 3, "note": "oak"}}


def test_a_missing_row_is_refused(gates: Database) -> None:
    """What is not there is refused as the authority says, with what was expected and what to do."""
    with pytest.raises(RefusedError, match="refused at gate: expected a row of gates, found none; build it"):
        gates.write(lambda tx: require(tx, GATE, gate_id="south", epoch=3))


def test_a_row_that_moved_on_is_refused(gates: Database) -> None:
    """A check that does not hold raises its own error, and says what was found."""
    with pytest.raises(KeyError, match=r"expected epoch = given\.epoch, found epoch 3; read it again"):
        gates.write(lambda tx: require(tx, GATE, gate_id="north", epoch=2))


def test_a_row_that_may_be_absent_reads_as_nulls(gates: Database) -> None:
    """An authority that declines refuses nothing here: its row is read, and reads as nulls where there is none."""
    found = gates.write(lambda tx: require(tx, GATE, OTHER, gate_id="north", epoch=3, other_id="south"))
    assert found["other"]["epoch"] is None
    assert gates.write(lambda tx: require(tx, OTHER, other_id="north"))["other"]["note"] == "oak"
