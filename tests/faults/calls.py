"""Calls of the library that a fault may hit: the state before each, and how its caller learns what became of it."""

from collections.abc import Callable
from typing import Any, Final

from attrs import define, evolve, field, frozen

from fsm import driver, rooms
from fsm.driver import DriverLease, TaskAttempt
from storage import Database
from tests.rooms.support import Gateway
from tests.world import ManualClock, World, identity, payload

DAY: Final = 24 * 60 * 60.0
_GENERATIONS: Final[dict[str, Any]] = {"expected_execution_generation": 1, "expected_cancel_generation": 0}
_STOPPING: Final[dict[str, Any]] = {"expected_execution_generation": 1, "expected_cancel_generation": 1}
_SETTLEMENT: Final[dict[str, Any]] = {"settlement_id": "s1", "status": "settled", "result": {"n": 1}}


@define
class Scene:
    """What stands before a call, and what its caller holds."""

    db: Database
    clock: ManualClock
    world: World = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.world = World(self.db, self.clock)

    @property
    def lease(self) -> DriverLease:
        return self.world.lease

    @property
    def attempt(self) -> TaskAttempt:
        return TaskAttempt(identity(), self.lease, 1, 0)

    @property
    def gateway(self) -> Gateway:
        return Gateway(self.db, self.clock)


@frozen
class Call:
    """One call. It replays: made again it says what is stored; or it is simply made again; or `look` tells.

    `look` answers what the call would have, None where nothing of it is stored.
    """

    name: str
    prepare: Callable[[Scene], object]
    make: Callable[[Scene, Database], Any]
    replays: bool = True
    look: Callable[[Scene, Database], Any] | None = None


def _acquire(process: str) -> Callable[[Scene, Database], Any]:
    def make(scene: Scene, db: Database) -> Any:
        lease = driver.acquire_lease(
            db,
            room_id="room",
            gateway_id="gw",
            authority_epoch=1,
            process_generation=process,
            ttl_seconds=60.0,
            clock=scene.clock,
        )
        # The caller learns of an earlier term from the call that began this one.
        return evolve(lease, reclaimed=False)

    return make


def _look_for_attempt(scene: Scene, db: Database) -> Any:
    """Do as the docstring of start_task says."""
    view = driver.get_task(db, identity())
    run = (view["run_gateway_id"], view["run_process_generation"], view["run_lease_generation"])
    lease = scene.lease
    if view["status"] != "running" or run != (lease.gateway_id, lease.process_generation, lease.lease_generation):
        return None
    return TaskAttempt(identity(), lease, view["execution_generation"], view["cancel_generation"])


def _retire(scene: Scene) -> None:
    """Leave rooms behind that are due: one by its age, with a task and a lease that go with it."""
    scene.world.admit()
    scene.gateway.disband()
    scene.gateway.create("second")
    scene.clock.advance(91 * DAY)


def _prune(scene: Scene, db: Database) -> Any:
    del scene
    rooms.prune_disbanded_rooms(db)


def _claim(_: Scene, db: Database) -> Any:
    expected = {"expected_gateway_id": "gw", "expected_epoch": 1}
    return rooms.claim_authority(db, room_id="room", new_gateway_id="gw2", event_id="e1", **expected)


def _disband(_: Scene, db: Database) -> Any:
    return rooms.disband_room(db, room_id="second", expected_gateway_id="gw", expected_epoch=1)


def _create(room: str) -> Callable[[Scene, Database], Any]:
    return lambda _, db: rooms.create_room(
        db, room_id=room, name="Room", members=[{"id": "ann"}] if room == "new" else [], authority_gateway_id="gw"
    )


CALLS: Final = (
    Call("create_room", lambda _: None, _create("new")),
    Call("claim_authority", lambda _: None, _claim),
    Call("disband_room", _retire, _disband),
    Call("prune_disbanded_rooms", _retire, _prune, replays=False),
    Call("acquire_lease", lambda scene: driver.release_lease(scene.db, scene.lease), _acquire("p2"), replays=False),
    Call("acquire_expired_lease", lambda scene: scene.clock.advance(61), _acquire("p2"), replays=False),
    Call(
        "renew_lease",
        lambda scene: scene.clock.advance(5),
        lambda scene, db: driver.renew_lease(db, scene.lease, ttl_seconds=60.0),
        replays=False,
    ),
    Call("release_lease", lambda _: None, lambda scene, db: driver.release_lease(db, scene.lease)),
    Call("admit_task", lambda _: None, lambda _, db: driver.admit_task(db, identity(), payload=payload())),
    Call(
        "start_task",
        lambda scene: scene.world.admit(),
        lambda scene, db: driver.start_task(db, identity(), scene.lease, expected_cancel_generation=0),
        replays=False,
        look=_look_for_attempt,
    ),
    Call(
        "settle_task",
        lambda scene: scene.world.start(),
        lambda scene, db: driver.settle_task(db, scene.attempt, **_SETTLEMENT),
    ),
    Call(
        "settle_stopping_task",
        lambda scene: scene.world.bring("stopping"),
        lambda scene, db: driver.settle_stopping_task(db, identity(), scene.lease, **_STOPPING, **_SETTLEMENT),
    ),
    Call(
        "requeue_not_admitted_task",
        lambda scene: scene.world.start(),
        lambda scene, db: driver.requeue_not_admitted_task(db, scene.attempt),
    ),
    Call(
        "cancel_task",
        lambda scene: scene.world.admit(),
        lambda _, db: driver.cancel_task(db, identity(), cancel_id="c1", expected_cancel_generation=0),
    ),
    Call(
        "begin_task_cancel",
        lambda scene: scene.world.start(),
        lambda _, db: driver.begin_task_cancel(db, identity(), cancel_id="c1", expected_cancel_generation=0),
    ),
    Call(
        "complete_task_cancel",
        lambda scene: scene.world.bring("stopping"),
        lambda _, db: driver.complete_task_cancel(db, identity(), cancel_id="c1", expected_cancel_generation=1),
    ),
    Call(
        "recover_room",
        lambda scene: (scene.world.start(), scene.world.take_over()),
        lambda scene, db: driver.recover_room(db, scene.lease),
        replays=False,
    ),
    Call(
        "requeue_indeterminate_task",
        lambda scene: scene.world.lose(),
        lambda scene, db: driver.requeue_indeterminate_task(db, identity(), scene.lease, **_GENERATIONS),
    ),
    Call(
        "defer_indeterminate_task",
        lambda scene: scene.world.lose(),
        lambda scene, db: driver.defer_indeterminate_task(db, identity(), scene.lease, **_GENERATIONS, reason="later"),
    ),
)


def told(answer: Any) -> tuple[Any, bool]:
    """Part an answer into what it says is stored, and whether it says that this was so before the call."""
    if not isinstance(answer, dict):
        return answer, False
    parts = {key: told(value) for key, value in answer.items() if key != "idempotent"}
    return {key: part for key, (part, _) in parts.items()}, bool(answer.get("idempotent", False))
