"""The gateway's lifecycles: pure data, one file each. A state's name stands here once and nowhere else."""

from typing import Final

from fsm.lifecycle import Lifecycle
from fsm.lifecycles.driver_lease import DRIVER_LEASE
from fsm.lifecycles.driver_task import DRIVER_TASK
from fsm.lifecycles.hosted_room import HOSTED_ROOM
from fsm.lifecycles.peer_reservation import PEER_RESERVATION

__all__ = ["DRIVER_LEASE", "DRIVER_TASK", "HOSTED_ROOM", "LIFECYCLES", "PEER_RESERVATION"]

LIFECYCLES: Final[tuple[Lifecycle, ...]] = (DRIVER_LEASE, DRIVER_TASK, HOSTED_ROOM, PEER_RESERVATION)
"""Every lifecycle of the gateway, in the order in which the gallery shows them."""
