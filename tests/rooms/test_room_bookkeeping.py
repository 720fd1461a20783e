"""The stored events of a room, and the numbers by which its row accounts for them."""

import pytest

from fsm.lifecycles.tables import EVENTS, ROOMS
from fsm.rooms import EventConflictError
from tests.rooms.support import Gateway, check_books, size_of
from tests.world import START


def test_a_creation_stores_no_event(gateway: Gateway) -> None:
    """A new room has no event; its first one will have number 1."""
    gateway.create()
    row = gateway.stored()
    assert (row["next_seq"], row["event_bytes"], row["revision"]) == (1, 0, 1)
    assert gateway.events() == []


def test_the_event_of_a_claim(gateway: Gateway) -> None:
    """A claim stores who had the room, who has it and its new epoch, under the caller's event id."""
    gateway.create()
    gateway.clock.advance(5)
    gateway.claim()
    assert gateway.events() == [
        {
            "room_id": "room",
            "seq": 1,
            "event_id": "e1",
            "kind": "authority.claimed",
            "actor_json": '{"id":"authority-control","kind":"system"}',
            "authority_epoch": 2,
            "payload_json": '{"authority_epoch":2,"authority_gateway_id":"gw2","previous_gateway_id":"gw"}',
            "created_at": START + 5,
        }
    ]
    row = gateway.stored()
    # 2 of e1, 17 of the kind, 42 of the actor, 77 of the payload
    assert (row["next_seq"], row["event_bytes"], row["revision"]) == (2, 2 + 17 + 42 + 77, 2)


def test_the_event_of_an_adoption(gateway: Gateway) -> None:
    """An adoption stores a claim that took the room from `legacy`, under the module's own event id."""
    gateway.bring("legacy")
    gateway.clock.advance(5)
    gateway.create()
    (event,) = gateway.events()
    assert event == {
        "room_id": "room",
        "seq": 1,
        "event_id": "system:authority-adopted",
        "kind": "authority.claimed",
        "actor_json": '{"id":"authority-control","kind":"system"}',
        "authority_epoch": 2,
        "payload_json": '{"authority_epoch":2,"authority_gateway_id":"gw","previous_gateway_id":"legacy"}',
        "created_at": START + 5,
    }
    assert gateway.stored()["event_bytes"] == size_of(event) == 24 + 17 + 42 + 80


def test_the_event_of_a_disbanding(gateway: Gateway) -> None:
    """A disbanding stores the room's id, at the epoch that ends, under the module's own event id."""
    gateway.bring("claimed")
    gateway.clock.advance(5)
    gateway.disband("room", "gw2", 2)
    assert gateway.events()[1] == {
        "room_id": "room",
        "seq": 2,
        "event_id": "system:room-disbanded",
        "kind": "room.disbanded",
        "actor_json": '{"id":"room-control","kind":"system"}',
        "authority_epoch": 2,
        "payload_json": '{"room_id":"room"}',
        "created_at": START + 5,
    }
    assert gateway.retired() == {"room": START + 5}
    check_books(gateway, "room")


def test_every_change_counts_one_revision(gateway: Gateway) -> None:
    """Each change of a room adds one to its revision, its epoch only where the authority moves, its log one event."""
    gateway.create()
    seen = [gateway.stored()]
    for epoch in (1, 2, 3):
        gateway.claim_from("gw", epoch, "gw", f"e{epoch}")
        seen.append(gateway.stored())
    gateway.disband("room", "gw", 4)
    seen.append(gateway.stored())
    assert [row["revision"] for row in seen] == [1, 2, 3, 4, 5]
    assert [row["authority_epoch"] for row in seen] == [1, 2, 3, 4, 4]
    assert [row["next_seq"] for row in seen] == [1, 2, 3, 4, 5]
    check_books(gateway, "room")


@pytest.mark.parametrize("text", ["plain", "é", "漢字かな", "🌍🌍", "e\N{COMBINING ACUTE ACCENT}", "مرحبا"])
def test_bytes_are_those_of_utf8(gateway: Gateway, text: str) -> None:
    """Next to events in any script a room counts the UTF-8 bytes that are stored."""
    gateway.create(name=text, members=[{"label": text}])
    gateway.add_event("m1", text)
    gateway.claim()
    gateway.add_event("m2", text * 3)
    gateway.disband("room", "gw2", 2)
    texts = ("event_id", "kind", "actor_json", "payload_json")
    events = gateway.execute(f"SELECT {', '.join(texts)} FROM {EVENTS.name}")
    total = sum(len(str(event[column]).encode()) for event in events for column in texts)
    assert gateway.stored()["event_bytes"] == total
    check_books(gateway, "room")


def test_the_longest_ids(gateway: Gateway) -> None:
    """Ids of 128 characters are stored whole and counted whole."""
    long = {name: name[0] * 128 for name in ("room", "event", "gateway", "home")}
    gateway.create(long["room"], authority_gateway_id=long["home"])
    gateway.claim_from(long["home"], 1, long["gateway"], long["event"], long["room"])
    gateway.disband(long["room"], long["gateway"], 2)
    assert [event["event_id"] for event in gateway.events(long["room"])] == [long["event"], "system:room-disbanded"]
    check_books(gateway, long["room"])


def test_rooms_keep_books_of_their_own(gateway: Gateway) -> None:
    """The same event id in two rooms is two events, each with its own room's number."""
    gateway.create("a")
    gateway.create("b")
    gateway.claim("e1", "a")
    gateway.claim("e1", "b")
    assert [event["seq"] for room in "ab" for event in gateway.events(room)] == [1, 1]
    check_books(gateway, "a")
    check_books(gateway, "b")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "message.user"),
        ("actor_json", '{"id":"ann","kind":"user"}'),
        ("authority_epoch", 3),
        ("authority_epoch", None),
        ("payload_json", '{"authority_epoch":2,"authority_gateway_id":"gw3","previous_gateway_id":"gw"}'),
        ("payload_json", '{"previous_gateway_id":"gw","authority_gateway_id":"gw2","authority_epoch":2}'),
    ],
)
def test_a_claim_under_an_id_with_other_content(gateway: Gateway, column: str, value: object) -> None:
    """A claim whose event id is bound to other content, in whichever part, is refused and not taken for a retry."""
    gateway.bring("claimed")
    gateway.execute(f"UPDATE {EVENTS.name} SET {column} = :value", value=value)
    with gateway.refuses(EventConflictError):
        gateway.claim()


def test_an_old_callers_event_under_an_own_id(gateway: Gateway) -> None:
    """Where an older gateway let a caller take the id of the module's own event, the refusal names the conflict."""
    gateway.create()
    gateway.add_event("system:room-disbanded", "hello")
    with gateway.refuses(EventConflictError):
        gateway.disband()


def test_a_second_adoption(gateway: Gateway) -> None:
    """A room that was adopted, and given away to `legacy` again, is refused with a typed error, not a raw one."""
    gateway.bring("legacy")
    gateway.create()
    gateway.claim_from("gw", 2, "legacy", "e1")
    with gateway.refuses(EventConflictError):
        gateway.create()


def test_a_number_that_is_taken(gateway: Gateway) -> None:
    """Where damage left an event under the next number, nothing is overwritten and the refusal is typed."""
    gateway.create()
    gateway.add_event("m1", "hello")
    gateway.execute(f"UPDATE {ROOMS.name} SET next_seq = 1")
    with gateway.refuses(EventConflictError):
        gateway.claim()
