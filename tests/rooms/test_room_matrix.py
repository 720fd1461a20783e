"""Every state of a room against every call on it; the table is the contract."""

from collections.abc import Callable
from typing import Any

import pytest

from fsm.lifecycles import HOSTED_ROOM
from fsm.lifecycles.tables import ROOMS
from fsm.rooms import (
    AuthorityConflictError,
    AuthoritySupersededError,
    EventConflictError,
    HostedRoomError,
    RoomConflictError,
    RoomHistoryExpiredError,
    RoomNotFoundError,
)
from tests.rooms.support import RETENTION, STATES, Gateway, check_books
from tests.world import START

REFUSALS: dict[str, type[Exception]] = {
    "H": HostedRoomError,
    "N": RoomNotFoundError,
    "X": RoomHistoryExpiredError,
    "C": RoomConflictError,
    "E": EventConflictError,
    "A": AuthorityConflictError,
    "S": AuthoritySupersededError,
}

# `>gateway epoch next_seq`: done; `=`: an exact retry; `r`: read; `>gone`: only the id is left; a letter: refused.
#   absent, live, legacy, claimed, superseded, disbanded, retired
MATRIX: dict[str, tuple[str, ...]] = {
    "create": (">gw 1 1", "=", ">gw 2 2", "C", "C", "C", "C"),
    "create, another name": (">gw 1 1", "C", "C", "C", "C", "C", "C"),
    "create, other members": (">gw 1 1", "C", "C", "C", "C", "C", "C"),
    "create by gw2": (">gw2 1 1", "C", ">gw2 2 2", "=", "C", "C", "C"),
    "create by gw3": (">gw3 1 1", "C", ">gw3 2 2", "C", "=", "C", "C"),
    "create for legacy": ("H", "H", "H", "H", "H", "H", "H"),
    "read": ("N", "r", "r", "r", "r", "N", "X"),
    "read, disbanded too": ("N", "r", "r", "r", "r", "r", "X"),
    "claim gw 1 to gw2 as e1": ("N", ">gw2 2 2", "A", "=", "S", "N", "X"),
    "claim gw 1 to gw3 as e1": ("N", ">gw3 2 2", "A", "E", "E", "N", "X"),
    "claim gw 1 to gw as e1": ("N", ">gw 2 2", "A", "E", "E", "N", "X"),
    "claim gw 2 to gw2 as e1": ("N", "A", "A", "E", "E", "N", "X"),
    "claim gw9 1 to gw2 as e1": ("N", "A", "A", "E", "E", "N", "X"),
    "claim legacy 1 to gw2 as e1": ("N", "A", ">gw2 2 2", "E", "E", "N", "X"),
    "claim gw 1 to gw2 as e9": ("N", ">gw2 2 2", "A", "A", "A", "N", "X"),
    "claim gw 1 to legacy as e9": ("N", ">legacy 2 2", "A", "A", "A", "N", "X"),
    "claim gw2 2 to gw3 as e2": ("N", "A", "A", ">gw3 3 3", "=", "N", "X"),
    "claim gw3 3 to gw as e3": ("N", "A", "A", "A", ">gw 4 4", "N", "X"),
    "claim gw 1 to gw2 as system:e1": ("H", "H", "H", "H", "H", "H", "H"),
    "claim gw 1 to gw2 as room-stop:e1": ("H", "H", "H", "H", "H", "H", "H"),
    "rename as r1": ("N", ">gw 1 2", ">legacy 1 2", ">gw2 2 3", ">gw3 3 4", "N", "X"),
    "rename as e1": ("N", ">gw 1 2", ">legacy 1 2", "E", "E", "N", "X"),
    "rename as system:room-disbanded": ("H", "H", "H", "H", "H", "H", "H"),
    "append gw 1 as m1": ("N", ">gw 1 2", "A", "A", "A", "N", "X"),
    "append gw 2 as m1": ("N", "A", "A", "A", "A", "N", "X"),
    "append gw9 1 as m1": ("N", "A", "A", "A", "A", "N", "X"),
    "append legacy 1 as m1": ("N", "A", ">legacy 1 2", "A", "A", "N", "X"),
    "append gw2 2 as m1": ("N", "A", "A", ">gw2 2 3", "A", "N", "X"),
    "append gw3 3 as m1": ("N", "A", "A", "A", ">gw3 3 4", "N", "X"),
    "append gw 1 as e1": ("N", ">gw 1 2", "A", "E", "E", "N", "X"),
    "append gw 1 as room-stop:x": ("H", "H", "H", "H", "H", "H", "H"),
    "append gw 1 as system:room-disbanded": ("H", "H", "H", "H", "H", "H", "H"),
    "stop gw 1": ("N", ">gw 1 2", "A", "A", "A", "N", "X"),
    "stop gw 2": ("N", "A", "A", "A", "A", "N", "X"),
    "stop gw9 1": ("N", "A", "A", "A", "A", "N", "X"),
    "stop gw2 2": ("N", "A", "A", ">gw2 2 3", "A", "N", "X"),
    "stop gw3 3": ("N", "A", "A", "A", ">gw3 3 4", "N", "X"),
    "log": ("N", "r", "r", "r", "r", "N", "X"),
    "log, disbanded too": ("N", "r", "r", "r", "r", "r", "X"),
    "log from beyond its end": ("N", "H", "H", "H", "H", "N", "X"),
    "disband gw 1": ("N", ">gw 1 2", "A", "A", "A", "=", "="),
    "disband gw 2": ("N", "A", "A", "A", "A", "=", "="),
    "disband gw9 1": ("N", "A", "A", "A", "A", "=", "="),
    "disband legacy 1": ("N", "A", ">legacy 1 2", "A", "A", "=", "="),
    "disband gw2 2": ("N", "A", "A", ">gw2 2 3", "A", "=", "="),
    "disband gw3 3": ("N", "A", "A", "A", ">gw3 3 4", "=", "="),
    "prune": ("0", "0", "0", "0", "0", "0", "0"),
    "prune when its time is over": ("0", "0", "0", "0", "0", ">gone", "0"),
}


def _create(gateway: Gateway, variant: str) -> Any:
    changes: dict[str, dict[str, Any]] = {
        "": {},
        ", another name": {"name": "Other"},
        ", other members": {"members": [{"id": "ann"}]},
        " by gw2": {"authority_gateway_id": "gw2"},
        " by gw3": {"authority_gateway_id": "gw3"},
        " for legacy": {"authority_gateway_id": "legacy"},
    }
    return gateway.create(**changes[variant])


def _claim(gateway: Gateway, variant: str) -> Any:
    expected, epoch, _, new, _, event_id = variant.split()
    return gateway.claim_from(expected, int(epoch), new, event_id)


def _disband(gateway: Gateway, variant: str) -> Any:
    expected, epoch = variant.split()
    return gateway.disband("room", expected, int(epoch))


def _rename(gateway: Gateway, variant: str) -> Any:
    return gateway.rename(event_id=variant.rsplit(maxsplit=1)[-1])


def _append(gateway: Gateway, variant: str) -> Any:
    author, epoch, _, event_id = variant.split()
    return gateway.append_by(author, int(epoch), event_id)


def _stop(gateway: Gateway, variant: str) -> Any:
    expected, epoch = variant.split()
    return gateway.stop("c1", expected, int(epoch))


def _log(gateway: Gateway, variant: str) -> Any:
    return gateway.read(9 if "beyond" in variant else 0, closed_too="disbanded too" in variant)


def _prune(gateway: Gateway, variant: str) -> Any:
    return gateway.prune(gateway.clock.now + (RETENTION if variant else 0))


CALLS: dict[str, Callable[[Gateway, str], Any]] = {
    "create": _create,
    "read": lambda gateway, variant: gateway.state(closed_too=bool(variant)),
    "claim": _claim,
    "rename": _rename,
    "append": _append,
    "stop": _stop,
    "log": _log,
    "disband": _disband,
    "prune": _prune,
}


def _call(gateway: Gateway, name: str) -> Any:
    verb = next(each for each in CALLS if name.startswith(each))
    return CALLS[verb](gateway, name.removeprefix(verb))


CELLS = [(name, state, code) for name, codes in MATRIX.items() for state, code in zip(STATES, codes, strict=True)]


@pytest.mark.parametrize(("name", "state", "code"), CELLS)
def test_cell(gateway: Gateway, name: str, state: str, code: str) -> None:
    """A call on a room does what the table says, and a refusal or retry leaves every row as it was."""
    gateway.bring(state)
    gateway.clock.advance(1)
    before = gateway.everything()
    if code in REFUSALS:
        with gateway.refuses(REFUSALS[code]):
            _call(gateway, name)
        return
    answer = _call(gateway, name)
    if code in {"=", "r", "0"}:
        assert gateway.everything() == before
        assert code == "0" or answer.get("idempotent", False) is (code == "=")
        assert code != "0" or answer == 0
        return
    if code == ">gone":
        assert answer == 1
        assert gateway.row() is None
        assert gateway.retired() == {"room": START}
        return
    expected, epoch, next_seq = code[1:].split()
    row = gateway.stored()
    assert (row["authority_gateway_id"], row["authority_epoch"]) == (expected, int(epoch))
    assert row["next_seq"] == int(next_seq)
    assert (row["disbanded_at"] is not None) == name.startswith("disband")
    check_books(gateway, "room")


def test_the_matrix_covers_every_state() -> None:
    """No declared state of hosted_room is missing from the table."""
    assert {state.name for state in HOSTED_ROOM.states} <= set(STATES)


def test_the_declaration_has_exactly_these_edges() -> None:
    """A room moves along the edges of the contract and along no other."""
    found = {
        (trigger.name, edge.source.name, edge.dest.name) for trigger in HOSTED_ROOM.triggers for edge in trigger.edges
    }
    assert found == {
        ("create", "absent", "live"),
        ("adopt", "live", "live"),
        ("claim_authority", "live", "live"),
        ("rename", "live", "live"),
        ("append", "live", "live"),
        ("request_stop", "live", "live"),
        ("disband", "live", "disbanded"),
        ("prune", "disbanded", "retired"),
    }


ORDER: dict[str, tuple[str, str, type[Exception]]] = {
    "a taken id before a full gateway": ("claimed", "create", RoomConflictError),
    "a disbanded id before a full gateway": ("disbanded", "create", RoomConflictError),
    "a retired id before a full gateway": ("retired", "create", RoomConflictError),
    "bad input before a disbanded id": ("disbanded", "create for legacy", HostedRoomError),
    "another name before a full room": ("legacy", "create, another name", RoomConflictError),
    "other members before a full room": ("legacy", "create, other members", RoomConflictError),
    "a full room at an adoption": ("legacy", "create", HostedRoomError),
    "bad input before a missing room": ("absent", "claim gw 1 to gw2 as system:e1", HostedRoomError),
    "an event id that is taken before another authority": (
        "claimed",
        "claim gw9 1 to gw2 as e1",
        EventConflictError,
    ),
    "a superseded claim before a full room": ("superseded", "claim gw 1 to gw2 as e1", AuthoritySupersededError),
    "another authority before a full room at a claim": ("live", "claim gw9 1 to gw2 as e1", AuthorityConflictError),
    "a full room at a claim": ("live", "claim gw 1 to gw2 as e1", HostedRoomError),
    "a taken event id before another authority at an append": ("claimed", "append gw9 1 as e1", EventConflictError),
    "another authority before a full room at an append": ("live", "append gw 2 as m1", AuthorityConflictError),
    "a full room at an append": ("live", "append gw 1 as m1", HostedRoomError),
    "a disbanded room before another authority at an append": ("disbanded", "append gw9 1 as m1", RoomNotFoundError),
    "a retired id before another authority at a stop": ("retired", "stop gw9 1", RoomHistoryExpiredError),
    "another authority before a full room at a stop": ("live", "stop gw9 1", AuthorityConflictError),
    "a full room at a stop": ("live", "stop gw 1", HostedRoomError),
    "a taken event id before a full room at a renaming": ("claimed", "rename as e1", EventConflictError),
    "a full room at a renaming": ("live", "rename as r1", HostedRoomError),
    "another authority before a full room at a disbanding": ("live", "disband gw 2", AuthorityConflictError),
    "a full room at a disbanding": ("live", "disband gw 1", HostedRoomError),
}


@pytest.mark.parametrize("case", ORDER)
def test_order_of_refusals(gateway: Gateway, case: str) -> None:
    """Where two refusals apply, the caller learns of the same one each time."""
    state, call, error = ORDER[case]
    gateway.bring(state)
    if gateway.row() is not None:
        gateway.alter(next_seq=60_000)
    _fill_with_live_rooms(gateway)
    with gateway.refuses(error):
        _call(gateway, call)


@pytest.mark.parametrize(
    ("state", "call"),
    [
        ("live", "create"),
        ("claimed", "claim gw 1 to gw2 as e1"),
        ("disbanded", "disband gw 1"),
        ("retired", "disband gw 1"),
    ],
)
def test_an_exact_retry_needs_no_space(gateway: Gateway, state: str, call: str) -> None:
    """An exact retry is answered where nothing new would fit any more."""
    gateway.bring(state)
    if gateway.row() is not None:
        gateway.alter(next_seq=60_000)
    _fill_with_live_rooms(gateway)
    before = gateway.everything()
    assert _call(gateway, call)["idempotent"] is True
    assert gateway.everything() == before


def _fill_with_live_rooms(gateway: Gateway) -> None:
    gateway.add_closed_many(256, START, prefix="full")
    gateway.execute(f"UPDATE {ROOMS.name} SET disbanded_at = NULL WHERE room_id LIKE 'full-%'")
