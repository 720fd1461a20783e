"""The gateway's lifecycles: pure data, one file each. A state's name stands here once and nowhere else."""

from typing import Final

from fsm.lifecycle import Lifecycle
from fsm.lifecycles.driver_lease import DRIVER_LEASE
from fsm.lifecycles.driver_task import DRIVER_TASK
from fsm.lifecycles.hosted_room import HOSTED_ROOM
from fsm.lifecycles.peer_reservation import PEER_RESERVATION
from fsm.lifecycles.session_admission import SESSION_ADMISSION
from fsm.lifecycles.session_turn_lease import SESSION_TURN_LEASE
from fsm.lifecycles.worker_execution import WORKER_EXECUTION

__all__ = [
    "DRIVER_LEASE",
    "DRIVER_TASK",
    "HOSTED_ROOM",
    "LIFECYCLES",
    "PEER_RESERVATION",
    "SESSION_ADMISSION",
    "SESSION_TURN_LEASE",
    "WORKER_EXECUTION",
]

LIFECYCLES: Final[tuple[Lifecycle, ...]] = (
    DRIVER_LEASE,
    DRIVER_TASK,
    HOSTED_ROOM,
    PEER_RESERVATION,
    SESSION_ADMISSION,
    WORKER_EXECUTION,
    SESSION_TURN_LEASE,
)
"""Every lifecycle of the gateway, in the order in which the gallery shows them."""
