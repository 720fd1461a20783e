"""SIGKILL at any moment: what was acknowledged is stored, nothing is half done, and the next process goes on."""

import random
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from attrs import define, field

import storage
from fsm import driver
from fsm.driver import DriverLease, TaskIdentity, TaskView
from fsm.driver.machines import LEASE_MACHINE, TASK_MACHINE
from fsm.lifecycle import NEW
from fsm.lifecycle.terms import predicate
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK
from storage import Database, Row
from tests.faults.processes import Child
from tests.world import START, ManualClock, World, dump

KILLS: Final = 40
SHIFT: Final = 100.0
"""Seconds from one process to the next: longer than a lease lasts, so that each must reclaim it and recover."""


@define
class Ledger:
    """What the processes have acknowledged, and the one call that the last of them may have left open."""

    tasks: dict[str, dict[str, Any]] = field(factory=dict)
    lease_generation: int = 0
    trying: str | None = None
    task: str | None = None
    cut: int = 0

    def note(self, line: Mapping[str, Any]) -> None:
        """Take down one line of a process."""
        self.trying, self.task = line.get("trying"), line.get("task") if "trying" in line else None
        match line.get("done"):
            case None:
                return
            case "acquire":
                assert line["lease_generation"] > self.lease_generation
                self.lease_generation = line["lease_generation"]
            case "lose":
                assert line["indeterminate"] == [name for name in line["indeterminate"] if self._may_be_lost(name)]
                for name in line["indeterminate"]:
                    self.tasks[name] |= {"status": "indeterminate"}
                assert "running" not in {facts["status"] for facts in self.tasks.values()}
            case _:
                self.tasks[line["task"]] = line["facts"]

    def _may_be_lost(self, name: str) -> bool:
        return self.tasks[name]["status"] in {"running", "indeterminate"}

    def compare(self, rows: dict[str, Row], lease: Row | None) -> None:
        """Hold the database against what was acknowledged; an open call has happened in full or not at all."""
        found = 0 if lease is None else int(lease["lease_generation"] or 0)
        assert found - self.lease_generation in ({0, 1} if self.trying == "acquire" else {0})
        self.lease_generation = found
        open_ones = self._open_ones()
        assert self.tasks.keys() <= rows.keys(), "an acknowledged task is gone"
        moved = {name for name, row in rows.items() if self._moved(name, row)}
        assert moved in (set(), open_ones), f"{self.trying} is half done or something else was written: {moved}"
        for name in moved:
            self._follow(name, str(rows[name]["status"]))
        self.cut += self.trying is not None
        self.trying = self.task = None

    def _open_ones(self) -> set[str]:
        if self.trying == "lose":
            return {name for name, facts in self.tasks.items() if facts["status"] == "running"}
        return set() if self.task is None else {self.task}

    def _moved(self, name: str, row: Row) -> bool:
        facts = self.tasks.get(name)
        return facts is None or facts != {column: row[column] for column in facts}

    def _follow(self, name: str, status: str) -> None:
        """Accept where an open call has led, if its trigger leads there."""
        source = self.tasks.get(name, {"status": NEW.name})["status"]
        trigger = DRIVER_TASK.trigger(self.trying or "")
        assert trigger is not None
        assert (source, status) in {(edge.source.name, edge.dest.name) for edge in trigger.edges}
        self.tasks[name] = {"status": status}


def check_database(path: Path) -> tuple[dict[str, Row], Row | None]:
    """Open the file as it was left; it is sound, and each row is wholly in the state that it says. Return the rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with closing(opened(path, START)) as db:
        tables = dump(db)
        assert not [view for view in driver.list_tasks(db, room_id="room") if "corrupt" in view]
    for lifecycle, machine in ((DRIVER_TASK, TASK_MACHINE), (DRIVER_LEASE, LEASE_MACHINE)):
        states = {state.name: state for state in lifecycle.states}
        for row in tables[lifecycle.table.name]:
            state = states[machine.state_of(row, now=START)]
            assert predicate(state.requires)(row, {"now": START}), f"half a {state.name}: {row.get('task_id')}"
    rows = {str(row["task_id"]): row for row in tables[DRIVER_TASK.table.name]}
    return rows, next(iter(tables[DRIVER_LEASE.table.name]), None)


def opened(path: Path, now: float) -> Database:
    """Open the database at an instant; without fsync, for a killed process loses nothing that it gave the system."""
    return storage.open_database(path, clock=lambda: now, synchronous="normal")


def work_and_be_killed(child: Child, ledger: Ledger, dice: random.Random, **order: object) -> None:
    """Let a process work, kill it some lines and some instants later, and take down what it had said by then."""
    try:
        child.tell(**order)
        for _ in range(dice.randint(1, 60)):
            line = child.hear()
            assert line is not None, "the process ended by itself"
            ledger.note(line)
        time.sleep(dice.uniform(0, 0.003))
        assert child.process.poll() is None, "the process ended by itself"
        child.kill()
        for line in child.rest():
            ledger.note(line)
    finally:
        child.close()


def finish_everything(db: Database, lease: DriverLease) -> list[TaskView]:
    """Recover the room and bring every task to an end, as an operator would after the last crash."""
    driver.recover_room(db, lease)
    for view in driver.list_tasks(db, room_id="room", status="indeterminate"):
        fence: dict[str, Any] = {
            "expected_execution_generation": view["execution_generation"],
            "expected_cancel_generation": view["cancel_generation"],
        }
        driver.requeue_indeterminate_task(db, view["identity"], lease, **fence)
    for view in driver.list_tasks(db, room_id="room", status="stopping"):
        generation = view["cancel_generation"]
        driver.complete_task_cancel(
            db, view["identity"], cancel_id=view["cancel_id"], expected_cancel_generation=generation
        )
    for view in driver.list_tasks(db, room_id="room", status="queued"):
        run(db, view["identity"], lease, view["cancel_generation"])
    return driver.list_tasks(db, room_id="room")


def run(db: Database, task: TaskIdentity, lease: DriverLease, generation: int) -> None:
    """Start and settle a task."""
    attempt = driver.start_task(db, task, lease, expected_cancel_generation=generation)
    driver.settle_task(db, attempt, settlement_id="last", status="settled", result=None)


def test_a_killed_process_loses_nothing_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    """Whatever moment a process is killed at, all that it acknowledged is stored, the call that it was in has happened
    in full or not at all, the lease generation only grows, and the next process recovers the room and goes on
    """
    path, dice, ledger = tmp_path / "state.db", random.Random(7), Ledger()  # noqa: S311 # the same moments every time
    with closing(storage.open_database(path, clock=ManualClock(), synchronous="normal")) as db:
        ledger.lease_generation = World(db, ManualClock()).lease.lease_generation
    following = Child("tests.faults.toiler")
    try:
        for number in range(1, KILLS + 1):
            # The next process starts while this one works: most of its time goes into imports.
            child, following = following, Child("tests.faults.toiler")
            order = {"path": str(path), "process": f"p{number}", "now": START + number * SHIFT, "seed": number}
            work_and_be_killed(child, ledger, dice, **order)
            ledger.compare(*check_database(path))
    finally:
        following.close()
    assert ledger.cut >= 1, "no process was killed within a call"
    assert ledger.lease_generation >= KILLS / 2
    with closing(opened(path, START + (KILLS + 1) * SHIFT)) as db:
        lease = driver.acquire_lease(
            db, room_id="room", gateway_id="gw", authority_epoch=1, process_generation="last", ttl_seconds=60.0
        )
        assert lease.lease_generation == ledger.lease_generation + 1
        ended = {view["status"] for view in finish_everything(db, lease)}
        assert ended <= {"settled", "failed", "cancelled", "deferred"}
    check_database(path)
