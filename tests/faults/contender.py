"""A process that contends: `python -m tests.faults.contender PROCESS`; it reads an order a line and answers each."""

import json
import sys
from collections.abc import Callable
from typing import Any

import storage
from fsm import driver, rooms
from fsm.driver import DriverLease
from storage import Database
from tests.faults.processes import wait_until
from tests.world import identity

Order = dict[str, Any]


def acquire(order: Order, process: str) -> int:
    """Contend for the lease of a room."""
    lease = driver.acquire_lease(
        opened(order),
        room_id=order["room"],
        gateway_id="gw",
        authority_epoch=1,
        process_generation=process,
        ttl_seconds=60.0,
        clock=lambda: float(order["now"]),
    )
    return lease.lease_generation


def start(order: Order, _process: str) -> int:
    """Contend for the start of a task, under the lease that both contenders hold."""
    lease = DriverLease(**order["lease"])
    task = identity(order["task"])
    attempt = driver.start_task(
        opened(order), task, lease, expected_cancel_generation=0, clock=lambda: float(order["now"])
    )
    return attempt.execution_generation


def read(order: Order, _process: str) -> int:
    """Open what may be an older database, by its location alone."""
    return len(driver.list_tasks(order["path"], room_id=order["room"]))


def reserve(order: Order, process: str) -> int:
    """Contend for a profile: each process for a member and a gateway of its own, at one epoch of the room."""
    claims = {**order["claims"], "member_id": process, "authority_gateway_id": process}
    rooms.reserve_peer_room(opened(order), claims=claims, expires_at=order["now"] + 60, now=order["now"])
    return int(order["now"])


def append(order: Order, process: str) -> int:
    """Append an event under an id that is the process's own, or both contenders'."""
    view = rooms.append_event(
        opened(order),
        room_id=order["room"],
        event_id=order["event"].format(process=process),
        kind="message.user",
        actor={"kind": "user", "id": "ann"},
        payload={"text": order["event"]},
        authority_gateway_id="gw",
        authority_epoch=1,
    )
    return -view["seq"] if view["idempotent"] else view["seq"]


def create(order: Order, process: str) -> int:
    """Create a room of the process's own."""
    name = f"{order['prefix']}-{process}"
    room = rooms.create_room(opened(order), room_id=name, name="Room", members=[], authority_gateway_id="gw")
    return room["revision"]


WAYS: dict[str, Callable[[Order, str], int]] = {
    "acquire": acquire,
    "start": start,
    "read": read,
    "append": append,
    "create": create,
    "reserve": reserve,
}


def opened(order: Order) -> Database:
    """Return the handle; without fsync, for nobody pulls the plug."""
    return storage.open_database(order["path"], synchronous="normal")


def answer(order: Order, process: str) -> dict[str, Any]:
    """Carry out one order at its moment."""
    wait_until(order["at"])
    try:
        return {"won": WAYS[order["what"]](order, process)}
    except Exception as error:  # noqa: BLE001 # which error it is, is what the test asks
        return {"error": type(error).__name__}


def main() -> None:
    """Answer until there are no more orders."""
    (process,) = sys.argv[1:]
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line), process)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
