"""Real processes of the command line, and a room for them to work on."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from attrs import frozen

import fsm
from fsm.driver import (
    DriverLease,
    TaskAttempt,
    TaskIdentity,
    TaskView,
    acquire_lease,
    admit_task,
    list_tasks,
    recover_room,
    start_task,
)
from fsm.rooms import create_room, room_state
from storage import Database
from tests.cli.warm import Warm
from tests.engines import Engine

FSM = (sys.executable, "-m", "fsm")
PATIENCE = 20.0
ROOM = "room"
GATEWAY = "gw"
SOURCES = str(Path(fsm.__file__).resolve().parents[1])


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which this very source tree is what `-m fsm` runs."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {**ours, "PYTHONPATH": SOURCES, **more}


def run_fsm(*arguments: object, given: str | None = None, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end, from a process that is warm where its environment is the usual one."""
    if more:
        return run_started(*arguments, given=given, **more)
    return Warm.of(frozenset(environment().items())).run([*map(str, arguments)], given, PATIENCE)


def run_started(*arguments: object, given: str | None = None, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end in an interpreter that is started for it."""
    command, its = [*FSM, *map(str, arguments)], environment(**more)
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False, env=its)


def is_one_line(text: str) -> bool:
    """Say whether a text is exactly one line, as an error of the command line is, and no traceback."""
    return text.endswith("\n") and text.count("\n") == 1 and text.startswith("fsm: ")


def eventually(holds: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    """Return the first true answer within the time."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come true in time")


def is_alive(group: int) -> bool:
    """Say whether anything of a process group still runs; what is dead but not yet collected does not."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True)  # noqa: S607 # wherever it is
    return any(
        int(pgid) == group and not state.startswith("Z") for pgid, state in map(str.split, listed.stdout.splitlines())
    )


@frozen
class Room:
    """A live room at a location, used beside the processes under test."""

    engine: Engine
    db: Database
    location: str

    @classmethod
    def make(cls, engine: Engine) -> Self:
        """Create the room."""
        location = engine.empty()
        db = engine.open(location)
        create_room(db, room_id=ROOM, name="Room", members=[], authority_gateway_id=GATEWAY)
        return cls(engine, db, location)

    def spoil(self, statement: str) -> None:
        """Change what is stored past the library and past every CHECK, as no release of it would."""
        self.engine.spoil(self.location, statement)

    def admit(self, *prompts: str) -> list[TaskIdentity]:
        """Admit a task for each prompt: t1, t2, ..."""
        identities = [
            TaskIdentity(ROOM, f"t{number}", "thread", f"turn{number}") for number in range(1, len(prompts) + 1)
        ]
        for number, (identity, prompt) in enumerate(zip(identities, prompts, strict=True), start=1):
            admit_task(self.db, identity, payload={"target_profile": "p", "prompt": prompt, "source_event_seq": number})
        return identities

    def lease(self, *, ttl: float = 30.0, process: str = "process-of-the-test") -> DriverLease:
        """Take the lease for the test itself."""
        return acquire_lease(
            self.db,
            room_id=ROOM,
            gateway_id=GATEWAY,
            authority_epoch=room_state(self.db, room_id=ROOM)["authority_epoch"],
            process_generation=process,
            ttl_seconds=ttl,
        )

    def start(self, identity: TaskIdentity, lease: DriverLease) -> TaskAttempt:
        """Start a task under a lease of the test."""
        return start_task(self.db, identity, lease, expected_cancel_generation=0)

    def lose(self, identity: TaskIdentity) -> None:
        """Bring a task into uncertainty: its driver vanishes and another one recovers the room, then vanishes too."""
        self.start(identity, self.lease(ttl=0.05, process="gone"))
        time.sleep(0.1)
        recover_room(self.db, self.lease(ttl=0.05, process="gone-too"))
        time.sleep(0.1)

    def damage(self, identity: TaskIdentity) -> None:
        """Destroy what is stored of a task's content, past the library."""
        sql = "UPDATE hosted_room_driver_tasks SET payload_json = '{' WHERE task_id = :task_id"
        self.db.write(lambda tx: tx.execute(sql, {"task_id": identity.task_id}))

    def tasks(self) -> list[TaskView]:
        """Return all tasks."""
        return list_tasks(self.db, room_id=ROOM)

    def task(self, name: str = "t1") -> TaskView:
        """Return one task."""
        return next(task for task in self.tasks() if task["identity"].task_id == name)

    def states(self) -> list[str]:
        """Return the states of all tasks, in order."""
        return [task["status"] for task in self.tasks()]


class DriverUnderTest:
    """A real `fsm drive --events`, and what it has told so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def wait_for(self, **facts: object) -> dict[str, Any]:
        """Return the first event, told already or soon, that has these facts."""

        def found() -> dict[str, Any] | None:
            with suppress(queue.Empty):
                while True:
                    self.told.append(json.loads(self._lines.get_nowait()))
            return next((each for each in self.told if facts.items() <= each.items()), None)

        return dict(eventually(found))

    def spawned(self, task: str = "t1") -> int:
        """Wait until the command of a task runs, and return its process group."""
        return int(self.wait_for(notice="spawned", task_id=task)["pid"])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver alone."""
        self.process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """Wait for the driver's end; return its exit code and what it wrote to standard error."""
        code = self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()


@contextmanager
def driving(room: Room, *options: object, command: tuple[str, ...]) -> Iterator[DriverUnderTest]:
    """Start a driver; nothing of it outlives the block."""
    arguments = [
        "drive",
        room.location,
        "--room",
        ROOM,
        "--events",
        "--poll",
        "0.05",
        *map(str, options),
        "--",
        *command,
    ]
    with subprocess.Popen(
        [*FSM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        driver = DriverUnderTest(process)
        try:
            yield driver
        finally:
            process.kill()
            process.wait()
            for each in driver.told:
                if each.get("notice") == "spawned":
                    with suppress(ProcessLookupError):
                        os.killpg(each["pid"], signal.SIGKILL)
