"""A room, its lease and its tasks, brought into any state through the public functions alone."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define, evolve, field

from fsm import driver, rooms
from fsm.driver import DriverLease, TaskAttempt, TaskIdentity
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.tables import (
    EVENTS,
    LEASES,
    LINKS,
    PEER_RESERVATIONS,
    REMOTE_RUNS,
    RETIRED,
    REVOKED_GRANTS,
    ROOMS,
    TASKS,
    TOTALS,
)
from storage import Database, Row, Transaction

START = 1_000_000.0


@define
class ManualClock:
    """Seconds that move only by hand."""

    now: float = START

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on by so many seconds."""
        self.now += seconds


def payload(sequence: int = 1, prompt: str = "say hello") -> dict[str, Any]:
    """Return a valid payload."""
    return {"target_profile": "helper", "prompt": prompt, "source_event_seq": sequence}


def identity(name: str = "t1", room: str = "room") -> TaskIdentity:
    """Return the identity of a task whose turn has its name."""
    return TaskIdentity(room_id=room, task_id=name, thread_id="thread", turn_id=f"turn-{name}")


@define
class World:
    """A database with the room `room` of gateway `gw` at epoch 1."""

    db: Database
    clock: ManualClock
    lease: DriverLease = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.create_room("room")
        self.lease = self.acquire("p1")

    def create_room(self, room: str) -> None:
        """Create a room of gateway `gw`."""
        rooms.create_room(self.db, room_id=room, name="Room", members=[], authority_gateway_id="gw")

    def acquire(
        self, process: str, *, room: str = "room", ttl: float = 60.0, gateway: str = "gw", epoch: int = 1
    ) -> DriverLease:
        """Acquire the room's lease for a process."""
        return driver.acquire_lease(
            self.db,
            room_id=room,
            gateway_id=gateway,
            authority_epoch=epoch,
            process_generation=process,
            ttl_seconds=ttl,
        )

    def admit(self, name: str = "t1", sequence: int = 1) -> TaskIdentity:
        """Admit a task."""
        task = identity(name)
        driver.admit_task(self.db, task, payload=payload(sequence))
        return task

    def start(self, name: str = "t1") -> TaskAttempt:
        """Admit and start a task."""
        return driver.start_task(self.db, self.admit(name), self.lease, expected_cancel_generation=0)

    def take_over(self) -> DriverLease:
        """Let the lease expire and another process acquire it."""
        self.clock.advance(61)
        self.lease = self.acquire(f"p{self.lease.lease_generation + 1}")
        return self.lease

    def lose(self, name: str = "t1") -> TaskAttempt:
        """Start a task whose driver then vanishes, and recover the room."""
        attempt = self.start(name)
        driver.recover_room(self.db, self.take_over())
        return attempt

    def bring(self, state: str, name: str = "t1") -> TaskIdentity:
        """Bring a task into a state, by name."""
        _WAYS[state](self, name)
        return identity(name)

    def row(self, name: str = "t1", room: str = "room") -> Row | None:
        """Return the task's row as stored."""
        sql = f"SELECT * FROM {TASKS.name} WHERE room_id = :room_id AND task_id = :task_id"
        rows = self.db.read(lambda tx: tx.execute(sql, {"room_id": room, "task_id": name}))
        return rows[0] if rows else None

    def everything(self) -> dict[str, list[Row]]:
        """Return every row of every table."""
        return dump(self.db)

    def execute(self, sql: str, **values: Any) -> list[Row]:
        """Change the database past the library, as damage or another program would."""
        return self.db.write(lambda tx: tx.execute(sql, values))


_KNOWN: "WeakKeyDictionary[Database, set[str]]" = WeakKeyDictionary()
"""The tables that a handle is known to have."""


def dump(db: Database) -> dict[str, list[Row]]:
    """Return every row of every table of the gateway, in the order of their keys."""
    known = _KNOWN.setdefault(db, set())

    def read(tx: Transaction, table: Any) -> list[Row]:
        order = ", ".join(map(quoted, table.primary_key))
        if table.name not in known and not tx.table_exists(table.name):
            return []
        known.add(table.name)
        return tx.execute(f"SELECT * FROM {quoted(table.name)} ORDER BY {order}")

    of_peers = (LINKS, REVOKED_GRANTS, PEER_RESERVATIONS, REMOTE_RUNS)
    tables = (ROOMS, TOTALS, EVENTS, RETIRED, LEASES, TASKS, *of_peers)
    return db.read(lambda tx: {table.name: read(tx, table) for table in tables})


def _queued(world: World, name: str) -> None:
    world.admit(name)


def _running(world: World, name: str) -> None:
    world.start(name)


def _ended(status: str) -> Callable[[World, str], None]:
    def bring(world: World, name: str) -> None:
        driver.settle_task(world.db, world.start(name), settlement_id="s1", status=status, result={"n": 1})

    return bring


def _cancelled(world: World, name: str) -> None:
    driver.cancel_task(world.db, world.admit(name), cancel_id="c1", expected_cancel_generation=0)


def _indeterminate(world: World, name: str) -> None:
    world.lose(name)


def _deferred(world: World, name: str) -> None:
    attempt = world.lose(name)
    driver.defer_indeterminate_task(
        world.db,
        attempt.identity,
        world.lease,
        expected_execution_generation=1,
        expected_cancel_generation=0,
        reason="later",
    )


def _stopping(world: World, name: str) -> None:
    attempt = world.start(name)
    driver.begin_task_cancel(world.db, attempt.identity, cancel_id="c1", expected_cancel_generation=0)


_WAYS: dict[str, Callable[[World, str], None]] = {
    "queued": _queued,
    "running": _running,
    "settled": _ended("settled"),
    "failed": _ended("failed"),
    "cancelled": _cancelled,
    "indeterminate": _indeterminate,
    "deferred": _deferred,
    "stopping": _stopping,
}


def other_lease(lease: DriverLease, **changes: Any) -> DriverLease:
    """Return the lease with some fields changed."""
    return evolve(lease, **changes)
