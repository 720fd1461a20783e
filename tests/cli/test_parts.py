"""The parts of the driver under conditions that no real process meets on demand: lost answers and stopped clocks."""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from fsm import driver
from fsm.cli import driving, running, terms
from fsm.cli.children import Child, Watchdog
from fsm.cli.driving import Driver
from fsm.cli.reporting import Reporter
from fsm.cli.results import READ_LIMIT, result_of
from fsm.cli.stopping import StopRequests
from fsm.cli.terms import LeaseLostError, Tempo, Term
from fsm.cli.world import Job, World
from fsm.errors import InvalidTaskTransitionError
from fsm.lifecycles.limits import MAX_RESULT_JSON_BYTES
from fsm.observers import observe
from storage import DatabaseUnavailableError, OutcomeUnknownError
from tests.cli.processes import ROOM, Room

REAL = Tempo(time.time, time.monotonic, time.sleep)
LOST = OutcomeUnknownError("the answer was lost")


@define
class Watch:
    """A monotonic clock that moves only while somebody sleeps on it."""

    now: float = field(default=1000.0)

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.now += seconds

    def tempo(self) -> Tempo:
        """Return it as what a driver is given."""
        return Tempo(time.time, self.monotonic, self.sleep)


@define
class Bench:
    """A draining driver in this very process, and what it told."""

    room: Room
    stop: StopRequests = field(factory=StopRequests)
    told: io.StringIO = field(factory=io.StringIO)

    def drive(self, *command: str) -> None:
        """Drive the room until it is drained."""
        report = Reporter(self.told, time.time, as_json=True)
        observe(self.room.db, report.transition)
        job = Job(ROOM, command, poll=0.02, drain=True)
        Driver(job, World(self.room.db, REAL, "this-process", {"PATH": "/usr/bin:/bin"}, report, self.stop)).run()

    def steps(self, lifecycle: str = "driver_task") -> list[str]:
        """Return the triggers of the transitions that were told."""
        told = map(json.loads, self.told.getvalue().splitlines())
        return [each["trigger"] for each in told if each.get("lifecycle") == lifecycle]


@pytest.fixture
def bench(room: Room) -> Bench:
    """A bench on the room."""
    return Bench(room)


def once(
    call: Callable[..., Any], *, before: Exception | None = None, after: Exception | None = None
) -> Callable[..., Any]:
    """Return the call, whose first use raises before it does anything, or after it has done everything."""
    uses = iter([True])

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        first = next(uses, False)
        if first and before is not None:
            raise before
        answer = call(*arguments, **keywords)
        if first and after is not None:
            raise after
        return answer

    return wrapped


def test_a_start_whose_answer_was_lost_is_found_under_the_lease_and_carried_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs under exactly this lease is ours: it is neither started again nor left behind."""
    bench.room.admit("work")
    monkeypatch.setattr(driving, "start_task", once(driver.start_task, after=LOST))
    bench.drive("true")
    assert bench.steps() == ["start", "settle"]
    assert bench.room.task()["execution_generation"] == 1


def test_a_start_that_never_happened_is_made_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error came first: the task is still queued, and starts once."""
    bench.room.admit("work")
    monkeypatch.setattr(driving, "start_task", once(driver.start_task, before=LOST))
    bench.drive("true")
    assert bench.steps() == ["start", "settle"]


def test_a_start_that_shows_up_too_late_is_put_back_because_its_command_never_began(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs under our lease, nothing of it was spawned: it goes back to the queue instead of blocking it."""
    bench.room.admit("work")
    late = InvalidTaskTransitionError("something is unresolved")
    monkeypatch.setattr(driving, "start_task", once(driver.start_task, after=late))
    bench.drive("true")
    assert bench.steps() == ["start", "requeue_not_admitted", "start", "settle"]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_settlement_whose_answer_was_lost_is_made_again_and_stored_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The same settlement id, so that the second call either stores it or finds it stored."""
    bench.room.admit("work")
    monkeypatch.setattr(running, "settle_task", once(driver.settle_task, **{where: LOST}))
    bench.drive("true")
    assert bench.steps() == ["start", "settle"]


def test_a_signal_between_start_and_command_puts_the_task_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was spawned, so nothing has to be recovered; the lease is released."""
    bench.room.admit("work")

    def started_and_told_to_stop(*arguments: Any, **keywords: Any) -> Any:
        attempt = driver.start_task(*arguments, **keywords)
        bench.stop.count()
        return attempt

    monkeypatch.setattr(driving, "start_task", started_and_told_to_stop)
    bench.drive("true")
    assert bench.steps() == ["start", "requeue_not_admitted"]
    assert bench.steps("driver_lease") == ["acquire", "release"]


def test_a_renewal_that_fails_is_tried_until_the_term_can_no_longer_be_trusted(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing storage is patience's matter before the deadline, and the end of the term after it."""
    watch = Watch()
    term = Term(room.db, room.lease(ttl=30), taken_at=watch.now, ttl=30, tempo=watch.tempo())
    tried: list[float] = []

    def unavailable(*_: Any, **__: Any) -> Any:
        tried.append(watch.now)
        raise DatabaseUnavailableError("down")

    monkeypatch.setattr(terms, "renew_lease", unavailable)
    with pytest.raises(LeaseLostError):  # noqa: PT012 # the loop is what a driver does
        while True:
            term.renew_when_due()
            watch.sleep(1)
    assert (tried[0], tried[-1]) == (1010, 1024)
    assert term.lost


def test_a_renewal_moves_the_deadline_from_the_moment_it_was_asked_for(room: Room) -> None:
    """However long the answer takes, the term is trusted no longer than the row says."""
    watch = Watch()
    term = Term(room.db, room.lease(ttl=30), taken_at=watch.now, ttl=30, tempo=watch.tempo())
    before = term.deadline
    watch.sleep(10)
    term.renew_when_due()
    assert term.deadline - before == pytest.approx(10)
    assert term.deadline < watch.now + 30


def test_a_call_that_the_storage_fails_is_repeated_until_the_deadline_only(room: Room) -> None:
    """The last error is told with the loss of the lease."""
    watch = Watch()
    term = Term(room.db, room.lease(ttl=30), taken_at=watch.now, ttl=30, tempo=watch.tempo())

    def unavailable() -> None:
        raise DatabaseUnavailableError("down")

    with pytest.raises(LeaseLostError, match="down"):
        term.insist(unavailable)
    assert watch.now == pytest.approx(1025, abs=0.2)


def test_the_watchdog_acts_at_the_deadline_and_follows_it_when_it_moves() -> None:
    """It acts in a thread of its own, so a main thread that hangs is no danger; what ends in time is left alone."""
    acts: list[float] = []
    deadlines = [time.monotonic() + 0.1, time.monotonic() + 0.3]
    with Watchdog(lambda: acts.append(time.monotonic()), lambda: deadlines[-1], time.monotonic) as watchdog:
        time.sleep(0.5)
    assert watchdog.fired
    assert acts[0] >= deadlines[-1]
    with Watchdog(lambda: acts.append(0.0), lambda: time.monotonic() + 60, time.monotonic) as quiet:
        pass
    assert (quiet.fired, len(acts)) == (False, 1)


def test_a_command_that_left_something_behind_takes_it_along() -> None:
    """The command ended, a process that it started did not: reaping ends the whole group."""
    with Child(("sh", "-c", "sleep 60 >&2 & echo $!"), "", {"PATH": "/usr/bin:/bin"}) as child:
        while not child.ended():
            time.sleep(0.01)
        assert child.reap() == 0
        left_behind = int(child.output(100)[0])
    state = _state_of(left_behind)
    assert state in {"", "Z"}


def _state_of(pid: int) -> str:
    with Child(("ps", "-o", "stat=", "-p", str(pid)), "", {"PATH": "/usr/bin:/bin"}) as child:
        while not child.ended():
            time.sleep(0.01)
        return child.output(100)[0].decode().strip()[:1]


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"plain",
        b"\xff\xfe",
        b"a\0b",
        b"x" * READ_LIMIT,
        b'"' * READ_LIMIT,
        "\N{PILE OF POO}".encode() * 60_000,
        b"\0" * READ_LIMIT,
    ],
)
def test_a_result_fits_the_limit_and_is_as_long_as_it_may_be(output: bytes) -> None:
    """Whatever the output needs in JSON; one character more would not fit, and `truncated` tells."""
    result = result_of(0, output)
    size = len(json.dumps(result, sort_keys=True, separators=(",", ":")))
    assert size <= MAX_RESULT_JSON_BYTES
    assert "\0" not in result["stdout"]
    assert result["truncated"] == (size > MAX_RESULT_JSON_BYTES - 20)
