"""Two sessions on one server, moved statement by statement in an order that the test chooses.

Each session runs in a thread and stops ahead of every statement until it is let go on. Whether it then waits for the
other's lock is asked of the server, through a third connection, and never guessed from the time it takes.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, Final, Self

import psycopg
from psycopg import Cursor
from psycopg.rows import DictRow

from storage import Database
from storage.postgres.database import PostgresDatabase
from tests.engines import on_server

__all__ = ["STEPS", "Played", "Session", "play", "stop_at_statements"]

STEPS: Final = 5
PATIENCE: Final = 30.0
_local = threading.local()


class _Stopping(Cursor[DictRow]):
    """A cursor whose statements wait for the turn of the session that runs them; outside of one nothing waits."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Self:
        session: Session | None = getattr(_local, "session", None)
        if session is not None:
            session.await_turn(self.connection)
        answered = super().execute(query, *arguments, **options)
        if session is not None and self.statusmessage == "COMMIT":
            session.committed()
        return answered


def stop_at_statements(db: Database) -> None:
    """Let the statements of a fresh handle wait for the turns of the session in whose thread they are run."""
    assert isinstance(db, PostgresDatabase)
    assert isinstance(db._pool.kwargs, dict)
    db._pool.kwargs["cursor_factory"] = _Stopping


class Played:
    """What one order came to."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        """The names of the sessions in the order in which their COMMIT was answered."""
        self.blocked: list[str] = []
        """The names of those that had to wait for a lock."""
        self.refused: dict[str, Exception] = {}


class Session:
    """One transition in a thread of its own, cut into five steps; `groups` says how many statements each of them has.

    A transition that is refused sends fewer: what is left of its turns passes.
    """

    def __init__(self, name: str, act: Callable[[], object], groups: Sequence[int], played: Played) -> None:
        assert len(groups) == STEPS
        self.name = name
        self._act = act
        self._begins = {0, *accumulate(groups)}
        self._sent = 0
        self._played = played
        self._pid: int | None = None
        self._turn = threading.Semaphore(0)
        self._stopped = threading.Event()
        self.over = False

    def run(self) -> None:
        """Act, in the thread of this session."""
        _local.session = self
        try:
            self._act()
        except Exception as refused:  # noqa: BLE001 # which error it is, is what the test asks
            self._played.refused[self.name] = refused
        finally:
            _local.session = None
            self.over = True
            self._stopped.set()

    def await_turn(self, connection: "psycopg.Connection[Any]") -> None:
        """Stop ahead of a statement that begins a step, or that the plan does not know."""
        self._pid = connection.info.backend_pid
        if self._sent in self._begins or self._sent > max(self._begins):
            self._stopped.set()
            assert self._turn.acquire(timeout=PATIENCE), "the session was forgotten"
        self._sent += 1

    def committed(self) -> None:
        """Note that the server has answered COMMIT."""
        self._played.commits.append(self.name)

    def go_on(self) -> None:
        """Let it take one step."""
        self._stopped.clear()
        self._turn.release()

    def stands(self) -> bool:
        """Wait until it has come to a stop or its end, or waits for a lock: then False."""
        deadline = time.monotonic() + PATIENCE
        while not self._stopped.wait(0.0005):
            if self._waits_for_lock() and not self._stopped.is_set():
                return False
            assert time.monotonic() < deadline, f"{self.name} neither goes on nor waits for a lock"
        return True

    def _waits_for_lock(self) -> bool:
        return bool(on_server("SELECT 1 WHERE pg_blocking_pids(%s) <> '{}'", self._pid))


def play(order: Sequence[int], acts: Sequence[tuple[str, Callable[[], object], Sequence[int]]]) -> Played:
    """Play one order of the sessions' steps; one that waits for a lock catches up as soon as it has it."""
    played = Played()
    sessions = [Session(name, act, groups, played) for name, act, groups in acts]
    with ThreadPoolExecutor(len(sessions)) as threads:
        running = [threads.submit(session.run) for session in sessions]
        for session in sessions:
            assert session.stands()
        _take_turns([sessions[number] for number in order], played)
        for each in running:
            each.result(PATIENCE)
    return played


def _take_turns(turns: Sequence[Session], played: Played) -> None:
    owed: list[Session] = []
    for session in turns:
        if session in owed:
            owed.append(session)
            continue
        _step(session, owed, played)
        while owed and owed[0].stands():
            # It has its lock and has done what it waited to do; now for the turns that it has missed.
            late, missed = owed[0], len(owed) - 1
            owed.clear()
            for _ in range(missed):
                _step(late, owed, played)
    assert not owed, "a session still waits at the end"
    for session in dict.fromkeys(turns):
        while not session.over:
            _step(session, owed, played)


def _step(session: Session, owed: list[Session], played: Played) -> None:
    if session.over:
        return
    session.go_on()
    if not session.stands():
        played.blocked.append(session.name)
        owed.append(session)
