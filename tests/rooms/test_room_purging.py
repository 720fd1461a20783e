"""What goes with a pruned room: whatever the gateway keeps for it, and nothing of another room's."""

import pytest

from fsm import driver
from fsm.lifecycles.tables import EVENTS, LEASES, RETIRED, ROOMS, TASKS
from storage import ConstraintError
from tests.rooms.support import RETENTION, Gateway
from tests.world import START, World

# Tables of the gateway's own, by name; some refer to others, as a gateway that means it would declare.
PLAIN = {
    "hosted_room_policy_transcript": "(room_id TEXT, entry TEXT, PRIMARY KEY (room_id, entry))",
    "hosted_room_policy_watermarks": "(room_id TEXT, mark INTEGER)",
    "hosted_room_policy_cursors": "(room_id TEXT PRIMARY KEY, cursor INTEGER)",
}
REFERRING = {
    "hosted_room_policy_threads": (
        "(room_id TEXT PRIMARY KEY, thread INTEGER, FOREIGN KEY (room_id) REFERENCES hosted_rooms (room_id))"
    ),
    "hosted_room_policy_events": (
        "(room_id TEXT, seq INTEGER, FOREIGN KEY (room_id, seq) REFERENCES hosted_room_events (room_id, seq))"
    ),
    "hosted_room_policy_publications": (
        "(room_id TEXT REFERENCES hosted_room_policy_threads (room_id), task_id TEXT, kind TEXT,"
        " FOREIGN KEY (room_id, task_id) REFERENCES hosted_room_driver_tasks (room_id, task_id))"
    ),
    "hosted_room_policy_transcript_state": (
        "(room_id TEXT, entry TEXT,"
        " FOREIGN KEY (room_id, entry) REFERENCES hosted_room_policy_transcript (room_id, entry))"
    ),
}
VALUES = {
    "hosted_room_policy_events": "1",
    "hosted_room_policy_publications": "'t1', 'outcome'",
}


def _fill(gateway: Gateway, tables: dict[str, str], *rooms: str) -> None:
    for table, columns in tables.items():
        gateway.execute(f"CREATE TABLE {table} {columns}")
        for room in rooms:
            gateway.execute(f"INSERT INTO {table} VALUES (:room_id, {VALUES.get(table, '7')})", room_id=room)


def _work_in(gateway: Gateway, room: str) -> None:
    """Give a room an event, a lease, and a task that runs and one that waits."""
    gateway.create(room)
    gateway.claim("e1", room, new_gateway_id="gw")
    lease = driver.acquire_lease(
        gateway.db, room_id=room, gateway_id="gw", authority_epoch=2, process_generation="p1", ttl_seconds=60
    )
    for number in (1, 2):
        task = driver.TaskIdentity(room_id=room, task_id=f"t{number}", thread_id="thread", turn_id=f"turn{number}")
        given = {"target_profile": "helper", "prompt": "hello", "source_event_seq": number}
        driver.admit_task(gateway.db, task, payload=given)
    first = driver.TaskIdentity(room_id=room, task_id="t1", thread_id="thread", turn_id="turn1")
    driver.start_task(gateway.db, first, lease, expected_cancel_generation=0)


def _rooms_in(gateway: Gateway, table: str) -> set[str]:
    return {str(row["room_id"]) for row in gateway.execute(f"SELECT room_id FROM {table}")}


TABLES: dict[str, dict[str, str]] = {
    "no table of the gateway's own": {},
    "all of its tables": {**PLAIN, **REFERRING},
    "those without references": PLAIN,
    **{f"only {name.removeprefix('hosted_room_')}": {name: columns} for name, columns in PLAIN.items()},
}


@pytest.mark.parametrize("case", TABLES)
def test_everything_of_the_room_goes(gateway: Gateway, case: str) -> None:
    """Events, tasks, leases and the rows of whichever own tables exist go with the room; another room keeps its own."""
    for room in ("going", "staying"):
        _work_in(gateway, room)
    _fill(gateway, TABLES[case], "going", "staying")
    gateway.disband("going", "gw", 2)
    assert gateway.prune(START + RETENTION) == 1
    for table in (*TABLES[case], ROOMS.name, EVENTS.name, LEASES.name, TASKS.name):
        assert _rooms_in(gateway, table) == {"staying"}
    assert _rooms_in(gateway, RETIRED.name) == {"going"}
    assert len(gateway.execute(f"SELECT * FROM {TASKS.name}")) == 2


def test_a_disbanding_purges_what_it_prunes(gateway: Gateway) -> None:
    """A room that another one's disbanding prunes takes everything of its own along too."""
    for room in ("going", "staying"):
        _work_in(gateway, room)
    _fill(gateway, {**PLAIN, **REFERRING}, "going", "staying")
    gateway.disband("going", "gw", 2)
    gateway.disband("staying", "gw", 2, now=START + RETENTION)
    for table in (*PLAIN, *REFERRING, ROOMS.name, EVENTS.name, LEASES.name, TASKS.name):
        assert _rooms_in(gateway, table) == {"staying"}


def test_a_claim_that_needs_space_purges_what_it_prunes(gateway: Gateway) -> None:
    """A room that makes way for another one's event takes everything of its own along too."""
    for room in ("going", "staying"):
        _work_in(gateway, room)
    _fill(gateway, {**PLAIN, **REFERRING}, "going", "staying")
    gateway.disband("going", "gw", 2)
    gateway.alter("going", event_bytes=17 * 1024 * 1024)
    gateway.claim_from("gw", 2, "gw2", "e2", "staying")
    for table in (*PLAIN, *REFERRING, ROOMS.name, EVENTS.name, LEASES.name, TASKS.name):
        assert _rooms_in(gateway, table) == {"staying"}


def test_disbanding_itself_keeps_everything(gateway: Gateway) -> None:
    """Until it is pruned, a disbanded room keeps its events, tasks, lease and all that the gateway has for it."""
    _work_in(gateway, "room")
    _fill(gateway, {**PLAIN, **REFERRING}, "room")
    gateway.disband("room", "gw", 2)
    for table in (*PLAIN, *REFERRING, EVENTS.name, LEASES.name, TASKS.name):
        assert _rooms_in(gateway, table) == {"room"}


def test_tables_of_others_are_left_alone(gateway: Gateway) -> None:
    """A table that the gateway did not name keeps its rows, whatever its columns are called."""
    gateway.bring("disbanded")
    gateway.execute("CREATE TABLE hosted_room_notes (room_id TEXT, note TEXT)")
    gateway.execute("INSERT INTO hosted_room_notes VALUES ('room', 'mine')")
    gateway.prune(START + RETENTION)
    assert gateway.execute("SELECT note FROM hosted_room_notes") == [{"note": "mine"}]


def test_a_reference_from_an_unknown_table(gateway: Gateway) -> None:
    """Where a table that nobody named still refers to the room, nothing at all of the pruning is stored."""
    gateway.bring("disbanded")
    gateway.add_closed("other", START)
    gateway.execute("CREATE TABLE notes (room_id TEXT REFERENCES hosted_rooms (room_id))")
    gateway.execute("INSERT INTO notes VALUES ('room')")
    with gateway.refuses(ConstraintError):
        gateway.prune(START + RETENTION)


STATUSES = ("queued", "running", "settled", "failed", "cancelled", "indeterminate", "deferred", "stopping")


@pytest.mark.parametrize("status", STATUSES)
def test_a_task_goes_in_whatever_state(world: World, status: str) -> None:
    """Pruning a room deletes its tasks whatever state they are in."""
    world.bring(status)
    gateway = Gateway(world.db, world.clock)
    gateway.disband()
    assert gateway.prune(world.clock.now + RETENTION) == 1
    assert world.everything()[TASKS.name] == []


@pytest.mark.parametrize("state", ["held", "expired", "released"])
def test_a_lease_goes_in_whatever_state(world: World, state: str) -> None:
    """Pruning a room deletes its lease, even one that is still held by the time of the pruning."""
    if state == "held":
        world.acquire("p1", ttl=10 * RETENTION)
    if state == "released":
        driver.release_lease(world.db, world.lease)
    gateway = Gateway(world.db, world.clock)
    gateway.disband()
    assert gateway.prune(world.clock.now + RETENTION) == 1
    assert world.everything()[LEASES.name] == []
