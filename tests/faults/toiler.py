"""A process that works on one room until it is killed: `python -m tests.faults.toiler`, told by one order what on.

It names each call before it makes it, and what the call answered after it: only the latter is acknowledged.
"""

import json
import random
import sys
from collections.abc import Callable
from typing import Any

import storage
from fsm import driver
from fsm.driver import DriverLease, TaskAttempt, TaskIdentity, TaskView
from storage import Database
from tests.world import identity, payload

SHOWN = ("status", "execution_generation", "cancel_generation", "cancel_id", "settlement_id", "settlement_status")


def say(**facts: Any) -> None:
    """Write one line at once."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Toiler:
    """A driver of the room whose every choice falls by dice."""

    def __init__(self, db: Database, process: str, dice: random.Random) -> None:
        self.db = db
        self.process = process
        self.dice = dice
        self.numbers = iter(range(1, 1_000_000))
        self.lease = self._take()

    def _take(self) -> DriverLease:
        say(trying="acquire")
        lease = driver.acquire_lease(
            self.db,
            room_id="room",
            gateway_id="gw",
            authority_epoch=1,
            process_generation=self.process,
            ttl_seconds=60.0,
        )
        say(done="acquire", lease_generation=lease.lease_generation)
        return lease

    def recover(self) -> None:
        """Find what the last process left, and bring every bit of it to an end or back into the queue."""
        say(trying="lose")
        found = driver.recover_room(self.db, self.lease)
        say(done="lose", indeterminate=[each.task_id for each in found["indeterminate"]])
        for task in found["indeterminate"]:
            self._resolve(self._view(task))
        for view in driver.list_tasks(self.db, room_id="room", status="stopping"):
            self._stop(view)
        for view in driver.list_tasks(self.db, room_id="room", status="deferred"):
            self._undo_deferral(view)

    def toil(self) -> None:
        """Do one thing."""
        queue = driver.list_tasks(self.db, room_id="room", status="queued")
        ways = [self._admit] if len(queue) < 3 else [self._run_head, self._run_head, self._cancel_one]
        self.dice.choice(ways)()

    def _call(self, trigger: str, task: TaskIdentity, call: Callable[[], TaskView]) -> TaskView:
        say(trying=trigger, task=task.task_id)
        view = call()
        say(done=trigger, task=task.task_id, facts={name: dict(view)[name] for name in SHOWN})
        return view

    def _view(self, task: TaskIdentity) -> TaskView:
        return driver.get_task(self.db, task)

    def _name(self) -> str:
        return f"{self.process}-{next(self.numbers)}"

    def _outcome(self) -> dict[str, Any]:
        status = self.dice.choice(("settled", "failed"))
        return {"settlement_id": self._name(), "status": status, "result": {"by": self.process}}

    def _admit(self) -> None:
        task = identity(self._name())
        content = payload(self.dice.randint(1, 9), "x" * self.dice.choice((1, 20_000)))
        self._call("admit", task, lambda: driver.admit_task(self.db, task, payload=content))

    def _cancel_one(self) -> None:
        view = self.dice.choice(driver.list_tasks(self.db, room_id="room", status="queued"))
        self._cancel(view)

    def _cancel(self, view: TaskView) -> None:
        task, generation = view["identity"], view["cancel_generation"]
        self._call(
            "cancel",
            task,
            lambda: driver.cancel_task(self.db, task, cancel_id=self._name(), expected_cancel_generation=generation),
        )

    def _run_head(self) -> None:
        head = driver.list_tasks(self.db, room_id="room", status="queued")[0]
        task, generation = head["identity"], head["cancel_generation"]
        say(trying="start", task=task.task_id)
        attempt = driver.start_task(self.db, task, self.lease, expected_cancel_generation=generation)
        started = {"status": "running", "execution_generation": attempt.execution_generation}
        say(done="start", task=task.task_id, facts=started)
        self.dice.choice((self._settle, self._settle, self._give_back, self._ask_to_stop))(attempt)

    def _settle(self, attempt: TaskAttempt) -> None:
        outcome = self._outcome()
        self._call("settle", attempt.identity, lambda: driver.settle_task(self.db, attempt, **outcome))

    def _give_back(self, attempt: TaskAttempt) -> None:
        task = attempt.identity
        self._call("requeue_not_admitted", task, lambda: driver.requeue_not_admitted_task(self.db, attempt))

    def _ask_to_stop(self, attempt: TaskAttempt) -> None:
        task, generation, name = attempt.identity, attempt.cancel_generation, self._name()
        view = self._call(
            "begin_cancel",
            task,
            lambda: driver.begin_task_cancel(self.db, task, cancel_id=name, expected_cancel_generation=generation),
        )
        self._stop(view)

    def _generations(self, view: TaskView) -> dict[str, Any]:
        return {
            "expected_execution_generation": view["execution_generation"],
            "expected_cancel_generation": view["cancel_generation"],
        }

    def _stop(self, view: TaskView) -> None:
        task, generations = view["identity"], self._generations(view)
        if self.dice.random() < 0.5:
            outcome = self._outcome()
            self._call(
                "settle_stopping",
                task,
                lambda: driver.settle_stopping_task(self.db, task, self.lease, **generations, **outcome),
            )
            return
        cancel, generation = view["cancel_id"], view["cancel_generation"]
        self._call(
            "complete_cancel",
            task,
            lambda: driver.complete_task_cancel(self.db, task, cancel_id=cancel, expected_cancel_generation=generation),
        )

    def _resolve(self, view: TaskView) -> None:
        task, lease, fence = view["identity"], self.lease, self._generations(view)
        name, outcome = self._name(), self._outcome()
        ways: dict[str, Callable[[], TaskView]] = {
            "resolve": lambda: driver.resolve_indeterminate_task(self.db, task, lease, **fence, **outcome),
            "resolve_cancel": lambda: driver.resolve_indeterminate_cancellation(
                self.db, task, lease, **fence, cancel_id=name
            ),
            "requeue": lambda: driver.requeue_indeterminate_task(self.db, task, lease, **fence),
            "defer": lambda: driver.defer_indeterminate_task(self.db, task, lease, **fence, reason="later"),
        }
        trigger = self.dice.choice(list(ways))
        self._call(trigger, task, ways[trigger])

    def _undo_deferral(self, view: TaskView) -> None:
        task, fence = view["identity"], self._generations(view)
        if self.dice.random() < 0.3:
            self._cancel(view)
        elif self.dice.random() < 0.5:
            self._call(
                "requeue_deferred", task, lambda: driver.requeue_deferred_task(self.db, task, self.lease, **fence)
            )


def main() -> None:
    """Wait for the order, then work until killed."""
    order = json.loads(sys.stdin.readline())
    now = float(order["now"])
    db = storage.open_database(order["path"], clock=lambda: now, synchronous="normal")
    toiler = Toiler(db, order["process"], random.Random(order["seed"]))  # noqa: S311 # the same dice every time
    toiler.recover()
    while True:
        toiler.toil()


if __name__ == "__main__":
    main()
