"""What firing a trigger of driver_task for a stored task would come to, judged on one snapshot."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import evolve, frozen

from fsm.cli.records import stored_row
from fsm.cli.refusal import CommandRefusedError
from fsm.driver.machines import TASK_MACHINE
from fsm.driver.views import read_payload
from fsm.errors import LifecycleError
from fsm.lifecycle import Arg, Load, Trigger
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK, HOSTED_ROOM
from fsm.lifecycles.driver_task import MISSING, SETTLED
from fsm.machine import Finding, Record
from fsm.machine.explaining import explain
from fsm.machine.plan import Plan
from fsm.schema import GATEWAY_SCHEMA
from storage import Database, Row, Transaction, Value

__all__ = ["HOLDER", "Judgement", "judge"]

HOLDER: Final = ("gateway_id", "authority_epoch", "process_generation", "lease_generation")
"""The columns of a lease that say who holds it."""

_OF_THE_CALL: Final = ("cancel_id", "settlement_id", "result_json")
"""Arguments that a caller chooses: a trigger that stores them is asked with new ones, else with those stored."""

_ACTIONS: Final = {"read_payload": read_payload}


@frozen
class Judgement:
    """The task's row, the lease under which it was asked, None where the room has none, and each step in order."""

    row: Row
    lease: Row | None
    findings: tuple[Finding, ...]

    @property
    def accepted(self) -> bool:
        """Whether the call would go through, or find that it had gone through before."""
        return self.findings[-1].verdict in {"holds", "replays", "not judged"}


def judge(db: Database, trigger: Trigger, key: Mapping[str, Value]) -> Judgement:
    """Judge without writing; raises CommandRefusedError where there is no such task."""
    db.require(GATEWAY_SCHEMA)
    now, unused = db.clock(), db.new_id()

    def body(tx: Transaction) -> Judgement:
        row = stored_row(tx, DRIVER_TASK.table, key)
        if row is None:
            raise CommandRefusedError(f"room {key['room_id']} has no task {key['task_id']}")
        of_the_room = {"room_id": key["room_id"]}
        room = stored_row(tx, HOSTED_ROOM.table, of_the_room) or {}
        lease = stored_row(tx, DRIVER_LEASE.table, of_the_room)
        values: dict[str, Value] = {**_of_the_task(trigger, row, unused), **_of_the_asker(room, lease)}
        return Judgement(row, lease, tuple(_findings(tx, trigger, row, {**values, "now": now})))

    return db.read(body)


def _of_the_task(trigger: Trigger, row: Row, unused: str) -> dict[str, Value]:
    stored = {column: value for column, value in row.items() if value is not None}
    chosen: dict[str, Value] = {"cancel_id": unused, "settlement_id": unused, "result_json": "{}"}
    if not trigger.creates:
        # A task that is admitted already can only be admitted again exactly; any other call brings something new.
        written = {value.name for edge in trigger.edges for value in edge.writes.values() if isinstance(value, Arg)}
        stored = {column: value for column, value in stored.items() if column not in written.intersection(_OF_THE_CALL)}
    return {**chosen, **stored, "status": SETTLED.name}


def _of_the_asker(room: Mapping[str, Value], lease: Row | None) -> dict[str, Value]:
    """Return who asks: the lease's holder, and else the room's own gateway, with a lease that nobody has."""
    if lease is not None:
        return {column: lease[column] for column in HOLDER}
    gateway, epoch = room.get("authority_gateway_id"), room.get("authority_epoch")
    return dict(zip(HOLDER, (gateway or "nobody", epoch or 0, "nobody", 0), strict=True))


def _findings(tx: Transaction, trigger: Trigger, row: Row, values: dict[str, Value]) -> Iterator[Finding]:
    """Yield what the machine finds; what it leaves to a step's own code is judged here, where that only reads."""
    for found in _explained(tx, trigger, values):
        finding = _payload_read(tx, row, found) if found.step == "Do read_payload" else found
        yield finding
        if finding.verdict == "refuses":
            return


def _explained(tx: Transaction, trigger: Trigger, values: dict[str, Value]) -> Iterable[Finding]:
    if trigger.kind == "fire":
        now = float(values.pop("now") or 0)
        return TASK_MACHINE.explain(tx, trigger.name, now=now, **values)
    # A sweep selects its records; what it would do to this one is what it would do if it were fired for it alone.
    alone = Trigger(trigger.name, trigger.when, *trigger.steps, Load(MISSING), edges=trigger.edges)
    plan = Plan(TASK_MACHINE.projection, alone, _ACTIONS)
    return explain(plan, Record(tx, DRIVER_TASK.name, values, {}))


def _payload_read(tx: Transaction, row: Row, finding: Finding) -> Finding:
    record = Record(tx, DRIVER_TASK.name, {}, {})
    record.row = row
    try:
        read_payload(record)
    except LifecycleError as damage:
        return evolve(finding, verdict="refuses", said=str(damage), error=type(damage).__name__)
    return evolve(finding, verdict="holds")
