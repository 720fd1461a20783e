"""A lifecycle that uses every kind of step, over tables of its own: parcels of a depot, and the depot's keys."""

from collections.abc import Callable, Mapping
from typing import Any

from fsm import (
    GONE,
    NEW,
    NOW,
    Arg,
    Authority,
    Check,
    Do,
    Fence,
    Greater,
    Lifecycle,
    Load,
    Look,
    LostFenceError,
    Machine,
    Plus,
    Record,
    Refusal,
    RefusedError,
    Replay,
    Secret,
    Source,
    Term,
    Trigger,
    Write,
    choice,
    connect,
    edges,
    given,
    stored,
    table_of,
)
from storage import Column, Database, Row, Schema, Table

DEPOTS = Table("depots", (Column("depot_id", "TEXT"), Column("epoch", "INTEGER")), primary_key=("depot_id",))
LOG = Table("log", (Column("id", "INTEGER"), Column("line", "TEXT")), primary_key=("id",), autoincrement=True)
PARCELS = Table(
    "parcels",
    (
        Column("parcel_id", "TEXT"),
        Column("depot_id", "TEXT"),
        Column("status", "TEXT"),
        Column("code", "TEXT"),
        Column("generation", "INTEGER", default=0),
        Column("courier", "TEXT", nullable=True),
        Column("seen_at", "REAL", nullable=True),
    ),
    primary_key=("parcel_id",),
)


class NotFoundError(RefusedError):
    """There is no such parcel."""


class StaleError(LostFenceError):
    """The parcel moved on."""


class ForeignDepotError(RefusedError):
    """The depot is another."""


MISSING = Refusal(NotFoundError, "hand it in first")
STALE = Refusal(StaleError, "look again")
FOREIGN = Refusal(ForeignDepotError, "ask the right depot")
WAITING = stored("status", "waiting", "it lies in the depot")
RIDING = stored("status", "riding", "a courier has it", requires=Term("generation", ">", 0))
DELIVERED = stored("status", "delivered", "its receiver has it", final=True)
LOST = stored("status", "lost", "nobody has it", final=True)
DEPOT = Authority("depot", DEPOTS, {"depot_id": Arg("depot_id")}, FOREIGN, (Check(given("epoch"), FOREIGN),))
TOUCHED = {"seen_at": Greater("seen_at", NOW)}

HAND_IN = Trigger(
    "hand_in",
    "a sender brings it",
    DEPOT,
    Load(),
    Replay(given("code"), conflict=(), refuse=STALE),
    Write(STALE),
    edges=edges(
        NEW, WAITING, writes={"depot_id": Arg("depot_id"), "code": Arg("code"), "generation": 0, "seen_at": NOW}
    ),
)
TAKE = Trigger(
    "take",
    "a courier takes the next one",
    DEPOT,
    Look("next", PARCELS, (*given("depot_id"), *WAITING.terms), order=("parcel_id",)),
    Load(MISSING, by="next"),
    Write(STALE),
    edges=edges(WAITING, RIDING, writes={"courier": Arg("courier"), "generation": Plus("generation", 1), **TOUCHED}),
)
FINISH = Trigger(
    "finish",
    "the courier reports",
    DEPOT,
    Load(MISSING),
    Replay((Term("status", "=", Arg("outcome")), *given("generation"))),
    Do("note_before", "a line in the log"),
    Fence(given("generation"), STALE),
    Source(STALE),
    Look(
        "others",
        PARCELS,
        (*given("depot_id"), *RIDING.terms),
        count=True,
        checks=(Check(Term("count", "<", 9), STALE),),
    ),
    Secret("code", Arg("code"), FOREIGN),
    Do("note_inside", "a line in the log"),
    Write(STALE),
    Do("note_after", "a line in the log", fires=(("parcel", "lose"),)),
    edges=choice(
        Arg("outcome"), RIDING, (DELIVERED, LOST), {"generation": Plus("generation", Arg("steps")), **TOUCHED}
    ),
)
LOSE = Trigger(
    "lose",
    "a depot is closed",
    DEPOT,
    kind="sweep",
    over=given("depot_id"),
    edges=edges((WAITING, RIDING), LOST, writes={"courier": None, "seen_at": NOW}),
)
LOSE_ONE = Trigger(
    "lose_one",
    "one is lost, as the sweep would lose it",
    DEPOT,
    Load(MISSING),
    Source(STALE),
    Write(STALE),
    edges=edges((WAITING, RIDING), LOST, writes={"courier": None, "seen_at": NOW}),
)
FORGET = Trigger(
    "forget", "it is long done", Load(MISSING), Source(STALE), Write(STALE), edges=edges((DELIVERED, LOST), GONE)
)
PARCEL = Lifecycle(
    "parcel",
    "a parcel's way through a depot",
    PARCELS,
    (WAITING, RIDING, DELIVERED, LOST),
    (HAND_IN, TAKE, FINISH, LOSE, LOSE_ONE, FORGET),
)
SCHEMA = Schema("parcels", (DEPOTS, LOG, table_of(PARCEL)))

Hook = Callable[[Record], Mapping[str, Any] | None]


def note(line: str) -> Hook:
    """Return an action that writes a line into the log."""

    def action(record: Record) -> None:
        record.tx.execute("INSERT INTO log (line) VALUES (:line)", {"line": line})

    return action


def machine(**hooks: Hook) -> Machine:
    """Return the machine, each step that no hook is given for writing its own name into the log."""
    names = ("note_before", "note_inside", "note_after")
    made = Machine(PARCEL, {name: hooks.get(name, note(name)) for name in names})
    connect(made)
    return made


def prepare(db: Database, parcels: Machine, *, count: int = 1) -> None:
    """Create a depot with so many parcels in it."""
    db.require(SCHEMA)
    with db.transaction() as tx:
        tx.execute("INSERT INTO depots VALUES ('d', 1)")
        for number in range(1, count + 1):
            parcels.fire(tx, "hand_in", now=1.0, parcel_id=f"p{number}", depot_id="d", epoch=1, code="secret")


def take(db: Database, parcels: Machine, *, now: float = 2.0) -> str:
    """Let a courier take the next parcel; return its id."""
    outcome = db.write(lambda tx: parcels.fire(tx, "take", now=now, depot_id="d", epoch=1, courier="c"))
    return str(outcome.stored["parcel_id"])


FINISHING: dict[str, Any] = {
    "parcel_id": "p1",
    "depot_id": "d",
    "epoch": 1,
    "generation": 1,
    "outcome": "delivered",
    "code": "secret",
    "steps": 0,
}


def everything(db: Database) -> dict[str, list[Row]]:
    """Return every row of the tables."""
    orders = {"depots": "depot_id", "log": "id", "parcels": "parcel_id"}
    return db.read(
        lambda tx: {table: tx.execute(f"SELECT * FROM {table} ORDER BY {key}") for table, key in orders.items()}
    )
