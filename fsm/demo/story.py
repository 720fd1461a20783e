"""The acts of the demo, each of which ends only when what it claims has been seen."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from fsm.cli.refusal import CommandRefusedError
from fsm.cli.submitting import admit_prompts
from fsm.cli.terms import Tempo
from fsm.demo.chronicle import Chronicle, Told
from fsm.demo.claims import held_back, prove_outcome
from fsm.demo.processes import DriverProcess, operate
from fsm.driver import TaskIdentity
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK
from fsm.lifecycles.driver_lease import ACQUIRE, EXPIRED
from fsm.lifecycles.driver_task import LOSE, SETTLE
from storage import Database

__all__ = ["Story"]

TTL_SECONDS: Final = 3
SOON_SECONDS: Final = 20.0
WATCH_SECONDS: Final = 1.0
MIDDLE_SECONDS: Final = 0.3
ANSWER: Final = (
    "import sys, time; question = sys.stdin.read(); time.sleep(1.4); print('answered', len(question.split()), 'words')"
)
FIRST, SECOND, OPERATOR, DEMO = "driver one", "driver two", "operator", "demo"


class Story:
    """Two drivers on one room: the first is killed in the middle of a task, the other takes over."""

    def __init__(self, db: Database, location: str, room_id: str, tempo: Tempo, tell: Callable[[str], None]) -> None:
        self._db, self._location, self._room_id, self._tempo, self._tell = db, location, room_id, tempo, tell
        self.chronicle = Chronicle()
        self.identities: list[TaskIdentity] = []
        self._lost: TaskIdentity | None = None

    def run(self, prompts: list[str]) -> None:
        """Play all acts. Raises CommandRefusedError where one does not go as it must."""
        tasks = list(admit_prompts(self._db, self._room_id, prompts, prefix="task", profile="default"))
        self.identities = [task["identity"] for task in tasks]
        self._tell(f"{len(tasks)} prompts are queued in room {self._room_id}")
        with ExitStack() as processes:
            first = processes.enter_context(self._driver(FIRST))
            self._wait(f"{FIRST} takes the lease", _by(FIRST, _takes_lease))
            self._tell(f"{FIRST} has the lease and works")
            second = processes.enter_context(self._driver(SECOND))
            self._wait(f"{SECOND} waits", _by(SECOND, lambda told: told.is_notice("waiting")))
            self._tell(f"{SECOND} waits for the lease")
            self._kill_in_the_middle(first)
            self._watch_the_takeover()
            self._resolve()
            second.finish()
        prove_outcome(self._db, self._room_id, self.lost, self.chronicle)
        self._tell("every task is settled, each exactly once; only the lost one began twice, because a person said so")

    @property
    def lost(self) -> TaskIdentity:
        """The task in the middle of which the first driver was killed."""
        if self._lost is None:
            raise CommandRefusedError("no driver was killed")
        return self._lost

    def _driver(self, name: str) -> DriverProcess:
        options = ("--room", self._room_id, "--ttl", str(TTL_SECONDS), "--events", "--drain")
        return DriverProcess(name, (self._location, *options, "--", sys.executable, "-c", ANSWER), self.chronicle)

    def _wait(self, what: str, matches: Callable[[Told], bool]) -> Told:
        return self.chronicle.wait_for(what, matches, SOON_SECONDS)

    def _kill_in_the_middle(self, first: DriverProcess) -> None:
        self._wait("the first task is settled", lambda told: told.is_step(DRIVER_TASK.name, SETTLE.name))
        # Only what begins from now on: on a slow machine the driver may be anywhere in what it has begun before.
        begun = {told.facts["pid"] for told in self.chronicle.told() if told.is_notice("spawned")}
        spawned = self._wait(
            "another task runs",
            _by(FIRST, lambda told: told.is_notice("spawned") and told.facts["pid"] not in begun),
        )
        self._lost = next(each for each in self.identities if each.task_id == spawned.task_id)
        self._tempo.sleep(MIDDLE_SECONDS)
        first.kill()
        self.chronicle.add(FIRST, {"notice": "killed", "task_id": self.lost.task_id, "at": self._tempo.clock()})
        self._tell(f"{FIRST} is killed in the middle of a task; its lease still stands")

    def _watch_the_takeover(self) -> None:
        self._wait("the lease expires and is taken", _by(SECOND, lambda told: _takes_lease(told, EXPIRED.name)))
        self._tell(f"the lease has expired and {SECOND} has it now")
        self._wait("the task is found lost", _by(SECOND, lambda told: told.is_step(DRIVER_TASK.name, LOSE.name)))
        self._wait("the driver is blocked", _by(SECOND, lambda told: told.is_notice("blocked")))
        end = self._tempo.monotonic() + WATCH_SECONDS
        while self._tempo.monotonic() < end:
            held_back(self._db, self._room_id, self.lost)
            self._tempo.sleep(WATCH_SECONDS / 10)
        self._tell(f"nobody knows how far the lost task came: for {WATCH_SECONDS:g} s nothing behind it begins")

    def _resolve(self) -> None:
        options = ("--room", self._room_id, "--task", self.lost.task_id, "--requeue", "--events")
        operate(OPERATOR, ("resolve", self._location, *options), self.chronicle)
        self._tell(f"a person decides that it may run again; {SECOND} goes on")


def _by(process: str, matches: Callable[[Told], bool]) -> Callable[[Told], bool]:
    return lambda told: told.process == process and matches(told)


def _takes_lease(told: Told, source: str | None = None) -> bool:
    return told.is_step(DRIVER_LEASE.name, ACQUIRE.name) and source in {None, told.facts["source"]}
