"""A process that drives rooms which seven others want too: `python -m tests.faults.rival NAME`.

It is told where and with which dice, by which every choice falls, then until when. At the end it says what was
acknowledged to it, by which refusals it was turned away, and what else reached it.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

import storage
from fsm import driver
from fsm.driver import DriverLease, TaskAttempt, TaskIdentity, TaskView
from fsm.errors import LifecycleError, StaleLeaseError
from fsm.schema import GATEWAY_SCHEMA
from storage import Database
from tests.faults.toiler import say
from tests.world import identity, payload

Result = TypeVar("Result")

TTL_SECONDS: Final = 1.0
QUEUED_AT_MOST: Final = 3


class Rival:
    """One of the processes; it dies now and then, and comes back under another name with what it remembers."""

    def __init__(self, db: Database, name: str, rooms: list[str], dice: random.Random) -> None:
        self.db = db
        self.name = name
        self.rooms = rooms
        self.dice = dice
        self.lives = count(1)
        self.numbers = count(1)
        self.leases: dict[str, DriverLease] = {}
        self.unsettled: list[TaskAttempt] = []
        self.settled: list[tuple[str, str, str]] = []
        self.started: list[tuple[str, str, int]] = []
        self.refusals: Counter[str] = Counter()
        self.calls = 0
        self.process = self._born()

    def _born(self) -> str:
        return f"{self.name}-{next(self.lives)}"

    def _new(self) -> str:
        return f"{self.name}-{next(self.numbers)}"

    def work(self) -> None:
        """Do one thing in one room, which is mostly one that it holds."""
        held = tuple(self.leases) if self.dice.random() < 0.7 else ()
        room = self.dice.choice(held or self.rooms)
        as_user = (*(self._admit,) * 4, self._cancel, self._ask_to_stop, *(self._settle_late,) * 2)
        as_driver = (*(self._run,) * 9, self._admit, self._renew, self._release, self._die)
        self.dice.choice((*as_user, *(as_driver if room in self.leases else (self._acquire,) * 2)))(room)

    def _called(self, call: Callable[[], Result], lease: DriverLease | None = None) -> Result | None:
        """Call, and let a refusal end what was to be done; a lease that is stale is held no more."""
        self.calls += 1
        try:
            return call()
        except LifecycleError as refusal:
            self.refusals[type(refusal).__name__] += 1
            if isinstance(refusal, StaleLeaseError) and lease is not None:
                self.leases.pop(lease.room_id, None)
            return None

    def _listed(self, room: str, status: str) -> list[TaskView]:
        return driver.list_tasks(self.db, room_id=room, status=status)

    # --- as a user

    def _admit(self, room: str) -> None:
        if len(self._listed(room, "queued")) < QUEUED_AT_MOST:
            task, content = identity(self._new(), room), payload(self.dice.randint(1, 9))
            self._called(lambda: driver.admit_task(self.db, task, payload=content))

    def _cancel(self, room: str) -> None:
        for view in self._listed(room, self.dice.choice(("queued", "deferred")))[:1]:
            self._called(partial(driver.cancel_task, self.db, view["identity"], **self._cancelling(view)))

    def _ask_to_stop(self, room: str) -> None:
        for view in self._listed(room, "running"):
            self._called(partial(driver.begin_task_cancel, self.db, view["identity"], **self._cancelling(view)))

    def _cancelling(self, view: TaskView) -> dict[str, Any]:
        return {"cancel_id": self._new(), "expected_cancel_generation": view["cancel_generation"]}

    # --- as a driver

    def _acquire(self, room: str) -> None:
        lease = self._called(
            lambda: driver.acquire_lease(
                self.db,
                room_id=room,
                gateway_id="gw",
                authority_epoch=1,
                process_generation=self.process,
                ttl_seconds=TTL_SECONDS,
            )
        )
        if lease is None:
            # Whoever is told that the lease is held comes again a little later, and leaves the machine to its holder.
            time.sleep(self.dice.uniform(0, 0.1))
            return
        self.leases[room] = lease
        self._recover(lease)

    def _recover(self, lease: DriverLease) -> None:
        found = self._called(lambda: driver.recover_room(self.db, lease), lease)
        for task in found["indeterminate"] if found is not None else ():
            self._resolve(lease, driver.get_task(self.db, task))
        for view in self._listed(lease.room_id, "stopping"):
            self._stop(lease, view)
        for view in self._listed(lease.room_id, "deferred"):
            again = partial(driver.requeue_deferred_task, self.db, view["identity"], lease, **_fence(view))
            self._called(again, lease)

    def _resolve(self, lease: DriverLease, view: TaskView) -> None:
        task, fence = view["identity"], _fence(view)
        ways: tuple[Callable[[], object], ...] = (
            lambda: self._settle(
                task, lambda end: driver.resolve_indeterminate_task(self.db, task, lease, **fence, **end), lease
            ),
            lambda: self._called(lambda: driver.requeue_indeterminate_task(self.db, task, lease, **fence), lease),
            lambda: self._called(
                lambda: driver.defer_indeterminate_task(self.db, task, lease, **fence, reason="later"), lease
            ),
        )
        self.dice.choice(ways)()

    def _stop(self, lease: DriverLease, view: TaskView) -> None:
        task, fence = view["identity"], _fence(view)
        if self.dice.random() < 0.5:
            self._settle(task, lambda end: driver.settle_stopping_task(self.db, task, lease, **fence, **end), lease)
            return
        cancel, generation = view["cancel_id"], view["cancel_generation"]
        self._called(
            lambda: driver.complete_task_cancel(self.db, task, cancel_id=cancel, expected_cancel_generation=generation)
        )

    def _run(self, room: str) -> None:
        for view in self._listed(room, "stopping"):
            self._stop(self.leases[room], view)
        lease = self.leases.get(room)
        queue = self._listed(room, "queued")
        if lease is None or not queue:
            return
        task, generation = queue[0]["identity"], queue[0]["cancel_generation"]
        attempt = self._called(
            lambda: driver.start_task(self.db, task, lease, expected_cancel_generation=generation), lease
        )
        if attempt is not None:
            self.started.append((room, task.task_id, attempt.execution_generation))
            self.dice.choice((*(self._finish,) * 4, self._give_back, self.unsettled.append))(attempt)

    def _finish(self, attempt: TaskAttempt) -> None:
        self._settle(attempt.identity, lambda end: driver.settle_task(self.db, attempt, **end), attempt.lease)

    def _settle(self, task: TaskIdentity, call: Callable[[dict[str, Any]], TaskView], lease: DriverLease) -> None:
        end = {"settlement_id": self._new(), "status": self.dice.choice(("settled", "failed")), "result": None}
        view = self._called(lambda: call(end), lease)
        if view is None:
            return
        assert not view["idempotent"], "a settlement under a new id was taken for a retry"
        self.settled.append((task.room_id, task.task_id, str(end["settlement_id"])))
        if self.dice.random() < 0.2 and (again := self._called(lambda: call(end), lease)) is not None:
            assert again["idempotent"], "an exact retry settled again"

    def _give_back(self, attempt: TaskAttempt) -> None:
        self._called(lambda: driver.requeue_not_admitted_task(self.db, attempt), attempt.lease)

    def _settle_late(self, _room: str) -> None:
        """Settle what was started a while ago, in this life or an earlier one."""
        if self.unsettled:
            self._finish(self.unsettled.pop(self.dice.randrange(len(self.unsettled))))

    def _renew(self, room: str) -> None:
        lease = self.leases[room]
        renewed = self._called(lambda: driver.renew_lease(self.db, lease, ttl_seconds=TTL_SECONDS), lease)
        if renewed is not None:
            self.leases[room] = renewed

    def _release(self, room: str) -> None:
        lease = self.leases[room]
        if self._called(lambda: driver.release_lease(self.db, lease), lease) is not None:
            self.leases.pop(room, None)

    def _die(self, _room: str) -> None:
        """Forget every lease, as a process does that is gone; its work stays where it was."""
        if self.dice.random() < 0.2:
            self.leases.clear()
            self.process = self._born()


def _fence(view: TaskView) -> dict[str, Any]:
    return {
        "expected_execution_generation": view["execution_generation"],
        "expected_cancel_generation": view["cancel_generation"],
    }


def report(rival: Rival, until: float) -> dict[str, Any]:
    """Let it work until a moment, and return what it has seen."""
    failure = None
    try:
        while time.monotonic() < until:
            rival.work()
    except Exception as error:  # noqa: BLE001 # whatever reaches a caller is what the test asks
        failure = f"{type(error).__name__}: {error}"
    seen = {name: getattr(rival, name) for name in ("settled", "started", "refusals", "calls")}
    return {**seen, "failure": failure}


def main() -> None:
    """Contend as often as it is told to."""
    (name,) = sys.argv[1:]
    for line in sys.stdin:
        order = json.loads(line)
        with closing(storage.open_database(order["location"], synchronous="normal")) as db:
            db.require(GATEWAY_SCHEMA)
            say(ready=True)
            dice = random.Random(order["seed"])  # noqa: S311 # the same dice every time
            rival = Rival(db, name, order["rooms"], dice)
            say(**report(rival, json.loads(sys.stdin.readline())["until"]))


if __name__ == "__main__":
    main()
