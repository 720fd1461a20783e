"""What a room call cannot take: refused as HostedRoomError before anything is written."""

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import rooms
from fsm.rooms import HostedRoomError
from tests.bad_input import anything
from tests.engines import Engine
from tests.rooms.support import Gateway

# What is refused before the database is asked is refused alike on each; what must not escape any is the property below.
pytestmark = pytest.mark.engines("sqlite")

FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "create": (
        rooms.create_room,
        {"room_id": "room", "name": "Room", "members": [], "authority_gateway_id": "gw", "now": 1.0},
    ),
    "read": (rooms.room_state, {"room_id": "room", "include_disbanded": False}),
    "claim": (
        rooms.claim_authority,
        {
            "room_id": "room",
            "expected_gateway_id": "gw",
            "expected_epoch": 1,
            "new_gateway_id": "gw2",
            "event_id": "e1",
            "now": 1.0,
        },
    ),
    "rename": (rooms.rename_room, {"room_id": "room", "event_id": "r1", "name": "Other", "now": 1.0}),
    "append": (
        rooms.append_event,
        {
            "room_id": "room",
            "event_id": "m1",
            "kind": "message.user",
            "actor": {"kind": "user", "id": "ann"},
            "payload": {"text": "hello"},
            "authority_gateway_id": "gw",
            "authority_epoch": 1,
            "now": 1.0,
        },
    ),
    "stop": (
        rooms.request_room_stop,
        {"room_id": "room", "cancel_id": "c1", "expected_gateway_id": "gw", "expected_epoch": 1},
    ),
    "log": (rooms.read_events, {"room_id": "room", "since_seq": 0, "limit": 100, "include_disbanded": False}),
    "disband": (
        rooms.disband_room,
        {"room_id": "room", "expected_gateway_id": "gw", "expected_epoch": 1, "now": 1.0},
    ),
    "prune": (rooms.prune_disbanded_rooms, {"now": 1.0}),
}
OPTIONAL = {"now", "include_disbanded", "since_seq", "limit"}


def _nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def _circular() -> list[Any]:
    member: dict[str, Any] = {}
    member["self"] = member
    return [member]


IDENTIFIERS: list[Any] = [
    None,
    1,
    1.5,
    True,
    b"room",
    [],
    {},
    object(),
    "",
    " ",
    "-room",
    ".room",
    "a room",
    "a/b",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    "a\0b",
    "a\nb",
    "\ud800",
    "x" * 129,
]
EPOCHS: list[Any] = [None, "1", True, 1.0, math.nan, 0, -1, 2**63, 10**30, [], {}]
BAD: dict[str, list[Any]] = {
    "room_id": IDENTIFIERS,
    "authority_gateway_id": IDENTIFIERS,
    "cancel_id": IDENTIFIERS,
    "expected_gateway_id": IDENTIFIERS,
    "new_gateway_id": IDENTIFIERS,
    "event_id": [*IDENTIFIERS, "system:x", "room-stop:x", " system:x ", "system:", "system:room-disbanded"],
    "expected_epoch": EPOCHS,
    "authority_epoch": EPOCHS,
    "since_seq": [None, "1", True, 1.0, math.nan, -1, 2**63, 10**30, 1, [], {}],
    "limit": [None, "1", True, 1.0, math.nan, 0, -1, 501, 2**63, [], {}],
    # test_log_entries tries the parts of these.
    "kind": [None, 1, True, b"message.user", [], {}, "", " ", "message", "room.renamed", "x" * 65],
    "actor": [None, "ann", [], {}, {"kind": "user"}, {"kind": "member", "id": "ann"}, {"kind": "user", "id": " "}],
    "payload": [None, "x", [], {1: 2}, {"x": math.nan}, {"x": 2**63}, {"x": "\ud800"}, {"x": "x" * (256 * 1024)}],
    "name": [None, 1, True, b"Room", [], "", "   ", "\n\t", "x" * 201, "\N{SNOWMAN}" * 201, "a\0b", "a\udfffb"],
    "members": [
        None,
        (),
        {},
        "[]",
        1,
        [None],
        ["ann"],
        [[]],
        [{}, 1],
        [{}] * 129,
        [{"x": math.nan}],
        [{"x": math.inf}],
        [{"x": 2**63}],
        [{"x": -(2**63) - 1}],
        [{"x": 10**5000}],
        [{1: "x"}],
        [{None: "x"}],
        [{"x": object()}],
        [{"x": b"x"}],
        [{"x": {1, 2}}],
        [{"x": "\ud800"}],
        [{"x": "a\0b"}],
        [{"\0": "x"}],
        [{"\udc00": "x"}],
        [{"x": "x" * (128 * 1024)}],
        [_nested(5000)],
        _circular(),
    ],
    "now": ["1", True, False, math.nan, math.inf, -math.inf, 10**400, [], {}, b"1", 1j],
    "include_disbanded": [None, 0, 1, "yes", [], 1.0],
}
OF_ONE: dict[tuple[str, str], list[Any]] = {("create", "authority_gateway_id"): [*IDENTIFIERS, "legacy", " legacy "]}
CASES = [
    pytest.param(function, name, value, id=f"{function}-{name}-{number}")
    for function, (_, arguments) in FUNCTIONS.items()
    for name in arguments
    for number, value in enumerate(OF_ONE.get((function, name), BAD[name]))
]


@pytest.mark.parametrize(("function", "name", "value"), CASES)
def test_a_bad_argument(gateway: Gateway, function: str, name: str, value: object) -> None:
    """Whichever argument is not what the call takes, the call is refused and nothing is written."""
    gateway.create()
    call, arguments = FUNCTIONS[function]
    with gateway.refuses(HostedRoomError):
        call(gateway.db, **{**arguments, name: value})


@pytest.mark.parametrize(
    ("function", "name"), [(function, name) for function, (_, given) in FUNCTIONS.items() for name in given]
)
def test_a_missing_argument(gateway: Gateway, function: str, name: str) -> None:
    """A call that lacks an argument is refused as any other bad input is; those with a default may be left out."""
    call, arguments = FUNCTIONS[function]
    rest = {key: value for key, value in arguments.items() if key != name}
    if name in OPTIONAL:
        gateway.create()
        call(gateway.db, **rest)
        return
    with gateway.refuses(HostedRoomError):
        call(gateway.db, **rest)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_unknown_argument(gateway: Gateway, function: str) -> None:
    """A call with a keyword too many is refused, and so is one with a positional argument too many."""
    call, arguments = FUNCTIONS[function]
    with gateway.refuses(HostedRoomError):
        call(gateway.db, **arguments, other=1)
    with gateway.refuses(HostedRoomError):
        call(gateway.db, "room", **arguments)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("bad", [None, 1, "", "a\0b", "\ud800", b"x", [], ":memory:"])
def test_a_bad_database(function: str, bad: object) -> None:
    """What is neither a handle nor a location is refused; `:memory:` would be another database in every call."""
    call, arguments = FUNCTIONS[function]
    with pytest.raises(HostedRoomError):
        call(bad, **arguments)


@pytest.mark.parametrize("reading", [math.nan, math.inf, "12", None, True])
def test_a_bad_clock(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, reading: object) -> None:
    """A clock that answers anything but a finite number is refused as a bad `now` is."""
    gateway.create()
    monkeypatch.setattr(gateway.db, "clock", lambda: reading)
    calls = (gateway.claim, gateway.disband, gateway.prune, gateway.append, gateway.rename, gateway.stop)
    for call in (*calls, lambda: gateway.create("new")):
        with gateway.refuses(HostedRoomError):
            call()


def test_a_refusal_shows_no_text_of_the_caller(gateway: Gateway) -> None:
    """The message of a refusal does not repeat what a user wrote."""
    secret = "s3cret"
    for changes in ({"name": f"{secret}\0"}, {"members": [{"x": f"{secret}\0"}]}, {"room_id": f"/{secret}"}):
        call, arguments = FUNCTIONS["create"]
        with pytest.raises(HostedRoomError) as refusal:
            call(gateway.db, **{**arguments, **changes})
        assert secret not in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"room_id": "x" * 128},
        {"room_id": "A1._:-"},
        {"room_id": "7"},
        {"name": "\N{SNOWMAN}" * 200},
        {"name": f" {'x' * 200} "},
        {"authority_gateway_id": "x" * 128},
        {"authority_gateway_id": "legacy2"},
        {"authority_gateway_id": "Legacy"},
        {"members": [{}] * 128},
        {"members": [{"x": "y" * (128 * 1024 - 10)}]},
        {"members": [{"x": "\N{SNOWMAN}" * ((128 * 1024 - 10) // 3)}]},
        {"members": [{"x": 2**63 - 1, "y": -(2**63), "z": 1e308}]},
        {"members": [_nested(200)]},
        {"now": -1.0},
        {"now": 0},
    ],
)
def test_what_is_just_within_the_limits(gateway: Gateway, changes: dict[str, Any]) -> None:
    """Every limit is the last value that is taken: a room made of it can be created and created again."""
    assert gateway.create(**{"room": "room", **_renamed(changes)})["idempotent"] is False
    assert gateway.create(**{"room": "room", **_renamed(changes)})["idempotent"] is True


def _renamed(changes: dict[str, Any]) -> dict[str, Any]:
    return {"room" if name == "room_id" else name: value for name, value in changes.items()}


@pytest.mark.parametrize("text", ["y", "\N{SNOWMAN}"])
def test_members_are_measured_in_utf8(gateway: Gateway, text: str) -> None:
    """Members of one byte more than 128 KiB of UTF-8 are refused, in any script."""
    fill = (128 * 1024 - 10) % len(text.encode())
    members = [{"x": text * ((128 * 1024 - 10) // len(text.encode())) + "y" * fill}]
    gateway.create(members=members)
    assert len(str(gateway.stored()["members_json"]).encode()) == 128 * 1024
    members[0]["x"] += "y"
    with gateway.refuses(HostedRoomError):
        gateway.create("other", members=members)


def test_event_ids_that_only_look_like_own_ones(gateway: Gateway) -> None:
    """Only ids that begin with a prefix of the module's own are refused."""
    gateway.create()
    for epoch, event_id in enumerate(("system", "System:x", "x:system:", "room-stop", "user:x"), start=1):
        gateway.claim_from("gw", epoch, "gw", event_id)
    assert gateway.stored()["authority_epoch"] == 6


@pytest.mark.parametrize("function", ["append", "rename", "claim"])
@pytest.mark.parametrize("event_id", ["system:room-disbanded", "room-stop:x"])
def test_an_event_id_of_the_modules_own_is_refused(gateway: Gateway, function: str, event_id: str) -> None:
    """Append, rename and claim take no id that the module itself uses, so that the room can always be disbanded."""
    gateway.create()
    call, arguments = FUNCTIONS[function]
    with gateway.refuses(HostedRoomError):
        call(gateway.db, **{**arguments, "event_id": event_id})
    assert gateway.disband()["idempotent"] is False


def test_nobody_creates_a_room_for_legacy(gateway: Gateway) -> None:
    """The gateway id `legacy` marks rooms without an authority: no caller may create one of these."""
    with gateway.refuses(HostedRoomError):
        gateway.create_for("room", "legacy")


def test_the_last_epoch(gateway: Gateway) -> None:
    """At the last epoch that 64 bits hold, a claim is refused and nothing overflows."""
    gateway.create()
    gateway.alter(authority_epoch=2**63 - 2)
    assert gateway.claim(expected_epoch=2**63 - 2)["authority_epoch"] == 2**63 - 1
    with gateway.refuses(HostedRoomError):
        gateway.claim("e2", expected_gateway_id="gw2", expected_epoch=2**63 - 1)
    gateway.make_legacy()
    with gateway.refuses(HostedRoomError):
        gateway.create()


@pytest.mark.engines("sqlite", "postgres", "serializable")
@settings(max_examples=60)
@given(data=st.data())
def test_nothing_but_the_modules_own_errors(engine: Engine, data: st.DataObject) -> None:
    """Whatever values a call is handed, it answers or raises HostedRoomError, and no raw error escapes."""
    db = engine.fresh(clock=lambda: 1.0)
    for call, arguments in FUNCTIONS.values():
        chosen = {name: data.draw(st.just(value) | anything, label=name) for name, value in arguments.items()}
        with contextlib.suppress(HostedRoomError):
            call(db, **chosen)


def test_a_refused_call_opens_no_database(tmp_path: Path) -> None:
    """An argument that is no use is refused before a database is made at the location."""
    place = tmp_path / "new" / "state.db"
    with pytest.raises(HostedRoomError):
        rooms.create_room(place, room_id="a room", name="Room", members=[], authority_gateway_id="gw")
    assert not place.parent.exists()
