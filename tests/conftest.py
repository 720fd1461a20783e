"""Fixtures shared by all tests: an empty database on each engine, with a clock and ids that the test owns."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import storage
from tests.engines import ENGINES, USUAL, Engine, Postgres, make_engine
from tests.faults.figures import summary
from tests.world import ManualClock, World

pytest_plugins = ("tests.reported",)

# An engine gives each example a database of its own, and a server takes its time for that.
settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the command line name the engines."""
    parser.addoption("--engines", help=f"run only what touches a database, on these of {', '.join(ENGINES)}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that touches a database once for each engine."""
    if "engine" in metafunc.fixturenames:
        usual = (*USUAL, "memory") if "notes" in metafunc.fixturenames else USUAL
        named = metafunc.config.getoption("--engines")
        metafunc.parametrize("engine", named.split(",") if named else usual, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an engine cannot do, and what touches no database where engines are named."""
    named = config.getoption("--engines")
    items[:] = [item for item in items if _is_possible(item) and (not named or "engine" in _fixtures(item))]


def _fixtures(item: pytest.Item) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


def _is_possible(item: pytest.Item) -> bool:
    only, callspec = item.get_closest_marker("engines"), getattr(item, "callspec", None)
    return only is None or callspec is None or callspec.params.get("engine") in only.args


def pytest_sessionfinish() -> None:
    """Leave nothing on the server."""
    Postgres.finish()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what came of the faults that were injected."""
    # The report on what was cleaned up after a test has its properties too.
    reports = [
        each for group in terminalreporter.stats.values() for each in group if getattr(each, "when", "") == "call"
    ]
    if line := summary(pair for each in reports for pair in each.user_properties):
        terminalreporter.section("faults on a real server")
        terminalreporter.write_line(line)


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """One of the engines, for this test alone."""
    with make_engine(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when the test says so."""
    return ManualClock()


@pytest.fixture
def new_id() -> Callable[[], str]:
    """Identifiers in their order."""
    numbers = itertools.count(1)
    return lambda: f"id-{next(numbers)}"


@pytest.fixture
def db(engine: Engine, clock: ManualClock, new_id: Callable[[], str]) -> storage.Database:
    """A database at a location."""
    return engine.open(engine.empty(), clock=clock, new_id=new_id)


@pytest.fixture
def world(db: storage.Database, clock: ManualClock) -> World:
    """A live room with a held lease, and short ways to bring a task into any state."""
    return World(db, clock)
