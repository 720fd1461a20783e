"""Bad input is refused with the module's validation error, before anything is written: every parameter, every kind."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import storage
from fsm import driver, rooms
from fsm.driver import DriverLease, DriverValidationError, TaskAttempt, TaskIdentity
from fsm.rooms import HostedRoomError
from tests import bad_input as bad
from tests.rooms.peers import link, receipt, scope
from tests.world import World, identity, payload

# What is refused before the database is asked is refused alike on each; what must not escape any is the property below.
pytestmark = pytest.mark.engines("sqlite")

MODULES: dict[ModuleType, type[Exception]] = {driver: DriverValidationError, rooms: HostedRoomError}
WITHOUT_ARGUMENTS = {"default_db_path", "local_authority_gateway_id", "new_process_generation"}

PAYLOADS: list[Any] = [
    *(None, 1, "x", [], {}),
    {"target_profile": "helper", "prompt": "hi"},
    {**payload(), "extra": 1},
    {**payload(), 1: 2},
    *(
        {**payload(), "prompt": value}
        for value in (None, 1, "", " \n", "a\0b", "\ud800", "x" * (128 * 1024 + 1), "é" * 65537)
    ),
    *({**payload(), "target_profile": value} for value in bad.IDENTIFIERS),
    *({**payload(), "target_member_id": value} for value in bad.IDENTIFIERS),
    *({**payload(), "source_event_seq": value} for value in bad.POSITIVE_INTEGERS),
]
MEMBERS: list[Any] = [
    *(None, {}, "x", 1, [1], [[]], [None], [{}] * 129, ({},)),
    *([{"member": value}] for value in bad.JSON),
    [{"name": "é" * 70_000}],
]
TEXTS: list[Any] = [None, 1, 1.5, True, b"x", "", " \n", "a\0b", "\ud800", [], {}, object()]
SHORT_TEXTS: list[Any] = [*TEXTS, "x" * 1025]
DOCUMENTS: list[Any] = [*TEXTS, "x" * (256 * 1024 + 1), "é" * (128 * 1024 + 1)]


def _changed(good: dict[str, Any], bad_values: dict[str, list[Any]]) -> list[Any]:
    """Return no objects at all, an object that lacks a field, and one for each bad value of a field."""
    return [
        *(None, 1, "x", [], {}, [good], object(), bad.Claimant()),
        *({key: value for key, value in good.items() if key != name} for name in bad_values),
        *({**good, name: value} for name, values in bad_values.items() for value in values),
    ]


BAD_SCOPE: dict[str, list[Any]] = {
    "room_id": bad.IDENTIFIERS,
    "member_id": bad.IDENTIFIERS,
    "target_profile": bad.IDENTIFIERS,
    "authority_gateway_id": bad.IDENTIFIERS,
    "authority_epoch": bad.POSITIVE_INTEGERS,
    "home_install_id": bad.IDENTIFIERS,
    "target_install_id": bad.IDENTIFIERS,
}
BAD_RESERVATION: dict[str, list[Any]] = {
    name: values for name, values in BAD_SCOPE.items() if not name.endswith("install_id")
}
BAD_LINK: dict[str, list[Any]] = {
    **{name: BAD_SCOPE[name] for name in ("room_id", "member_id", "target_profile")},
    **dict.fromkeys(("target_url", "grant", "catalog_json"), DOCUMENTS),
    **dict.fromkeys(("cancellation_scope_id", "trace_id", "transport_security", "status"), SHORT_TEXTS),
    "updated_at": [None, *bad.INSTANTS],
}
BAD_RUN: dict[str, list[Any]] = {
    **BAD_SCOPE,
    "task_id": bad.IDENTIFIERS,
    "execution_generation": bad.POSITIVE_INTEGERS,
}
BAD_RECEIPT: dict[str, list[Any]] = {**BAD_RUN, **dict.fromkeys(("run_id", "session_id"), SHORT_TEXTS)}
SETTLED: list[Any] = [None, 1, "", "running", "cancelled", "SETTLED", [], {}, object()]

BAD: dict[str, list[Any]] = {
    "db": bad.DATABASES,
    "identity": bad.VALUES,
    "lease": bad.VALUES,
    "attempt": bad.VALUES,
    "clock": bad.CLOCKS,
    "now": bad.INSTANTS,
    "payload": PAYLOADS,
    "members": MEMBERS,
    "result": [*bad.JSON, "x" * (256 * 1024), "é" * 50_000],
    "status": SETTLED,
    "ttl_seconds": [*bad.POSITIVE_NUMBERS, 1e-300, 1e308 * 10],
    "retention_seconds": bad.POSITIVE_NUMBERS,
    "retain": bad.NON_NEGATIVE_INTEGERS,
    "kind": [None, 1, True, b"x", [], {}, "", "message", "message.member", "room.renamed", "x" * 65, "\ud800"],
    "actor": [*bad.VALUES, {"kind": "user", "id": " "}, {"kind": "user", "id": "ann", "name": "x"}],
    "since_seq": [*bad.NON_NEGATIVE_INTEGERS, 1],
    "limit": [*bad.POSITIVE_INTEGERS, 501],
    "offset": bad.NON_NEGATIVE_INTEGERS,
    "include_disbanded": bad.FLAGS,
    "expires_at": [None, *bad.INSTANTS],
    "claims": _changed(scope(), BAD_SCOPE),
    "max_links": bad.NON_NEGATIVE_INTEGERS,
    "name": [None, 1, True, b"x", [], {}, "", " \t", "x" * 201, "a\0b", "\ud800"],
    "expected_execution_generation": bad.POSITIVE_INTEGERS,
    # A bool is taken on purpose: existing callers pass one.
    "expected_cancel_generation": [value for value in bad.NON_NEGATIVE_INTEGERS if value is not True],
    "authority_epoch": bad.POSITIVE_INTEGERS,
    "expected_epoch": bad.POSITIVE_INTEGERS,
    "event_id": [*bad.IDENTIFIERS, "system:room-disbanded", "room-stop:1", " system:x"],
    "authority_gateway_id": [*bad.IDENTIFIERS, "legacy"],
    **dict.fromkeys(
        (
            "room_id",
            "member_id",
            "target_profile",
            "gateway_id",
            "process_generation",
            "settlement_id",
            "cancel_id",
            "reason",
            "client_event_id",
            "expected_gateway_id",
            "new_gateway_id",
        ),
        bad.IDENTIFIERS,
    ),
}
OF_ONE_FUNCTION: dict[tuple[str, str], list[Any]] = {
    ("append_event", "payload"): [*(None, 1, "x", [], ()), *({"key": value} for value in bad.JSON), {1: 2}],
    ("append_event", "authority_gateway_id"): bad.IDENTIFIERS,
    ("list_tasks", "status"): [1, "", "open", "QUEUED", [], {}, object()],
    ("update_room_link_status", "status"): SHORT_TEXTS,
    ("upsert_room_link_record", "record"): _changed(link(), BAD_LINK),
    ("upsert_remote_run_receipt", "record"): _changed(receipt(), BAD_RECEIPT),
    ("remote_run_receipt", "record"): _changed(receipt(), BAD_RUN),
    ("reserve_peer_room", "claims"): _changed(scope(), BAD_RESERVATION),
    ("peer_room_grant_is_current", "claims"): _changed(scope(), BAD_RESERVATION),
    ("room_grant_is_revoked", "claims"): [
        *_changed(scope(), BAD_SCOPE),
        *({**scope(), "issued_at": value} for value in bad.INSTANTS),
    ],
    ("list_remote_run_receipts", "room_id"): bad.IDENTIFIERS[1:],
    ("list_remote_run_receipts", "target_profile"): bad.IDENTIFIERS[1:],
    ("list_remote_run_receipts", "session_id"): SHORT_TEXTS[1:],
}


def _good(world: World) -> dict[str, Any]:
    return {
        "db": world.db,
        "identity": identity(),
        "lease": world.lease,
        "attempt": TaskAttempt(identity(), world.lease, 1, 0),
        "payload": payload(),
        "members": [],
        "result": {},
        "status": "settled",
        "ttl_seconds": 60,
        "name": "Room",
        "expected_execution_generation": 1,
        "expected_cancel_generation": 1,
        "authority_epoch": 1,
        "expected_epoch": 1,
        "event_id": "e1",
        "room_id": "room",
        "gateway_id": "gw",
        "process_generation": "p1",
        "settlement_id": "s1",
        "cancel_id": "c1",
        "reason": "later",
        "client_event_id": "key",
        "kind": "message.user",
        "actor": {"kind": "user", "id": "ann"},
        "authority_gateway_id": "gw",
        "expected_gateway_id": "gw",
        "new_gateway_id": "gw2",
        "member_id": "ann",
        "target_profile": "helper",
        "claims": scope(),
        "expires_at": world.clock.now + 60,
        "max_links": 8,
        "record": {**link(), **receipt()},
    }


def _functions() -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    for module in MODULES:
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and name not in WITHOUT_ARGUMENTS:
                yield module, name, function


def _bad_values(name: str, parameter: str) -> list[Any]:
    return OF_ONE_FUNCTION.get((name, parameter)) or BAD.get(parameter, [])


def _cases() -> Iterator[Any]:
    for module, name, function in _functions():
        for parameter in inspect.signature(function).parameters:
            values = _bad_values(name, parameter)
            yield pytest.param(module, name, parameter, values, id=f"{name}-{parameter}")


@pytest.mark.parametrize(("module", "name", "parameter", "values"), list(_cases()))
def test_bad_input_is_refused(world: World, module: ModuleType, name: str, parameter: str, values: list[Any]) -> None:
    """Each kind of bad value for a parameter raises the module's validation error and leaves the database untouched."""
    assert values, f"{name} has a parameter {parameter} for which no bad input is listed in BAD"
    function = getattr(module, name)
    world.start()
    before = world.everything()
    for value in values:
        arguments = {**_arguments(world, function), parameter: value}
        with pytest.raises(MODULES[module]) as refusal:
            function(**arguments)
        assert type(refusal.value) is MODULES[module], value
        assert world.everything() == before


def _arguments(world: World, function: Callable[..., Any]) -> dict[str, Any]:
    good = _good(world)
    required = (
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is inspect.Parameter.empty
    )
    return {name: good[name] for name in required}


@pytest.mark.parametrize(("module", "name"), [pytest.param(module, name, id=name) for module, name, _ in _functions()])
def test_wrong_arguments_are_refused(world: World, module: ModuleType, name: str) -> None:
    """A missing argument and an unknown one are bad input too, never a bare TypeError."""
    function = getattr(module, name)
    arguments = _arguments(world, function)
    for missing in arguments:
        with pytest.raises(MODULES[module]):
            function(**{key: value for key, value in arguments.items() if key != missing})
    with pytest.raises(MODULES[module]):
        function(**arguments, colour="red")
    with pytest.raises(MODULES[module]):
        function()


def test_every_public_function_is_covered() -> None:
    """The modules have the functions that the gateway imports, and each of them is among the cases."""
    names = {name for module, name, _ in _functions() if module is driver}
    assert len(names) == 20
    assert {name for module, name, _ in _functions() if module is rooms} == {
        "append_event",
        "claim_authority",
        "create_room",
        "delete_room_link_records",
        "disband_room",
        "list_remote_run_receipts",
        "list_room_link_records",
        "list_rooms",
        "peer_room_grant_is_current",
        "peer_room_is_reserved",
        "probe_hosted_room",
        "probe_peer_room_reservation",
        "prune_disbanded_rooms",
        "read_events",
        "remote_run_receipt",
        "rename_room",
        "request_room_stop",
        "reserve_peer_room",
        "revoke_room_grant_scope",
        "room_grant_is_revoked",
        "room_state",
        "update_room_link_status",
        "upsert_remote_run_receipt",
        "upsert_room_link_record",
        "user_event_id",
    }


FIELDS: dict[type, dict[str, list[Any]]] = {
    TaskIdentity: dict.fromkeys(("room_id", "task_id", "thread_id", "turn_id"), bad.IDENTIFIERS),
    DriverLease: {
        **dict.fromkeys(("room_id", "gateway_id", "process_generation"), bad.IDENTIFIERS),
        **dict.fromkeys(("authority_epoch", "lease_generation"), bad.POSITIVE_INTEGERS),
        "expires_at": [*bad.INSTANTS, None],
        "reclaimed": bad.FLAGS,
    },
    TaskAttempt: {
        **dict.fromkeys(("identity", "lease"), bad.VALUES),
        **dict.fromkeys(("execution_generation", "cancel_generation"), bad.NON_NEGATIVE_INTEGERS),
    },
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param(kind, name, id=f"{kind.__name__}-{name}") for kind in FIELDS for name in FIELDS[kind]],
)
def test_a_value_with_a_bad_field_cannot_be_made(world: World, kind: type, name: str) -> None:
    """The values that a caller hands back cannot be made with a bad field."""
    lease = world.lease
    good: dict[type, dict[str, Any]] = {
        TaskIdentity: {"room_id": "r", "task_id": "t", "thread_id": "h", "turn_id": "u"},
        DriverLease: {field: getattr(lease, field) for field in FIELDS[DriverLease]},
        TaskAttempt: {"identity": identity(), "lease": lease, "execution_generation": 1, "cancel_generation": 0},
    }
    for value in FIELDS[kind][name]:
        with pytest.raises(DriverValidationError):
            kind(**{**good[kind], name: value})


def test_messages_hold_no_text_of_the_user(world: World) -> None:
    """A refusal names the label and the rule, never the value that was refused."""
    secret = "s3cret words"
    calls: list[Callable[[], object]] = [
        lambda: driver.admit_task(world.db, identity(), payload={**payload(), secret: 1}),
        lambda: driver.admit_task(world.db, identity(), payload={**payload(), "target_profile": secret}),
        lambda: driver.list_tasks(world.db, room_id=secret),
        lambda: driver.list_tasks(world.db, room_id="room", status=secret),
        lambda: driver.settle_task(
            world.db, TaskAttempt(identity(), world.lease, 1, 0), settlement_id="s", status=secret, result=None
        ),
        lambda: rooms.room_state(world.db, room_id=secret),
        lambda: rooms.upsert_room_link_record(world.db, record={**link(), "grant": f"{secret}\0"}, max_links=1),
        lambda: rooms.upsert_room_link_record(world.db, record={**link(), "grant": secret}, max_links=0),
        lambda: rooms.reserve_peer_room(world.db, claims={**scope(), "member_id": secret}, expires_at=2e6),
    ]
    for call in calls:
        with pytest.raises((DriverValidationError, HostedRoomError)) as refusal:
            call()
        assert secret not in str(refusal.value)


def test_a_location_is_opened_once(tmp_path: Any) -> None:
    """A path given instead of a handle is opened once a process and reused."""
    path = tmp_path / "state.db"
    rooms.create_room(path, room_id="room", name="Room", members=[], authority_gateway_id="gw")
    handle = storage.resolve(path, error=AssertionError)
    assert storage.resolve(str(path), error=AssertionError) is handle
    assert rooms.room_state(str(path), room_id="room")["latest_seq"] == 0
    handle.close()


@pytest.mark.parametrize(("module", "name"), [pytest.param(module, name, id=name) for module, name, _ in _functions()])
def test_bad_input_creates_no_database(world: World, tmp_path: Any, module: ModuleType, name: str) -> None:
    """A call that is refused for its arguments has not even made the file of a database that was not there."""
    function = getattr(module, name)
    path = tmp_path / "elsewhere" / "state.db"
    for parameter in inspect.signature(function).parameters:
        if parameter == "db":
            continue
        value = _bad_values(name, parameter)[0]
        arguments = {**_arguments(world, function), parameter: value}
        if "db" in arguments:
            arguments["db"] = path
        with pytest.raises(MODULES[module]):
            function(**arguments)
        assert not path.parent.exists(), parameter
