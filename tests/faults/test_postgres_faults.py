"""Connections and server processes lost at every request of a call: nothing is half stored, lost or doubled."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from attrs import define, field

import storage
from fsm.schema import GATEWAY_SCHEMA
from storage.statements import quoted
from tests.engines import Engine, on_server
from tests.faults.calls import CALLS, Call, Scene, told
from tests.faults.figures import Figures
from tests.faults.proxy import Fault, Proxy, proxy
from tests.world import ManualClock, dump

pytestmark = [pytest.mark.engines("postgres", "serializable"), pytest.mark.timeout(600)]

MINIMUM: Final = 200
"""How many faults the calls together must have been hit by."""


@define
class Stage:
    """A database that is set back before each fault, a handle on it through the proxy, and one past that."""

    call: Call
    scene: Scene
    through: storage.Database
    schema: str
    proxy: Proxy
    before: dict[str, Any] = field(init=False)
    after: dict[str, Any] = field(init=False)
    answer: Any = field(init=False)
    requests: list[str] = field(init=False)
    """The first words of what the call asks of the server, from BEGIN to COMMIT."""

    def __attrs_post_init__(self) -> None:
        self.call.prepare(self.scene)
        self.before = dump(self.scene.db)
        self._each_table("CREATE TABLE {copy} AS TABLE {table}")
        self.proxy.arm()
        self.answer, again = told(self.make())
        self.requests = self.proxy.seen
        self.after = dump(self.scene.db)
        assert self.after != self.before
        assert not again

    def make(self) -> Any:
        """Make the call through the proxy."""
        return self.call.make(self.scene, self.through)

    def set_back(self) -> None:
        """Let the rows be those from before the call."""
        self._each_table("DELETE FROM {table}", reverse=True)
        self._each_table("INSERT INTO {table} TABLE {copy}")

    def versions(self) -> list[tuple[Any, ...]]:
        """Return what changes with every write of a row, though it write what was there."""
        names = [table.name for table in GATEWAY_SCHEMA.tables]
        return [
            row
            for name in names
            for row in on_server(f"SELECT xmin::text, ctid::text FROM {quoted(self.schema)}.{quoted(name)}")
        ]

    def _each_table(self, statement: str, *, reverse: bool = False) -> None:
        names = [table.name for table in GATEWAY_SCHEMA.tables]
        schema = quoted(self.schema)
        on_server(
            "; ".join(
                statement.format(table=f"{schema}.{quoted(name)}", copy=f"{schema}.{quoted('copy_of_' + name)}")
                for name in (reversed(names) if reverse else names)
            )
        )


@pytest.fixture
def stage(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The stage of one call."""
    clock = ManualClock()
    location = engine.location()
    with proxy() as between:
        direct = engine.open(location, clock=clock)
        through = engine.open(location + between.parameters, clock=clock)
        for handle in (direct, through):
            handle.require(GATEWAY_SCHEMA)
        schema = location.partition("search_path=")[2].partition("&")[0]
        yield Stage(request.param, Scene(direct, clock), through, schema, between)
        through.close()


def expected(requests: list[str], at: int, fault: Fault) -> set[type[Exception] | None]:
    """Return how a call may end that is hit at this request; None is an answer."""
    # Until BEGIN is answered nothing has been done, so that another connection serves the call.
    ends: list[type[Exception] | None] = [storage.DatabaseUnavailableError for _ in requests]
    ends[0], ends[-1] = None, storage.OutcomeUnknownError
    if fault not in (Fault.RACED, Fault.TERMINATED_AFTER):
        return {ends[at]}
    # The process may have answered before it ended, and be missed by the next request only.
    return {ends[at], *ends[at + 1 : at + 2]} if at + 1 < len(requests) else {ends[at], None}


def inject(stage: Stage, fault: Fault, at: int) -> Figures:
    """Let one fault hit the call; say what came of it, after its caller has learnt that and carried it through."""
    stage.set_back()
    stage.proxy.arm(fault, at)
    answer, error = None, None
    try:
        answer = stage.make()
    except storage.StorageError as exc:
        error = type(exc)
    assert stage.proxy.struck
    assert error in expected(stage.requests, at, fault), (stage.requests[at], fault)
    found = dump(stage.scene.db)
    assert found in (stage.before, stage.after), "half of a call is stored"
    stored = found == stage.after
    if error is None:
        assert told(answer) == (stage.answer, False)
        lost, doubled = int(not stored), 0
    else:
        assert not (stored and error is storage.DatabaseUnavailableError), "stored, though it says that it is not"
        lost, doubled = 0, int(not carried_through(stage, stored=stored))
    doubled = doubled or int(dump(stage.scene.db) != stage.after)
    unknown = error is storage.OutcomeUnknownError
    return Figures(1, int(unknown and stored), int(unknown and not stored), lost, doubled)


def carried_through(stage: Stage, *, stored: bool) -> bool:
    """Learn what became of the call as its docstring says, and make it again where that is due; say if it did so once.

    An exact retry writes nothing where the call is stored, not even what is there already.
    """
    versions = stage.versions()
    if stage.call.look is not None:
        seen = stage.call.look(stage.scene, stage.through)
        assert seen == (stage.answer if stored else None)
        return seen is not None or told(stage.make()) == (stage.answer, False)
    answer, again = told(stage.make())
    assert answer == stage.answer
    if not stage.call.replays:
        return True
    assert again == stored
    return not stored or stage.versions() == versions


@pytest.mark.parametrize("stage", CALLS, indirect=True, ids=lambda call: call.name)
def test_a_call_that_loses_its_connection_is_done_wholly_or_not_at_all(
    stage: Stage, report_faults: Callable[[Figures], None]
) -> None:
    """Whichever request of a call a connection or its server process is lost at, the rows are those from before or from
    after the whole call, its error says whether it may be stored, its caller can learn whether it is, and making it
    again where it is not leaves its effect there once; what was acknowledged is there
    """
    total = Figures()
    for at in range(len(stage.requests)):
        for fault in Fault:
            total += inject(stage, fault, at)
    report_faults(total)
    assert (stage.requests[0], stage.requests[-1]) == ("BEGIN", "COMMIT")
    assert total.injected == len(stage.requests) * len(Fault)
    assert total.injected * len(CALLS) >= MINIMUM
    assert (total.lost, total.doubled) == (0, 0)
    assert total.unknown_stored
    assert total.unknown_not_stored
