"""The machines of sessions and workers: their declarations with the steps bound, able to fire each other's triggers."""

from typing import Final

from fsm.lifecycles import SESSION_ADMISSION, SESSION_TURN_LEASE, WORKER_EXECUTION
from fsm.machine import Machine, connect
from fsm.runtime.admission_steps import ADMISSION_STEPS
from fsm.runtime.worker_steps import WORKER_STEPS

__all__ = ["ADMISSION_MACHINE", "TURN_LEASE_MACHINE", "WORKER_MACHINE"]

ADMISSION_MACHINE: Final = Machine(SESSION_ADMISSION, ADMISSION_STEPS)
WORKER_MACHINE: Final = Machine(WORKER_EXECUTION, WORKER_STEPS)
TURN_LEASE_MACHINE: Final = Machine(SESSION_TURN_LEASE)
connect(ADMISSION_MACHINE, WORKER_MACHINE, TURN_LEASE_MACHINE)
