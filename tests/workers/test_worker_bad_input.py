"""What no worker call takes: refused by its reason, before anything is written; every parameter, every kind."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import sessions, workers
from fsm.errors import RuntimeStoreError
from tests import bad_input as bad
from tests.engines import Engine
from tests.workers.support import SECRET, Works

# What is refused before the database is asked is refused alike on each; what must not escape any is the property below.
pytestmark = pytest.mark.engines("sqlite")

TEXTS: list[Any] = [*(None, 1, 1.5, True, b"x", [], {}, object()), "", "  ", "\n", "a\0b", "\ud800", "x" * 1025]
COUNTERS: list[Any] = [None, "1", 1.0, bad.NAN, True, [], {}, object(), bad.BEYOND_64_BITS, -(2**63) - 1, 10**5000]
OBJECTS: list[Any] = [
    *(None, 1, 1.5, True, "x", [], (), b"x", object()),
    *(value for value in bad.JSON if isinstance(value, dict)),
    {"k": bad.nested(3000)},
    {"k": bad.circular()},
    {"k": "x" * (4 * 1024 * 1024)},
]
HANDLERS: list[Any] = [
    *(1, "x", [], (), object(), len),
    {"own": 1},
    {"own": None},
    {1: len},
    {"": len},
    {"a\0b": len},
    {None: len},
    {("a",): len},
]

BAD: dict[str, tuple[str, list[Any]]] = {
    "db": ("invalid_params", bad.DATABASES),
    "epoch": ("stale_epoch", COUNTERS),
    "generation": ("stale_generation", COUNTERS),
    "sequence": ("invalid_params", [*COUNTERS, 0, -1]),
    "kind": ("invalid_params", [None, 1, True, "", "Cron", "worker", " cron", [], {}]),
    "require_idle": ("invalid_params", bad.FLAGS),
    "payload": ("invalid_params", OBJECTS),
    "operation": ("invalid_params", [*TEXTS, "execution", "session.prompt", "Execution.finish"]),
    "handlers": ("invalid_params", HANDLERS),
    "messages": ("invalid_params", [None, 1, "x", {}, (), [1], [None]]),
    **dict.fromkeys(("execution_id", "session_id", "adoption_secret"), ("invalid_params", TEXTS)),
}
OF_ONE_FUNCTION: dict[tuple[str, str], tuple[str, list[Any]]] = {
    ("apply_worker_receipt", "handlers"): ("invalid_params", [None, {}, *HANDLERS]),
}
GOOD: dict[str, Any] = {
    "epoch": 1,
    "execution_id": "w",
    "session_id": "s",
    "generation": 0,
    "kind": "cron",
    "adoption_secret": SECRET,
    "sequence": 1,
    "operation": "execution.finish",
    "payload": {},
    "handlers": {"execution.finish": lambda _db, _tx, _session, _payload: {}},
    "messages": [],
}


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in workers.__all__:
        function = getattr(workers, name)
        if inspect.isfunction(function):
            yield name, function


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _takes_database(function: Callable[..., Any]) -> bool:
    return _parameters(function)[0].name == "db"


def _cases() -> Iterator[Any]:
    for name, function in _functions():
        for parameter in _parameters(function):
            yield pytest.param(name, parameter.name, id=f"{name}-{parameter.name}")


def _arguments(function: Callable[..., Any]) -> dict[str, Any]:
    required = (each.name for each in _parameters(function) if each.default is each.empty and each.name != "db")
    return {name: GOOD[name] for name in required}


def _call(works: Works, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    if not _takes_database(function):
        return function(**arguments)
    return function(arguments.pop("db", works.db), **arguments)


def _bad(name: str, parameter: str) -> tuple[str, list[Any]]:
    return OF_ONE_FUNCTION.get((name, parameter), BAD[parameter])


@pytest.mark.parametrize(("name", "parameter"), list(_cases()))
def test_bad_input_is_refused(works: Works, name: str, parameter: str) -> None:
    """Each kind of bad value for a parameter is refused for its own reason and leaves every row as it was."""
    works.register()
    function = getattr(workers, name)
    reason, values = _bad(name, parameter)
    for value in values:
        with works.refuses(reason):
            _call(works, function, {**_arguments(function), parameter: value})


@pytest.mark.parametrize("name", [name for name, _ in _functions()])
def test_wrong_arguments_are_refused(works: Works, name: str) -> None:
    """A missing argument, an unknown one and one by position are bad input too, never a bare TypeError."""
    works.register()
    function = getattr(workers, name)
    arguments = _arguments(function)
    for missing in arguments:
        with works.refuses("invalid_params"):
            _call(works, function, {key: value for key, value in arguments.items() if key != missing})
    with works.refuses("invalid_params"):
        _call(works, function, {**arguments, "colour": "red"})
    with works.refuses("invalid_params"):
        function()
    with works.refuses("invalid_params"):
        function(works.db, *arguments.values())


@pytest.mark.parametrize("name", [name for name, function in _functions() if _takes_database(function)])
def test_a_refused_call_opens_no_database(works: Works, tmp_path: Path, name: str) -> None:
    """A call that is refused for its arguments has not even made the file of a database that was not there."""
    function = getattr(workers, name)
    place = tmp_path / "elsewhere" / "state.db"
    for parameter in _parameters(function)[1:]:
        value = _bad(name, parameter.name)[1][0]
        with pytest.raises(RuntimeStoreError):
            _call(works, function, {**_arguments(function), parameter.name: value, "db": place})
        assert not place.parent.exists(), parameter.name


def test_every_public_function_is_covered() -> None:
    """The module has the functions that the gateway imports, and each of them is among the cases."""
    assert {name for name, _ in _functions()} == {
        "adopt_worker_execution",
        "apply_worker_receipt",
        "mutate_worker_execution",
        "register_worker_execution",
        "row_annotations",
    }


def test_a_payload_is_judged_before_the_epoch(works: Works) -> None:
    """Bad parameters, an operation's payload among them, come before a stale epoch and that before a generation."""
    works.register()
    with works.refuses("invalid_params"):
        works.do("turn.acquire", {}, epoch="x", generation="x")
    with works.refuses("stale_epoch"):
        works.do("turn.acquire", {"holder": "h"}, epoch="x", generation="x")
    with works.refuses("stale_epoch"):
        works.do("turn.acquire", {"holder": "h"}, epoch=9)
    with works.refuses("stale_generation"):
        works.do("turn.acquire", {"holder": "h"}, generation=0.0)


def test_messages_hold_no_text_of_the_user(works: Works) -> None:
    """A refusal names the field and the rule, never the value that was refused."""
    secret = "s3cret words"
    works.register()
    works.append(secret)
    calls: list[Callable[[], object]] = [
        lambda: works.register(secret, kind=secret),
        lambda: works.register(adoption_secret=secret),
        lambda: works.adopt(adoption_secret=secret),
        lambda: works.do(secret),
        lambda: works.do("transcript.append", {secret: 1}),
        lambda: works.do("transcript.append", {"messages": [{"role": secret}]}),
        lambda: works.do("transcript.append", {"messages": [{"role": "user", secret: 1}]}),
        lambda: works.append(f"{secret} again", sequence=1),
        lambda: works.do("turn.acquire", {"holder": "h", "ttl_seconds": secret}),
        lambda: works.do("usage.main", {"model": secret, "input_tokens": secret}),
        lambda: works.apply(lambda *_: {"x": f"{secret}\0"}),
        lambda: works.apply(lambda *_: secret),
        lambda: works.do("own", handlers={"execution.finish": len, secret: len}),
    ]
    for call in calls:
        with pytest.raises(RuntimeStoreError) as refusal:
            call()
        assert secret not in f"{refusal.value}{refusal.value.detail}{refusal.value.field}"


@pytest.mark.parametrize("reading", [bad.NAN, bad.INFINITY, "12", None, True])
def test_a_clock_that_is_none_is_refused(works: Works, monkeypatch: pytest.MonkeyPatch, reading: object) -> None:
    """A handle's clock that answers anything but a finite number is bad input."""
    works.register()
    monkeypatch.setattr(works.db, "clock", lambda: reading)
    for call in (works.adopt, lambda: works.do("turn.acquire", {"holder": "h"}), lambda: works.register("w2")):
        with works.refuses("invalid_params"):
            call()


def test_no_call_reads_the_clock_twice(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    """One instant counts for all that a call does."""
    readings: list[float] = []

    def clock() -> float:
        readings.append(1.0)
        return float(len(readings))

    works.register()
    monkeypatch.setattr(works.db, "clock", clock)
    for call in (works.adopt, lambda: works.append("x", "y"), lambda: works.do("turn.acquire", {"holder": "h"})):
        before = len(readings)
        call()
        assert len(readings) == before + 1


@pytest.mark.engines("sqlite", "postgres", "serializable")
@settings(max_examples=60)
@given(data=st.data())
def test_nothing_but_the_modules_own_errors(engine: Engine, data: st.DataObject) -> None:
    """Whatever values a call is handed, it answers or raises RuntimeStoreError, and no raw error escapes."""
    db = engine.fresh(clock=lambda: 1.0)
    sessions.create_session(db, "s", source="cli")
    sessions.begin_runtime_epoch(db, instance_id="i")
    workers.register_worker_execution(db, **{name: GOOD[name] for name in list(GOOD)[:6]})
    for _, function in _functions():
        if not _takes_database(function):
            continue
        names = [each.name for each in _parameters(function)][1:]
        chosen = {name: data.draw(st.just(GOOD.get(name, False)) | bad.anything, label=name) for name in names}
        with contextlib.suppress(RuntimeStoreError):
            function(db, **chosen)


OPERATIONS = (
    *("transcript.append", "turn.acquire", "turn.renew", "turn.release", "usage.main", "usage.auxiliary"),
    *("session.context", "session.tail_role", "session.row_role", "execution.finish"),
)
FIELDS = (
    *("messages", "turn_lease_holder", "holder", "ttl_seconds", "task", "model", "source", "absolute", "row_id"),
    *("input_tokens", "estimated_cost_usd", "role", "content", "_row_id", "timestamp"),
)
payloads = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["user", "h"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.engines("sqlite", "postgres", "serializable")
@settings(max_examples=150)
@given(operation=st.sampled_from(OPERATIONS), payload=st.dictionaries(st.sampled_from(FIELDS), payloads, max_size=4))
def test_no_payload_brings_a_raw_error(engine: Engine, operation: str, payload: dict[str, Any]) -> None:
    """Whatever an operation is handed, it answers or raises RuntimeStoreError, and stores all of it or nothing."""
    db = engine.fresh(clock=lambda: 1.0)
    sessions.create_session(db, "s", source="cli")
    sessions.begin_runtime_epoch(db, instance_id="i")
    named = {"epoch": 1, "execution_id": "w", "session_id": "s", "generation": 0}
    workers.register_worker_execution(db, **named, kind="cron", adoption_secret=SECRET)
    with contextlib.suppress(RuntimeStoreError):
        workers.mutate_worker_execution(db, **named, sequence=1, operation=operation, payload=payload)
