"""A declaration, running: `Machine` fires triggers and sweeps, in a transaction that the caller holds."""

from fsm.machine.explaining import Finding
from fsm.machine.machine import Machine, connect
from fsm.machine.record import Action, Outcome, Record, Swept

__all__ = ["Action", "Finding", "Machine", "Outcome", "Record", "Swept", "connect"]
