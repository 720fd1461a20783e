"""The machines of sessions and workers: their declarations with the steps bound, each able to fire the other's."""

from typing import Final

from fsm.lifecycles import SESSION_ADMISSION, WORKER_EXECUTION
from fsm.machine import Machine, connect
from fsm.runtime.admission_steps import ADMISSION_STEPS
from fsm.runtime.worker_steps import WORKER_STEPS

__all__ = ["ADMISSION_MACHINE", "WORKER_MACHINE"]

ADMISSION_MACHINE: Final = Machine(SESSION_ADMISSION, ADMISSION_STEPS)
WORKER_MACHINE: Final = Machine(WORKER_EXECUTION, WORKER_STEPS)
connect(ADMISSION_MACHINE, WORKER_MACHINE)
