"""The rows that the driver's lifecycles stand on: the room, its authority, and the lease of one process."""

from typing import Final

from fsm.errors import RoomUnavailableError, StaleLeaseError
from fsm.lifecycle import NOW, Arg, Authority, Check, Refusal, Root, Term, given
from fsm.lifecycles.tables import LEASES, ROOMS

__all__ = ["LEASE", "LEASE_IDENTITY", "LIVE_ROOM", "ROOM", "STALE_LEASE", "THE_ROOM"]

NO_ROOM: Final = Refusal(RoomUnavailableError, "create the room first")
ROOM_GONE: Final = Refusal(RoomUnavailableError, "the room is gone for good; work in another")
OTHER_AUTHORITY: Final = Refusal(
    StaleLeaseError, "read room_state; only the room's own gateway at its epoch may drive it"
)
STALE_LEASE: Final = Refusal(StaleLeaseError, "acquire the lease again and recover the room")

OF_THE_ROOM: Final = {"room_id": Arg("room_id")}
IS_LIVE: Final = Check(Term("disbanded_at", "is null"), ROOM_GONE)
IS_OURS: Final = Check(
    (Term("authority_gateway_id", "=", Arg("gateway_id")), *given("authority_epoch")), OTHER_AUTHORITY
)
LEASE_IDENTITY: Final = given("gateway_id", "authority_epoch", "process_generation", "lease_generation")
IN_FORCE: Final = (Term("released_at", "is null"), Term("expires_at", ">", NOW))

THE_ROOM: Final = Root(ROOMS, OF_THE_ROOM)
LIVE_ROOM: Final = Authority("room", ROOMS, OF_THE_ROOM, NO_ROOM, (IS_LIVE,))
ROOM: Final = Authority("room", ROOMS, OF_THE_ROOM, NO_ROOM, (IS_LIVE, IS_OURS))
LEASE: Final = Authority(
    "lease", LEASES, OF_THE_ROOM, STALE_LEASE, (Check(LEASE_IDENTITY, STALE_LEASE), Check(IN_FORCE, STALE_LEASE))
)
