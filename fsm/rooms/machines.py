"""The rooms' machine: its declaration with its steps bound, and the driver's lifecycles that its pruning ends."""

from typing import Final

from fsm.driver.machines import LEASE_MACHINE, TASK_MACHINE
from fsm.lifecycles import HOSTED_ROOM
from fsm.machine import Machine, connect
from fsm.rooms.events import append_event
from fsm.rooms.members import match_members
from fsm.rooms.retention import prune_others, purge_dependents, retire_id

__all__ = ["ROOM_MACHINE"]

ROOM_MACHINE: Final = Machine(
    HOSTED_ROOM,
    {
        "append_event": append_event,
        "match_members": match_members,
        "prune_others": prune_others,
        "purge_dependents": purge_dependents,
        "retire_id": retire_id,
    },
)
connect(ROOM_MACHINE, TASK_MACHINE, LEASE_MACHINE)
