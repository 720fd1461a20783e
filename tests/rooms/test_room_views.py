"""What the calls answer: one shape, from the stored row."""

import threading
from typing import Any

import pytest

from fsm import rooms
from fsm.lifecycles.tables import EVENTS, ROOMS
from fsm.rooms import AuthorityConflictError, HostedRoomError, RoomConflictError
from storage import Database
from tests.rooms.support import Gateway
from tests.world import START, ManualClock

SYSTEM = {"kind": "system", "id": "authority-control"}
NEW_ROOM: dict[str, Any] = {
    "room_id": "room",
    "name": "Room",
    "members": [],
    "authority_gateway_id": "gw",
    "authority_epoch": 1,
    "revision": 1,
    "created_at": START,
    "updated_at": START,
    "idempotent": False,
    "latest_seq": 0,
}
CLAIM_EVENT: dict[str, Any] = {
    "room_id": "room",
    "seq": 1,
    "event_id": "e1",
    "kind": "authority.claimed",
    "actor": SYSTEM,
    "authority_epoch": 2,
    "payload": {"previous_gateway_id": "gw", "authority_gateway_id": "gw2", "authority_epoch": 2},
    "created_at": START + 5,
    "idempotent": False,
}
CLAIMED_ROOM: dict[str, Any] = {
    **NEW_ROOM,
    "authority_gateway_id": "gw2",
    "authority_epoch": 2,
    "revision": 2,
    "updated_at": START + 5,
    "latest_seq": 1,
}


def test_a_new_room_and_its_retry_have_one_shape(gateway: Gateway) -> None:
    """Creating answers the stored room, and the retry the same but for `idempotent`."""
    assert gateway.create() == NEW_ROOM
    gateway.clock.advance(5)
    assert gateway.create() == {**NEW_ROOM, "idempotent": True}
    assert gateway.state() == NEW_ROOM


def test_a_claim_and_its_retry(gateway: Gateway) -> None:
    """A claim answers the room and the claim's own event, and the exact retry the same but for `idempotent`."""
    gateway.create()
    gateway.clock.advance(5)
    assert gateway.claim() == {**CLAIMED_ROOM, "claim_event": CLAIM_EVENT}
    gateway.clock.advance(5)
    retry = {"claim_event": {**CLAIM_EVENT, "idempotent": True}, "idempotent": True}
    assert gateway.claim() == {**CLAIMED_ROOM, **retry}


def test_a_retry_of_a_claim_shows_the_room_as_it_is_now(gateway: Gateway) -> None:
    """The retry of a claim answers what is stored, with whatever has happened in the room since."""
    gateway.create()
    gateway.claim()
    gateway.add_event("m1", "hello")
    answer = gateway.claim()
    assert (answer["latest_seq"], answer["claim_event"]["seq"]) == (2, 1)


def test_a_disbanding_and_its_retries(gateway: Gateway) -> None:
    """A disbanding answers its event; the retry too, and where only the id is left it says so."""
    gateway.create()
    gateway.clock.advance(5)
    event = {
        "room_id": "room",
        "seq": 1,
        "event_id": "system:room-disbanded",
        "kind": "room.disbanded",
        "actor": {"kind": "system", "id": "room-control"},
        "authority_epoch": 1,
        "payload": {"room_id": "room"},
        "created_at": START + 5,
        "idempotent": False,
    }
    closed = {"room_id": "room", "disbanded_at": START + 5}
    assert gateway.disband() == {**closed, "idempotent": False, "event": event}
    gateway.clock.advance(5)
    assert gateway.disband() == {**closed, "idempotent": True, "event": {**event, "idempotent": True}}
    assert gateway.prune(START + 1e9) == 1
    assert gateway.disband() == {**closed, "idempotent": True, "history_expired": True}


def test_a_room_disbanded_without_an_event(gateway: Gateway) -> None:
    """A room that an older gateway closed without an event is answered without one."""
    gateway.add_closed("old", START - 9, retired=False)
    assert gateway.disband("old") == {"room_id": "old", "disbanded_at": START - 9, "idempotent": True}


def test_a_disbanded_room_read(gateway: Gateway) -> None:
    """A disbanded room is read as the live one was, with the instant of its end."""
    gateway.create()
    gateway.clock.advance(5)
    gateway.disband()
    changed = {"revision": 2, "updated_at": START + 5, "latest_seq": 1, "disbanded_at": START + 5}
    assert gateway.state(closed_too=True) == {**NEW_ROOM, **changed}


def test_the_state_holds_the_claim_of_the_present_authority(gateway: Gateway) -> None:
    """Of several claims, a room's state shows the one that its present authority made."""
    gateway.create()
    assert "authority_claim" not in gateway.state()
    gateway.clock.advance(5)
    gateway.claim()
    assert gateway.state() == {**CLAIMED_ROOM, "authority_claim": CLAIM_EVENT}
    gateway.claim_from("gw2", 2, "gw3", "e2")
    assert gateway.state()["authority_claim"]["event_id"] == "e2"


def test_a_claim_of_an_older_epoch_is_not_the_present_one(gateway: Gateway) -> None:
    """Where the present epoch began without a claim event, the state shows none."""
    gateway.bring("claimed")
    gateway.alter(authority_epoch=7)
    assert "authority_claim" not in gateway.state()


def test_of_two_claims_of_one_epoch_the_later_counts(gateway: Gateway) -> None:
    """Where an older gateway let a caller append a claim that was none, the later of one epoch is shown."""
    gateway.bring("claimed")
    gateway.add_event("m1", "hello")
    gateway.execute(f"UPDATE {EVENTS.name} SET kind = 'authority.claimed' WHERE event_id = 'm1'")
    assert gateway.state()["authority_claim"]["event_id"] == "m1"


def test_members_are_answered_as_stored(gateway: Gateway) -> None:
    """Whatever the order of the caller's keys, members are answered as their stored JSON says, at once and later."""
    members = [{"b": (1, 2), "a": "\N{SNOWMAN}", "c": None, "d": {"y": 1.5, "x": True}}]
    view = gateway.create(members=members)
    assert view["members"] == [{"a": "\N{SNOWMAN}", "b": [1, 2], "c": None, "d": {"x": True, "y": 1.5}}]
    assert gateway.state()["members"] == view["members"]
    assert gateway.stored()["members_json"] == '[{"a":"☃","b":[1,2],"c":null,"d":{"x":true,"y":1.5}}]'


def test_the_order_of_keys_does_not_matter_to_a_retry(gateway: Gateway) -> None:
    """The same members in another order of keys are an exact retry; in another order of members they are not."""
    gateway.create(members=[{"id": "ann", "role": "x"}, {"id": "bob"}])
    assert gateway.create(members=[{"role": "x", "id": "ann"}, {"id": "bob"}])["idempotent"] is True
    with gateway.refuses(RoomConflictError):
        gateway.create(members=[{"id": "bob"}, {"id": "ann", "role": "x"}])


def test_texts_are_stripped(gateway: Gateway) -> None:
    """White space around ids and names is not part of them."""
    gateway.create(" room\n", name="  Room\t", authority_gateway_id=" gw ")
    assert gateway.create()["idempotent"] is True
    answer = gateway.claim(" e1 ", " room ", expected_gateway_id=" gw ", new_gateway_id=" gw2 ")
    assert answer["claim_event"]["event_id"] == "e1"
    assert gateway.claim()["idempotent"] is True
    assert gateway.disband(" room ", " gw2 ", 2)["idempotent"] is False


def test_a_given_instant_counts(gateway: Gateway) -> None:
    """Where the caller gives an instant, it is stored, and not the clock's; an integer is stored as seconds too."""
    assert gateway.create(now=12)["created_at"] == 12.0
    assert isinstance(gateway.stored()["created_at"], float)
    assert gateway.claim(now=13.5)["claim_event"]["created_at"] == 13.5
    assert gateway.disband("room", "gw2", 2, now=14)["disbanded_at"] == 14.0


def test_updated_at_never_goes_back(gateway: Gateway) -> None:
    """A clock that was set back leaves `updated_at` where it was, in every call that writes the room."""
    gateway.create()
    gateway.clock.advance(-100)
    assert gateway.claim()["updated_at"] == START
    gateway.make_legacy()
    assert gateway.create(authority_gateway_id="gw3")["updated_at"] == START
    assert gateway.disband("room", "gw3", 3)["disbanded_at"] == START - 100
    row = gateway.stored()
    assert (row["created_at"], row["updated_at"], row["disbanded_at"]) == (START, START, START - 100)


def test_a_call_reads_the_clock_once_at_most(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that writes reads the clock once, and one that reads or is given an instant not at all."""
    gateway = Gateway(db, ManualClock())
    readings: list[float] = []

    def read() -> float:
        readings.append(START)
        return START

    monkeypatch.setattr(db, "clock", read)
    gateway.create()
    gateway.claim()
    gateway.disband("room", "gw2", 2)
    gateway.prune()
    assert len(readings) == 4
    gateway.state(closed_too=True)
    gateway.create("other", now=1.0)
    gateway.prune(now=1.0)
    assert len(readings) == 4


def test_a_path_names_the_same_database(gateway: Gateway) -> None:
    """Where the handle's path is passed instead of the handle, the same rooms are found."""
    gateway.create()
    view = rooms.room_state(gateway.db.location, room_id="room")
    assert view == gateway.state()


def test_the_state_is_one_snapshot(gateway: Gateway) -> None:
    """While the authority moves on and on, a room's state always shows the claim that belongs to its epoch."""
    gateway.create()
    turns = 150

    def move() -> None:
        for epoch in range(1, turns + 1):
            gateway.claim_from("gw", epoch, "gw", f"e{epoch}")

    mover = threading.Thread(target=move)
    mover.start()
    while mover.is_alive():
        view = gateway.state()
        if view["authority_epoch"] > 1:
            assert view["authority_claim"]["authority_epoch"] == view["authority_epoch"]
            assert view["latest_seq"] == view["authority_claim"]["seq"] == view["authority_epoch"] - 1
    mover.join()
    assert gateway.state()["authority_epoch"] == turns + 1


def test_of_rival_claims_one_wins(gateway: Gateway) -> None:
    """Of eight claims of one epoch, each under an event id of its own, one moves the room and seven are refused."""
    gateway.create()
    answers: list[object] = []
    barrier = threading.Barrier(8)

    def rival(number: int) -> None:
        barrier.wait()
        try:
            answers.append(gateway.claim_from("gw", 1, f"gw-{number}", f"e{number}")["authority_gateway_id"])
        except AuthorityConflictError as refusal:
            answers.append(type(refusal))

    threads = [threading.Thread(target=rival, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(AuthorityConflictError) == 7
    assert gateway.state()["authority_gateway_id"] in answers
    assert len(gateway.events()) == 1


def test_rivals_create_one_room(gateway: Gateway) -> None:
    """Of eight equal creations at once, one makes the room and seven are its exact retries."""
    answers: list[bool] = []
    barrier = threading.Barrier(8)

    def rival() -> None:
        barrier.wait()
        answers.append(gateway.create()["idempotent"])

    threads = [threading.Thread(target=rival) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] + [True] * 7


UNREADABLE = ["{", "", "NaN", "[1e999]", "[" * 100_000]


@pytest.mark.parametrize("stored", UNREADABLE, ids=["cut", "empty", "nan", "infinite", "deep"])
def test_a_room_with_unreadable_members(gateway: Gateway, stored: str) -> None:
    """Members that do not decode are refused where they would be shown, and the room can still be disbanded."""
    gateway.create()
    gateway.alter(members_json=stored)
    with gateway.refuses(HostedRoomError):
        gateway.state()
    with gateway.refuses(HostedRoomError):
        gateway.claim()
    with gateway.refuses(RoomConflictError):
        gateway.create()
    assert gateway.disband()["idempotent"] is False
    with gateway.refuses(HostedRoomError):
        gateway.state(closed_too=True)


def test_an_unreadable_room_does_not_stop_others(gateway: Gateway) -> None:
    """One room with members that do not decode leaves every other room as usable as before, and is itself pruned."""
    gateway.create("broken")
    gateway.create()
    gateway.alter("broken", members_json="{")
    gateway.disband("broken")
    gateway.disband()
    assert gateway.prune(START + 1e9) == 2
    assert gateway.execute(f"SELECT * FROM {ROOMS.name}") == []
