"""One attempt of one task: from its start under the lease to the one outcome that the database takes."""

import signal
from collections.abc import Callable

from fsm.cli.children import Child, Watchdog
from fsm.cli.reading import stored_task
from fsm.cli.refusal import CommandRefusedError, unless_url
from fsm.cli.results import READ_LIMIT, RunResult, result_of
from fsm.cli.terms import SLICE_SECONDS, Term
from fsm.cli.world import Job, World
from fsm.driver import (
    TaskAttempt,
    TaskView,
    complete_task_cancel,
    requeue_not_admitted_task,
    settle_stopping_task,
    settle_task,
)
from fsm.errors import LifecycleError, RoomUnavailableError, StaleLeaseError, StaleTaskError
from fsm.lifecycles.driver_task import FAILED, RUNNING, SETTLED, STOPPING
from storage import StorageError

__all__ = ["Run", "put_back"]


def put_back(world: World, term: Term, attempt: TaskAttempt) -> None:
    """Return a task to the queue whose command provably never began."""
    term.insist(lambda: requeue_not_admitted_task(world.db, attempt, clock=world.tempo.clock))


class Run:
    """Runs the command for one attempt and reports to the database how it ended."""

    def __init__(self, job: Job, world: World, term: Term, attempt: TaskAttempt) -> None:
        self._job, self._world, self._term, self._attempt = job, world, term, attempt
        self._name = f"task {attempt.identity.task_id}"

    def carry_out(self, prompt: str) -> None:
        """Run the command and settle the task. Raises CommandRefusedError where the driver must not go on.

        The lease is looked at again right before the command begins: what a lost one started is for its successor.
        """
        self._term.renew_when_due()
        try:
            child = Child(self._job.command, prompt, self._environment())
        except (OSError, ValueError) as error:
            put_back(self._world, self._term, self._attempt)
            reason = error.strerror if isinstance(error, OSError) else "not a command line"
            raise CommandRefusedError(
                f"{unless_url(self._job.command[0])} cannot be started: {reason}; {self._name} is queued again"
            ) from error
        with child, self._watchdog(child) as watchdog:
            self._world.report.notice(
                "spawned",
                f"{self._name}: {self._job.command[0]} runs as process {child.pid}",
                task_id=self._attempt.identity.task_id,
                pid=child.pid,
            )
            self._attend(child, watchdog)

    def _environment(self) -> dict[str, str]:
        identity = self._attempt.identity
        return {
            **self._world.environment,
            "FSM_ROOM_ID": identity.room_id,
            "FSM_TASK_ID": identity.task_id,
            "FSM_THREAD_ID": identity.thread_id,
            "FSM_TURN_ID": identity.turn_id,
            "FSM_EXECUTION_GENERATION": str(self._attempt.execution_generation),
        }

    def _watchdog(self, child: Child) -> Watchdog:
        """Return what kills the command at the deadline even while this thread hangs in the database."""
        return Watchdog(lambda: child.send(signal.SIGKILL), lambda: self._term.deadline, self._world.tempo.monotonic)

    # --- while it runs

    def _attend(self, child: Child, watchdog: Watchdog) -> None:
        while not child.ended():
            self._term.renew_when_due()
            if self._world.stop.insisted:
                self._end(child)
                raise CommandRefusedError(f"told to stop at once; {self._name} was terminated and waits for recovery")
            task = self._wanted_no_more()
            if task is not None:
                self._give_up(child, watchdog, task)
                return
            self._wait(child)
        self._settle(child, watchdog)

    def _wait(self, child: Child) -> None:
        self._world.tempo.pause(self._job.poll, until=lambda: child.ended() or self._world.stop.insisted)

    def _wanted_no_more(self) -> TaskView | None:
        """Return the task as stored where this attempt is no longer to run, and None where it is, or nobody can say."""
        try:
            task = stored_task(self._world.db, self._attempt.identity)
        except StorageError:
            return None
        return None if task["status"] == RUNNING.name and self._is_ours(task) else task

    def _is_ours(self, task: TaskView) -> bool:
        return task["execution_generation"] == self._attempt.execution_generation

    def _end(self, child: Child) -> None:
        """Terminate the command; what has not ended after the grace is killed when it is reaped."""
        tempo, stop = self._world.tempo, self._world.stop
        child.send(signal.SIGTERM)
        end = tempo.monotonic() + self._job.grace
        while not child.ended() and not stop.at_once and tempo.monotonic() < end:
            self._term.renew_when_due()
            tempo.sleep(SLICE_SECONDS)
        child.reap()

    # --- how it ended

    def _give_up(self, child: Child, watchdog: Watchdog, task: TaskView) -> None:
        """Stop a run that is not wanted any more, and acknowledge the stop; a run that ended first is settled."""
        if child.ended():
            self._settle(child, watchdog)
            return
        self._end(child)
        if task["status"] == STOPPING.name and self._is_ours(task):
            self._decided(lambda: self._acknowledge(task))
        else:
            self._tell_what_holds()

    def _acknowledge(self, task: TaskView) -> TaskView:
        return complete_task_cancel(
            self._world.db,
            self._attempt.identity,
            cancel_id=task["cancel_id"],
            expected_cancel_generation=task["cancel_generation"],
            clock=self._world.tempo.clock,
        )

    def _settle(self, child: Child, watchdog: Watchdog) -> None:
        exit_code = child.reap()
        if watchdog.fired:
            raise self._term.loss("it could not be renewed in time")
        output, truncated = child.output(READ_LIMIT)
        result = result_of(exit_code, output, truncated=truncated)
        settlement_id = self._world.db.new_id()
        try:
            self._fenced(lambda: self._settle_running(settlement_id, result))
        except StaleTaskError:
            self._decided(lambda: self._settle_stopping(settlement_id, result))

    def _settle_running(self, settlement_id: str, result: RunResult) -> TaskView:
        return settle_task(
            self._world.db,
            self._attempt,
            settlement_id=settlement_id,
            status=_status_of(result),
            result=result,
            clock=self._world.tempo.clock,
        )

    def _settle_stopping(self, settlement_id: str, result: RunResult) -> TaskView:
        """Settle a run whose stop was asked for while it ended: the completion won."""
        return settle_stopping_task(
            self._world.db,
            self._attempt.identity,
            self._term.lease,
            expected_execution_generation=self._attempt.execution_generation,
            expected_cancel_generation=stored_task(self._world.db, self._attempt.identity)["cancel_generation"],
            settlement_id=settlement_id,
            status=_status_of(result),
            result=result,
            clock=self._world.tempo.clock,
        )

    def _fenced(self, call: Callable[[], TaskView]) -> TaskView:
        try:
            return self._term.insist(call)
        except (StaleLeaseError, RoomUnavailableError) as error:
            raise self._term.loss(error) from error

    def _decided(self, call: Callable[[], TaskView]) -> None:
        """Make a call that another party's decision about the task may have made pointless; then tell what holds."""
        try:
            self._fenced(call)
        except LifecycleError:
            self._tell_what_holds()

    def _tell_what_holds(self) -> None:
        task = self._term.insist(lambda: stored_task(self._world.db, self._attempt.identity))
        if task["status"] in {RUNNING.name, STOPPING.name} and self._is_ours(task):
            raise CommandRefusedError(f"the outcome of {self._name} cannot be stored; it is left to recovery")
        message = f"{self._name} is {task['status']}; the outcome of this run does not count"
        self._world.report.notice("overtaken", message, task_id=self._attempt.identity.task_id)


def _status_of(result: RunResult) -> str:
    return SETTLED.name if result["exit_code"] == 0 else FAILED.name
