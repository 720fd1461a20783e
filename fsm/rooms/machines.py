"""The machines of rooms and of peer reservations: their declarations with their steps bound, and what they fire."""

from typing import Final

from fsm.driver.machines import LEASE_MACHINE, TASK_MACHINE
from fsm.lifecycles import HOSTED_ROOM, PEER_RESERVATION
from fsm.machine import Machine, Record, connect
from fsm.rooms.events import append_event
from fsm.rooms.members import match_members
from fsm.rooms.retention import prune_others, purge_dependents, retire_id

__all__ = ["PEER_RESERVATION_MACHINE", "ROOM_MACHINE"]

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


def _drop_expired(record: Record) -> None:
    record.sweep(PEER_RESERVATION.name, "drop")


def _revoke_older(record: Record) -> None:
    of_the_profile = ("room_id", "target_profile", "member_id", "authority_epoch")
    record.sweep(PEER_RESERVATION.name, "supersede", **{name: record.values[name] for name in of_the_profile})


PEER_RESERVATION_MACHINE: Final = Machine(
    PEER_RESERVATION, {"drop_expired": _drop_expired, "revoke_older": _revoke_older}
)
connect(ROOM_MACHINE, TASK_MACHINE, LEASE_MACHINE, PEER_RESERVATION_MACHINE)
