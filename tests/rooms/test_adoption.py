"""Which members a gateway may bring when it adopts a room from before rooms had an authority."""

from typing import Any

import pytest

from fsm.rooms import HostedRoomError, RoomConflictError
from tests.rooms.support import Gateway, check_books
from tests.world import START

ANN: dict[str, Any] = {"id": "ann", "label": "Ann"}
BOB: dict[str, Any] = {"id": "bob"}
THERE: dict[str, Any] = {"url": "https://there", "profile": "helper"}

ADOPTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "no members": ("[]", []),
    "the same": ('[{"id":"ann","label":"Ann"}]', [ANN]),
    "the same in another spelling": ('[ {"label": "Ann", "id": "\\u0061nn"} ]', [ANN]),
    "a target is added": ('[{"id":"ann","label":"Ann"}]', [{**ANN, "target": THERE}]),
    "a target that is text is added": ('[{"id":"ann","label":"Ann"}]', [{**ANN, "target": "there"}]),
    "an empty target is filled": ('[{"id":"ann","label":"Ann","target":{}}]', [{**ANN, "target": THERE}]),
    "a null target is filled": ('[{"id":"ann","label":"Ann","target":null}]', [{**ANN, "target": THERE}]),
    "an empty target is left out": ('[{"id":"ann","label":"Ann","target":{}}]', [ANN]),
    "a null target is left out": ('[{"id":"ann","label":"Ann","target":null}]', [ANN]),
    "a target is kept": (
        '[{"id":"ann","label":"Ann","target":{"profile":"helper","url":"https://there"}}]',
        [{**ANN, "target": THERE}],
    ),
    "one target is kept and another added": (
        '[{"id":"ann","label":"Ann","target":{"profile":"helper","url":"https://there"}},{"id":"bob"}]',
        [{**ANN, "target": THERE}, {**BOB, "target": THERE}],
    ),
    "one of two gets a target": ('[{"id":"ann","label":"Ann"},{"id":"bob"}]', [ANN, {**BOB, "target": THERE}]),
}
REFUSES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "a member is added": ('[{"id":"ann","label":"Ann"}]', [ANN, BOB]),
    "a member is left out": ('[{"id":"ann","label":"Ann"},{"id":"bob"}]', [ANN]),
    "members change places": ('[{"id":"bob"},{"id":"ann","label":"Ann"}]', [ANN, BOB]),
    "a field changes": ('[{"id":"ann","label":"An"}]', [ANN]),
    "a field is added": ('[{"id":"ann"}]', [ANN]),
    "a field is left out": ('[{"id":"ann","label":"Ann","x":null}]', [ANN]),
    "a field within a field changes": ('[{"id":"bob","x":{"target":1}}]', [{**BOB, "x": {"target": 2}}]),
    "a target changes": ('[{"id":"ann","label":"Ann","target":{"profile":"x"}}]', [{**ANN, "target": THERE}]),
    "a target is left out": ('[{"id":"ann","label":"Ann","target":{"profile":"x"}}]', [ANN]),
    "a target becomes null": ('[{"id":"bob","target":{"profile":"x"}}]', [{**BOB, "target": None}]),
    "a target that is false changes": ('[{"id":"bob","target":false}]', [{**BOB, "target": THERE}]),
    "a target that is an empty list changes": ('[{"id":"bob","target":[]}]', [{**BOB, "target": THERE}]),
    "a target is added and a field changes": ('[{"id":"ann","label":"An"}]', [{**ANN, "target": THERE}]),
    "stored members that are cut": ('[{"id":"ann","label":"Ann"}', [ANN]),
    "stored members that are empty text": ("", []),
    "stored members that are an object": ("{}", []),
    "stored members that are null": ("null", []),
    "a stored member that is text": ('["ann"]', [ANN]),
    "a stored member that is NaN": ("[NaN]", [ANN]),
    "stored members nested too deep": ("[" * 100_000, []),
}


@pytest.mark.parametrize("case", ADOPTS)
def test_adopts(gateway: Gateway, case: str) -> None:
    """A gateway that means the members that the room has, but for targets that it lacked, becomes its authority."""
    stored, proposed = ADOPTS[case]
    gateway.bring("legacy")
    gateway.alter(members_json=stored)
    gateway.clock.advance(5)
    answer = gateway.create(members=proposed)
    assert answer["idempotent"] is True
    assert answer["adopted"] is True
    assert answer["claim_event"]["idempotent"] is False
    assert answer["members"] == gateway.state()["members"] == proposed
    assert (answer["authority_gateway_id"], answer["authority_epoch"]) == ("gw", 2)
    assert (answer["revision"], answer["latest_seq"], answer["updated_at"]) == (2, 1, START + 5)
    check_books(gateway, "room")


@pytest.mark.parametrize("case", REFUSES)
def test_refuses(gateway: Gateway, case: str) -> None:
    """A gateway that means other members, or a room whose members do not decode, leaves the room without authority."""
    stored, proposed = REFUSES[case]
    gateway.bring("legacy")
    gateway.alter(members_json=stored)
    with gateway.refuses(RoomConflictError):
        gateway.create(members=proposed)


def test_an_adoption_happens_once(gateway: Gateway) -> None:
    """Once adopted, the same call is an exact retry without `adopted`, and another gateway comes too late."""
    gateway.bring("legacy")
    assert gateway.create()["adopted"] is True
    before = gateway.everything()
    again = gateway.create()
    assert again["idempotent"] is True
    assert not {"adopted", "claim_event"} & again.keys()
    assert gateway.everything() == before
    with gateway.refuses(RoomConflictError):
        gateway.create(authority_gateway_id="gw2")


def test_targets_may_only_be_added_by_an_adoption(gateway: Gateway) -> None:
    """A room that has a real authority does not gain targets by being created again."""
    gateway.create(members=[ANN])
    with gateway.refuses(RoomConflictError):
        gateway.create(members=[{**ANN, "target": THERE}])


def test_an_adoption_needs_no_free_place_among_live_rooms(gateway: Gateway) -> None:
    """An adopted room was live before, so that a gateway with its full number of rooms may adopt."""
    gateway.bring("legacy")
    gateway.add_closed_many(255, START)
    gateway.execute("UPDATE hosted_rooms SET disbanded_at = NULL")
    with gateway.refuses(HostedRoomError):
        gateway.create("new")
    assert gateway.create()["adopted"] is True


def test_an_adoption_goes_on_from_the_stored_epoch(gateway: Gateway) -> None:
    """An adoption adds one to whichever epoch the room has reached, and its event follows what is in the log."""
    gateway.create()
    gateway.add_event("m1", "é")
    gateway.alter(authority_epoch=7)
    gateway.make_legacy()
    answer = gateway.create(authority_gateway_id="gw2")
    assert (answer["authority_epoch"], answer["claim_event"]["seq"]) == (8, 2)
    assert answer["claim_event"]["payload"]["authority_epoch"] == 8
    check_books(gateway, "room")


def test_a_legacy_authority_may_also_be_claimed(gateway: Gateway) -> None:
    """A caller that names `legacy` as the expected authority takes the room over as any other."""
    gateway.bring("legacy")
    assert gateway.claim_from("legacy", 1, "gw", "e1")["authority_epoch"] == 2
    assert gateway.create()["idempotent"] is True
