"""The driver's machines: its declarations with their steps bound."""

from typing import Final

from fsm.driver.parse import Clock, Location, opened_at
from fsm.driver.views import read_payload
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK
from fsm.machine import Machine, Outcome
from storage import Value

__all__ = ["LEASE_MACHINE", "TASK_MACHINE", "fire"]

LEASE_MACHINE: Final = Machine(DRIVER_LEASE)
TASK_MACHINE: Final = Machine(DRIVER_TASK, {"read_payload": read_payload})


def fire(db: Location, machine: Machine, trigger: str, clock: Clock | None, **arguments: Value) -> Outcome:
    """Fire one trigger in a transaction of its own, at one reading of the clock."""
    handle, now = opened_at(db, clock)
    return handle.write(lambda tx: machine.fire(tx, trigger, now=now, **arguments))
