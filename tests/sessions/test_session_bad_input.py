"""What no session call takes: refused by its reason, before anything is written; every parameter, every kind."""

import contextlib
import enum
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import storage
from fsm import sessions
from fsm.errors import RuntimeStoreError
from storage import Transaction
from tests import bad_input as bad
from tests.engines import Engine
from tests.sessions.support import Owner

# What is refused before the database is asked is refused alike on each; what must not escape any is the property below.
pytestmark = pytest.mark.engines("sqlite")

TEXTS: list[Any] = [*(None, 1, 1.5, True, b"x", [], {}, object()), "", "  ", "\n", "a\0b", "\ud800", "x" * 1025]
OPTIONAL_TEXTS = [value for value in TEXTS if value is not None]
COUNTERS: list[Any] = [None, "1", 1.0, bad.NAN, True, [], {}, object(), bad.BEYOND_64_BITS, -(2**63) - 1, 10**5000]
HOOKS: list[Any] = [1, "x", [], {}, object(), True]
OBJECTS: list[Any] = [
    *(1, 1.5, True, "x", [], (), b"x", object()),
    *(v for v in bad.JSON if isinstance(v, dict)),
    {"k": bad.nested(3000)},
]
TRANSFERS: list[Any] = [
    1,
    "x",
    [],
    ("a", True),
    {1: True},
    {"": True},
    {"a": 1},
    {"a": None},
    {"a\0": True},
    {None: True},
]
WRONG_OUTCOMES: list[Any] = [None, "rejected", "steered", "COMPLETED", 1, []]
WRONG_RESULTS: list[Any] = [None, 1, [], "x", {"n": bad.NAN}, {1: 2}]
CAPTURED: list[Any] = [
    *(1, "x", [], {}, (), ("completed",), ("completed", {}, 1), {"completed", 1}),
    *[(outcome, {}) for outcome in WRONG_OUTCOMES],
    *[("completed", result) for result in WRONG_RESULTS],
]
PREPARED: list[Any] = [
    *(1, "x", [], {}, True, object()),
    *({"target": "s", "generation": value, "revision": 0} for value in bad.NON_NEGATIVE_INTEGERS),
    *({"target": "s", "generation": 0, "revision": value} for value in bad.NON_NEGATIVE_INTEGERS),
    *({"target": value, "generation": 0, "revision": 0} for value in TEXTS),
    {"target": "s", "generation": 0},
    {"target": "s", "generation": 0, "revision": 0, "more": 1},
    {"snapshot": {"target": "s", "generation": 0, "revision": 0}},
]
TRANSACTIONS: list[Any] = [None, 1, "x", {}, object()]
ROWS: list[Any] = [
    {"status": "terminal", "outcome": None, name: value}
    for name in ("status", "outcome")
    for value in (1, True, b"x", [], {}, {1}, object())
]

BAD: dict[str, tuple[str, list[Any]]] = {
    "db": ("invalid_params", bad.DATABASES),
    "tx": ("invalid_params", TRANSACTIONS),
    "epoch": ("stale_epoch", COUNTERS),
    "generation": ("stale_generation", COUNTERS),
    "payload": ("invalid_params", [None, *OBJECTS]),
    "result": ("invalid_params", OBJECTS),
    "intent": ("invalid_params", [None, 1, True, "", "QUEUE", "interrupt", [], {}]),
    "outcome": ("invalid_params", [None, 1, True, "", "cancelled", "steered", "Completed", [], {}]),
    "operation": ("invalid_params", [None, 1, True, "", "Rename", "prune", [], {}]),
    "expected_revision": ("invalid_params", bad.NON_NEGATIVE_INTEGERS),
    "expected_generation": ("invalid_params", [value for value in bad.NON_NEGATIVE_INTEGERS if value is not None]),
    "prepare_only": ("invalid_params", bad.FLAGS),
    "prepared": ("invalid_params", PREPARED),
    "source_path": ("invalid_params", [value for value in bad.DATABASES if value != "state.db"]),
    "writers_drained": ("invalid_params", [*bad.FLAGS, False]),
    "transfers": ("invalid_params", TRANSFERS),
    "captured": ("invalid_params", CAPTURED),
    "pending_only": ("invalid_params", bad.FLAGS),
    "old_targets": ("invalid_params", [None, 1, "old", b"old", object(), [1], ["old", ""], [None], {"a\0": 1}]),
    "row": ("invalid_params", [None, 1, "x", [], (), object(), {}, {"status": "terminal"}, {"outcome": None}, *ROWS]),
    "role": ("invalid_params", [None, 1, "", "User", "system ", "developer", [], {}]),
    "content": (
        "invalid_params",
        ["a\0b", "\ud800", b"x", object(), bad.NAN, {1: 2}, bad.nested(3000), bad.circular()],
    ),
    "fields": (
        "invalid_params",
        [
            {"colour": 1},
            {"id": 1},
            {"extra_json": "{}"},
            {"timestamp": bad.NAN},
            {"timestamp": "1"},
            {"timestamp": True},
            {"tool_calls": bad.NAN},
            {"reasoning": "a\0b"},
            {"observed": object()},
        ],
    ),
    **dict.fromkeys(
        ("authorize_write", "replay_guard", "guard", "terminal_write", "live_guard"), ("invalid_params", HOOKS)
    ),
    **dict.fromkeys(("head", "parent_session_id", "title"), ("invalid_params", OPTIONAL_TEXTS)),
    **dict.fromkeys(
        (
            *("principal_id", "session_id", "request_id", "admission_id", "instance_id", "binding", "source", "reason"),
            *("old_session_id", "new_session_id", "principal_prefix", "new_target"),
            *("key", "digest"),
        ),
        ("invalid_params", TEXTS),
    ),
}
GOOD: dict[str, Any] = {
    **{name: name for name in ("principal_id", "request_id", "instance_id", "binding", "source", "reason")},
    **dict.fromkeys(("session_id", "old_session_id", "new_session_id", "new_target"), "s"),
    "principal_prefix": "p",
    "admission_id": "id-1",
    "epoch": 1,
    "generation": 1,
    "payload": {"title": "t"},
    "operation": "rename",
    "expected_revision": 0,
    "source_path": __file__,
    "writers_drained": True,
    "key": "key",
    "digest": "digest",
    "outcome": "completed",
    "transfers": {},
    "old_targets": [],
    "row": {"status": "terminal", "outcome": None},
    "role": "user",
    "content": "",
}


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sessions.__all__:
        function = getattr(sessions, name)
        if inspect.isfunction(function):
            yield name, function


def _place(function: Callable[..., Any]) -> str | None:
    """Return which of a handle and an open transaction a function takes first, if any."""
    first = next(iter(inspect.signature(function).parameters))
    return first if first in {"db", "tx"} else None


def _cases() -> Iterator[Any]:
    for name, function in _functions():
        for parameter in inspect.signature(function).parameters:
            yield pytest.param(name, parameter, id=f"{name}-{parameter}")


def _arguments(function: Callable[..., Any]) -> dict[str, Any]:
    return {
        name: GOOD[name]
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in {"db", "tx"}
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def _call(owner: Owner, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call with a handle, in a transaction of the handle, or with neither, as the function asks."""
    further = arguments.pop("fields", {})
    place = _place(function)
    if place is None:
        return function(**arguments)
    if place in arguments or place == "db":
        return function(arguments.pop(place, owner.db), **arguments, **further)

    def run(tx: Transaction) -> Any:
        return function(tx, **arguments)

    return owner.db.write(run)


@pytest.mark.parametrize(("name", "parameter"), list(_cases()))
def test_bad_input_is_refused(owner: Owner, name: str, parameter: str) -> None:
    """Each kind of bad value for a parameter is refused for its own reason and leaves every row as it was."""
    owner.admit()
    owner.claim()
    function = getattr(sessions, name)
    reason, values = BAD[parameter]
    for value in values:
        with owner.refuses(reason):
            _call(owner, function, {**_arguments(function), parameter: value})


@pytest.mark.parametrize("name", [name for name, _ in _functions()])
def test_wrong_arguments_are_refused(owner: Owner, name: str) -> None:
    """A missing argument, an unknown one and one by position are bad input too, never a bare TypeError."""
    function = getattr(sessions, name)
    arguments = _arguments(function)
    for missing in arguments:
        with owner.refuses("invalid_params"):
            _call(owner, function, {key: value for key, value in arguments.items() if key != missing})
    with owner.refuses("invalid_params"):
        _call(owner, function, {**arguments, "colour": "red"})
    with owner.refuses("invalid_params"):
        function()


@pytest.mark.parametrize("name", [name for name, function in _functions() if _place(function) == "db"])
def test_a_refused_call_opens_no_database(owner: Owner, tmp_path: Path, name: str) -> None:
    """A call that is refused for its arguments has not even made the file of a database that was not there."""
    function = getattr(sessions, name)
    place = tmp_path / "elsewhere" / "state.db"
    for parameter in inspect.signature(function).parameters:
        if parameter == "db":
            continue
        with pytest.raises(RuntimeStoreError):
            _call(owner, function, {**_arguments(function), parameter: BAD[parameter][1][-1], "db": place})
        assert not place.parent.exists(), parameter


def test_epochs_and_generations_are_compared_last(owner: Owner) -> None:
    """Bad parameters come before a stale epoch and that before a stale generation; of a wrong type both are stale."""
    with owner.refuses("invalid_params"):
        sessions.settle_session_input(owner.db, epoch="x", admission_id="", generation="x", outcome="completed")
    with owner.refuses("stale_epoch"):
        sessions.settle_session_input(owner.db, epoch=9, admission_id="a", generation=1, outcome="completed")
    with owner.refuses("stale_epoch"):
        sessions.settle_session_input(owner.db, epoch=True, admission_id="a", generation="x", outcome="completed")
    with owner.refuses("stale_generation"):
        sessions.settle_session_input(owner.db, epoch=1, admission_id="a", generation=1.0, outcome="completed")


def test_without_an_epoch_every_call_is_stale(db: storage.Database) -> None:
    """Where no epoch has begun, none can be the current one."""
    sessions.create_session(db, "s", source="cli")
    with pytest.raises(RuntimeStoreError) as refusal:
        sessions.claim_session_input(db, epoch=1, session_id="s")
    assert refusal.value.reason == "stale_epoch"


def test_messages_hold_no_text_of_the_user(owner: Owner) -> None:
    """A refusal names the field and the rule, never the value that was refused."""
    secret = "s3cret words"
    owner.admit()
    calls: list[Callable[[], object]] = [
        lambda: owner.admit("r2", payload={"text": f"{secret}\0"}),
        lambda: owner.admit("r2", intent=secret),
        lambda: owner.admit(payload={"text": secret}),
        lambda: owner.claim("s", head=f"{secret}\0"),
        lambda: sessions.append_message(owner.db, "s", role=secret, content=""),
        lambda: sessions.append_message(owner.db, "s", role="user", content="", **{secret: 1}),
        lambda: owner.open("s", title=secret),
        lambda: owner.settle({"admission_id": "id-1", "generation": 1}, result={"x": f"{secret}\0"}),
    ]
    for call in calls:
        with pytest.raises(RuntimeStoreError) as refusal:
            call()
        assert secret not in f"{refusal.value}{refusal.value.detail}{refusal.value.field}"


@pytest.mark.parametrize("reading", [bad.NAN, bad.INFINITY, "12", None, True])
def test_a_clock_that_is_none_is_refused(owner: Owner, monkeypatch: pytest.MonkeyPatch, reading: object) -> None:
    """A handle's clock that answers anything but a finite number is bad input, also in a caller's own transaction."""
    owner.admit()
    monkeypatch.setattr(owner.db, "clock", lambda: reading)
    with owner.refuses("invalid_params"):
        owner.claim()
    with owner.refuses("invalid_params"), owner.db.transaction() as tx:
        sessions.retire_replaced_input(tx, "id-1", "b")


@pytest.mark.parametrize("made", [None, 1, "", "x" * 1025, "\0"])
def test_an_id_that_is_none_is_refused(owner: Owner, monkeypatch: pytest.MonkeyPatch, made: object) -> None:
    """What a handle makes for an id must be a text that can be stored."""
    monkeypatch.setattr(owner.db, "new_id", lambda: made)
    with owner.refuses("invalid_params"):
        owner.admit()


@pytest.mark.parametrize(
    "changes",
    [
        {"principal_id": "x" * 1024},
        {"request_id": "\N{SNOWMAN}" * 1024},
        {"payload": {"n": 2**63 - 1, "m": -(2**63), "f": 1e308, "deep": bad.nested(200)}},
        {"payload": {}},
        {"principal_id": " any text/with: spaces "},
    ],
)
def test_what_is_just_within_the_limits(owner: Owner, changes: dict[str, Any]) -> None:
    """Every limit is the last value that is taken, and texts are kept as they are."""
    admission = owner.admit(changes.get("request_id", "r1"), **{k: v for k, v in changes.items() if k != "request_id"})
    for key, value in changes.items():
        assert admission[key] == value  # type: ignore[literal-required] # the keys of the view


class Named(str, enum.Enum):  # noqa: UP042 # a StrEnum is its text within an f-string
    """Ids that would be others within an f-string."""

    SESSION = "s"
    REQUEST = "r1"
    ADMISSION = "id-1"


def test_a_member_of_an_enumeration_is_its_text(owner: Owner) -> None:
    """A turn whose ids are members of enumerations is that of the plain ids, to its deletion and its retry."""
    owner.admit(Named.REQUEST, Named.SESSION, payload={"text": "words"})
    claimed = owner.claim(Named.SESSION)
    settled = owner.settle({**claimed, "admission_id": Named.ADMISSION}, result={"reply": "words"})
    assert owner.settle(claimed, result={"reply": "words"}) == settled
    request: dict[str, Any] = {
        "principal_id": "p",
        "session_id": Named.SESSION,
        "request_id": Named.REQUEST,
        "expected_revision": 1,
    }
    asked: dict[str, Any] = {"operation": "delete", "payload": {}, "expected_generation": 1}
    sessions.mutate_runtime_session(owner.db, epoch=owner.epoch, **request, **asked)
    assert "words" not in str(owner.everything())
    assert owner.settle(claimed, result={"reply": "words"}) == {**settled, "payload": {}}
    with owner.refuses("admission_conflict"):
        owner.open(Named.SESSION)


@pytest.mark.engines("sqlite", "postgres", "serializable")
@settings(max_examples=60)
@given(data=st.data())
def test_nothing_but_the_modules_own_errors(engine: Engine, data: st.DataObject) -> None:
    """Whatever values a call is handed, it answers or raises RuntimeStoreError, and no raw error escapes."""
    db = engine.fresh(clock=lambda: 1.0)
    with contextlib.suppress(RuntimeStoreError):
        sessions.create_session(db, "s", source="cli")
    for _, function in _functions():
        if _place(function) != "db":
            continue
        names = [name for name in inspect.signature(function).parameters if name not in {"db", "fields"}]
        chosen = {name: data.draw(st.just(GOOD.get(name)) | bad.anything, label=name) for name in names}
        with contextlib.suppress(RuntimeStoreError):
            function(db, **chosen)
