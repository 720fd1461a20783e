"""A driver: one process that takes a room's tasks in their order and runs a command for each.

It writes nothing of its own. Every step is a call of `fsm.driver`, so that two drivers, a killed one and a slow one
never run a task twice without a person having said so.
"""

from fsm.cli.reading import stored_task, tasks_in
from fsm.cli.running import Run, put_back
from fsm.cli.terms import Term
from fsm.cli.world import Job, World
from fsm.driver import (
    DriverLease,
    TaskAttempt,
    TaskView,
    acquire_lease,
    recover_room,
    release_lease,
    start_task,
)
from fsm.errors import (
    InvalidTaskTransitionError,
    LeaseHeldError,
    LifecycleError,
    RoomUnavailableError,
    StaleLeaseError,
    StaleTaskError,
    TaskConflictError,
)
from fsm.lifecycles.driver_task import INDETERMINATE, QUEUED, RUNNING, STOPPING
from fsm.rooms import room_state
from storage import DatabaseUnavailableError, OutcomeUnknownError, StorageError

__all__ = ["Driver"]


class Driver:
    """Drives one room until it is told to stop or, where it drains, until nothing is left to do."""

    def __init__(self, job: Job, world: World) -> None:
        self._job, self._world = job, world
        self._gateway_id = job.gateway_id

    def run(self) -> None:
        """Drive. Raises CommandRefusedError where the driver must stop by itself."""
        while (term := self._take_lease()) is not None:
            try:
                blocker = self._work(term)
            finally:
                self._release(term)
            if blocker is None:
                return
            self._wait_for_resolution(blocker)

    # --- the lease

    def _take_lease(self) -> Term | None:
        """Wait for the lease; None where there is no longer a reason to have it."""
        told = False
        while not self._is_over():
            asked_at = self._world.tempo.monotonic()
            try:
                lease = self._acquire()
            except LeaseHeldError:
                if not told:
                    self._world.report.notice(
                        "waiting", f"room {self._job.room_id}: waiting for the lease of another driver"
                    )
                told = True
                self._pause()
            except (OutcomeUnknownError, DatabaseUnavailableError):
                # The one that waits is meant to take over: a database that is busy for a while must not end it.
                self._pause()
            else:
                return Term(self._world.db, lease, taken_at=asked_at, ttl=self._job.ttl, tempo=self._world.tempo)
        return None

    def _acquire(self) -> DriverLease:
        room = room_state(self._world.db, room_id=self._job.room_id)
        # A driver stays with the gateway that it began for, also when it acquires the lease again.
        self._gateway_id = self._gateway_id or room["authority_gateway_id"]
        return acquire_lease(
            self._world.db,
            room_id=self._job.room_id,
            gateway_id=self._gateway_id,
            authority_epoch=room["authority_epoch"],
            process_generation=self._world.process_generation,
            ttl_seconds=self._job.ttl,
            clock=self._world.tempo.clock,
        )

    def _release(self, term: Term) -> None:
        """Give the lease up, unless a task still runs under it: that one is for the next holder to recover."""
        if term.lost:
            return
        try:
            release_lease(self._world.db, term.lease, clock=self._world.tempo.clock)
        except (LifecycleError, StorageError) as error:
            self._world.report.notice(
                "not_released", f"room {self._job.room_id}: the lease will expire by itself: {error}"
            )

    # --- the queue

    def _work(self, term: Term) -> str | None:
        """Recover the room and take its tasks; return what blocks it, or None where the driver is done."""
        try:
            term.insist(lambda: recover_room(self._world.db, term.lease, clock=self._world.tempo.clock))
            while not term.insist(self._is_over):
                term.renew_when_due()
                blocker = term.insist(self._blocker)
                if blocker is not None:
                    return blocker
                self._take_next(term)
        except (StaleLeaseError, RoomUnavailableError) as error:
            raise term.loss(error) from error
        return None

    def _take_next(self, term: Term) -> None:
        head = term.insist(self._head)
        if head is None or head["payload"] is None:
            self._pause()
            return
        attempt = self._start(term, head)
        if attempt is None:
            self._put_back_unspawned(term)
            self._pause()
        elif self._world.stop.asked:
            put_back(self._world, term, attempt)
        else:
            Run(self._job, self._world, term, attempt).carry_out(head["payload"]["prompt"])

    def _put_back_unspawned(self, term: Term) -> None:
        """Requeue what runs under this lease while no command does: a start that was committed after all.

        A task whose command did begin never gets here: its outcome is stored, or the driver ends.
        """
        for task in term.insist(lambda: tasks_in(self._world.db, self._job.room_id, RUNNING)):
            if _runs_under(task, term.lease):
                put_back(self._world, term, _attempt_of(task, term.lease))

    def _head(self) -> TaskView | None:
        return next(iter(tasks_in(self._world.db, self._job.room_id, QUEUED)), None)

    def _start(self, term: Term, task: TaskView) -> TaskAttempt | None:
        """Start the task; None where it, or the queue, has changed since it was read."""
        try:
            return start_task(
                self._world.db,
                task["identity"],
                term.lease,
                expected_cancel_generation=task["cancel_generation"],
                clock=self._world.tempo.clock,
            )
        except StorageError:
            return self._started_after_all(term, task)
        except (InvalidTaskTransitionError, StaleTaskError, TaskConflictError):
            return None

    def _started_after_all(self, term: Term, task: TaskView) -> TaskAttempt | None:
        """Learn what became of a start whose answer was lost: what runs under this very lease is ours."""
        stored = term.insist(lambda: stored_task(self._world.db, task["identity"]))
        if stored["status"] != RUNNING.name or not _runs_under(stored, term.lease):
            return None
        return _attempt_of(stored, term.lease)

    # --- what stands in the way

    def _blocker(self) -> str | None:
        """Say what must be resolved before anything of the room can start."""
        for task in tasks_in(self._world.db, self._job.room_id, INDETERMINATE, STOPPING):
            return f"task {task['identity'].task_id} is {task['status']}"
        head = self._head()
        return (
            f"task {head['identity'].task_id} is damaged, and can only be cancelled with fsm cancel"
            if head is not None and "corrupt" in head
            else None
        )

    def _wait_for_resolution(self, blocker: str) -> None:
        """Leave the lease to whoever resolves what blocks the room, and look until it is resolved."""
        message = f"room {self._job.room_id}: {blocker}; nothing else starts until it is resolved"
        self._world.report.notice("blocked", message)
        while self._blocker() is not None and not self._world.stop.asked:
            self._pause()

    def _is_over(self) -> bool:
        return self._world.stop.asked or (self._job.drain and not self._anything_left())

    def _anything_left(self) -> bool:
        return bool(tasks_in(self._world.db, self._job.room_id, QUEUED, RUNNING, STOPPING, INDETERMINATE))

    def _pause(self) -> None:
        self._world.tempo.pause(self._job.poll, until=lambda: self._world.stop.asked)


def _attempt_of(task: TaskView, lease: DriverLease) -> TaskAttempt:
    return TaskAttempt(task["identity"], lease, task["execution_generation"], task["cancel_generation"])


def _runs_under(task: TaskView, lease: DriverLease) -> bool:
    run = (task["run_gateway_id"], task["run_process_generation"], task["run_lease_generation"])
    return run == (lease.gateway_id, lease.process_generation, lease.lease_generation)
