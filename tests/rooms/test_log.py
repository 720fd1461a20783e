"""The event log: what is stored, what an exact retry gets, and what conflicts."""

import hashlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fsm import rooms
from fsm.lifecycles.tables import EVENTS
from fsm.rooms import (
    AuthorityConflictError,
    EventConflictError,
    HostedRoomError,
    RoomHistoryExpiredError,
    RoomNotFoundError,
)
from storage import Database, Transaction
from tests.rooms.support import RETENTION, Gateway, check_books, size_of
from tests.world import START


@pytest.fixture
def room(gateway: Gateway) -> Gateway:
    """A gateway with the live room `room`."""
    gateway.create()
    return gateway


def test_an_event_is_stored_under_the_next_number(room: Gateway) -> None:
    """The view is the stored event: its number, content, authority's epoch and instant."""
    room.append("m1", "hello")
    room.clock.advance(5)
    view = room.append("m2", "h\N{LATIN SMALL LETTER E WITH ACUTE}llo")
    assert view == {
        "room_id": "room",
        "seq": 2,
        "event_id": "m2",
        "kind": "message.user",
        "actor": {"kind": "user", "id": "ann"},
        "authority_epoch": 1,
        "payload": {"text": "h\N{LATIN SMALL LETTER E WITH ACUTE}llo"},
        "created_at": START + 5,
        "idempotent": False,
    }
    stored = room.events()[1]
    assert stored["payload_json"] == '{"text":"h\N{LATIN SMALL LETTER E WITH ACUTE}llo"}'
    assert stored["actor_json"] == '{"id":"ann","kind":"user"}'
    check_books(room, "room")


def test_an_append_moves_the_log_and_not_the_rooms_revision(room: Gateway) -> None:
    """The next number, the bytes and `updated_at` move; name, authority and revision stay."""
    before = room.stored()
    room.clock.advance(5)
    room.append()
    changed = {name: value for name, value in room.stored().items() if value != before[name]}
    assert changed == {"next_seq": 2, "event_bytes": size_of(room.events()[0]), "updated_at": START + 5}


def test_a_clock_that_steps_back_takes_no_room_back(room: Gateway) -> None:
    """`updated_at` never goes back: the event bears its own instant, the room the latest."""
    room.append("m1", now=START + 10)
    room.append("m2", now=START - 10)
    room.rename(now=START - 20)
    room.clock.advance(-30)
    room.stop()
    assert room.stored()["updated_at"] == START + 10
    assert [event["created_at"] for event in room.events()] == [START + 10, START - 10, START - 20, START - 30]


def test_an_exact_retry_changes_nothing(room: Gateway) -> None:
    """The same content under the same id is answered with what is stored, however its keys are ordered."""
    first = room.append(
        "m1", payload={"a": 1, "b": [True, None]}, actor={"id": " ann ", "kind": "user", "profile": " "}
    )
    room.clock.advance(5)
    before = room.everything()
    again = room.append("m1", payload={"b": [True, None], "a": 1}, actor={"kind": "user", "id": "ann", "profile": None})
    assert again == {**first, "idempotent": True}
    assert room.everything() == before


CONFLICTS: dict[str, dict[str, Any]] = {
    "kind": {"kind": "message.member", "actor": {"kind": "member", "id": "ann"}},
    "actor": {"actor": {"kind": "user", "id": "bob"}},
    "label": {"actor": {"kind": "user", "id": "ann", "display_name": "Ann"}},
    "epoch": {"authority_epoch": 2},
    "payload": {"payload": {"text": "hello "}},
    "number": {"payload": {"text": "hello", "n": 1}},
}


@pytest.mark.parametrize("changes", CONFLICTS.values(), ids=CONFLICTS)
def test_another_content_under_a_taken_id_conflicts(room: Gateway, changes: dict[str, Any]) -> None:
    """Whichever part differs, the retry is refused and nothing changes; which gateway asks is no part of an event."""
    room.append()
    with room.refuses(EventConflictError):
        room.append(**changes)
    assert room.append(authority_gateway_id="gw9")["idempotent"] is True


def test_numbers_that_only_look_alike_conflict(room: Gateway) -> None:
    """1, 1.0 and true are three contents, and so are -0.0 and 0."""
    contents: list[Any] = [1, 1.0, True, 0, -0.0, "1", None]
    for number, content in enumerate(contents):
        room.append(f"m{number}", payload={"x": content})
        for other in contents:
            if repr(other) != repr(content):
                with room.refuses(EventConflictError):
                    room.append(f"m{number}", payload={"x": other})


Call = Callable[[Gateway], Any]
WRITES: dict[str, Call] = {"append": Gateway.append, "stop": Gateway.stop, "rename": Gateway.rename}
AGES: dict[str, tuple[Callable[[Gateway], object], dict[str, str]]] = {
    "claimed since": (Gateway.claim, {}),
    "disbanded since": (Gateway.disband, {"rename": "RoomNotFoundError"}),
    "retired since": (
        lambda gateway: (gateway.disband(), gateway.prune(START + RETENTION)),
        dict.fromkeys(WRITES, "RoomHistoryExpiredError"),
    ),
}


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("name", WRITES)
def test_a_retry_after_everything_moved_on(room: Gateway, name: str, age: str) -> None:
    """What is stored is answered as long as it is: by the old authority, and of an event also in a closed room."""
    call, (pass_on, refused) = WRITES[name], AGES[age]
    first = call(room)
    pass_on(room)
    if name in refused:
        with room.refuses(getattr(rooms, refused[name])):
            call(room)
        return
    before = room.everything()
    again = call(room)
    assert again["idempotent"] is True
    assert again.get("event", again)["seq"] == first.get("event", first)["seq"] == 1
    assert room.everything() == before


def test_a_stale_gateway_appends_nothing(room: Gateway) -> None:
    """After a claim the old gateway and the old epoch are refused, each alone and together, and the new one goes on."""
    room.claim()
    for gateway, epoch in (("gw", 1), ("gw", 2), ("gw2", 1), ("gw2", 3)):
        with room.refuses(AuthorityConflictError):
            room.append_by(gateway, epoch, "m1")
        with room.refuses(AuthorityConflictError):
            room.stop("c1", gateway, epoch)
    assert room.append_by("gw2", 2, "m1")["seq"] == 2


def test_an_event_id_is_a_rooms_own(gateway: Gateway) -> None:
    """The same id in two rooms is two events, each with its own room's number."""
    for room in ("a", "b"):
        gateway.create(room)
    gateway.append("x1", room="a")
    assert [gateway.append("m1", room, room)["seq"] for room in ("a", "b")] == [2, 1]


# --- stop requests


def test_a_stop_request_is_an_event_of_the_gateway(room: Gateway) -> None:
    """Its id is made of the cancel id, so that no caller's own event can take it."""
    view = room.stop("cancel-1")
    digest = hashlib.sha256(b"cancel-1").hexdigest()
    assert view["event_id"] == f"room-stop:{digest[:32]}"
    assert (view["kind"], view["actor"]) == ("room.stop_requested", {"kind": "gateway", "id": "gw"})
    assert (view["payload"], view["seq"], view["idempotent"]) == ({"cancel_id": "cancel-1"}, 1, False)
    assert room.stop("cancel-1") == {**view, "idempotent": True}
    assert room.stop(" cancel-1 ")["idempotent"] is True
    assert room.stop("cancel-2")["seq"] == 2


def test_a_stop_request_at_another_epoch_is_another_request(room: Gateway) -> None:
    """A cancel id that was used under the old authority conflicts under the new one."""
    room.stop()
    room.claim()
    with room.refuses(EventConflictError):
        room.stop("c1", "gw2", 2)
    assert room.stop("c2", "gw2", 2)["authority_epoch"] == 2


# --- renaming


def test_a_renaming_changes_name_and_revision_and_logs_both(room: Gateway) -> None:
    """The view is the room as it is now with its renaming's event, which bears the room's epoch."""
    room.claim()
    room.clock.advance(5)
    view = room.rename("  New \N{SNOWMAN} ", "r1")
    assert (view["name"], view["revision"], view["latest_seq"], view["updated_at"]) == (
        "New \N{SNOWMAN}",
        3,
        2,
        START + 5,
    )
    assert view["event"] == {
        "room_id": "room",
        "seq": 2,
        "event_id": "r1",
        "kind": "room.renamed",
        "actor": {"kind": "system", "id": "room-control"},
        "authority_epoch": 2,
        "payload": {"name": "New \N{SNOWMAN}"},
        "created_at": START + 5,
        "idempotent": False,
    }
    state: dict[str, Any] = {**room.state()}
    assert {**view, "authority_claim": state["authority_claim"]} == {**state, "event": view["event"]}
    check_books(room, "room")


def test_a_renaming_sent_again_does_not_undo_a_later_one(room: Gateway) -> None:
    """The retry is answered with the room of today and the event of then."""
    room.rename("First", "r1")
    room.rename("Second", "r2")
    before = room.everything()
    again = room.rename("First", "r1")
    assert (again["name"], again["idempotent"]) == ("Second", True)
    assert (again["event"]["payload"], again["event"]["idempotent"]) == ({"name": "First"}, True)
    assert room.everything() == before


def test_a_renaming_under_a_taken_id_conflicts(room: Gateway) -> None:
    """Another name, and an event of another kind: both refused."""
    room.rename("First", "r1")
    room.append("m1", payload={"name": "First"})
    for event_id, name in (("r1", "Second"), ("m1", "First")):
        with room.refuses(EventConflictError):
            room.rename(name, event_id)


def test_a_renaming_after_a_claim_is_still_the_same(room: Gateway) -> None:
    """A renaming's retry is judged by its name alone: the room's epoch may have moved on."""
    room.rename("First", "r1")
    room.claim()
    assert room.rename("First", "r1")["event"]["authority_epoch"] == 1


def test_an_event_of_a_caller_is_no_renaming(room: Gateway) -> None:
    """An event that looks like one, stored past the library by an old caller, is taken for what it says it is."""
    room.rename("First", "r1")
    room.execute(f"UPDATE {EVENTS.name} SET kind = 'message.user' WHERE event_id = 'r1'")
    with room.refuses(EventConflictError):
        room.rename("First", "r1")


# --- user event ids


def test_a_clients_key_becomes_an_event_id() -> None:
    """The same key is the same id, in a name space of its own, however a client spells its keys."""
    digest = hashlib.sha256(b"key-1").hexdigest()
    assert rooms.user_event_id("key-1") == rooms.user_event_id(" key-1 ") == f"user:{digest}"
    assert rooms.user_event_id("system:x") != rooms.user_event_id("system:y")
    assert len(rooms.user_event_id("k" * 128)) <= rooms.MAX_EVENT_ID_CHARS


def test_a_clients_key_can_be_appended(room: Gateway) -> None:
    """The made id is one that append takes, also where the key itself would be refused."""
    made = rooms.user_event_id("system:x")
    assert room.append(made)["event_id"] == made
    with pytest.raises(HostedRoomError):
        room.append("system:x")


# --- reading


def test_a_page_is_a_part_of_the_log(room: Gateway) -> None:
    """Events after the cursor, in order, with where the log ends and who owns the room."""
    for number in range(1, 6):
        room.append(f"m{number}", f"text {number}")
    page = room.read(1, 3)
    assert [event["seq"] for event in page["events"]] == [2, 3, 4]
    assert [event["payload"] for event in page["events"]] == [{"text": f"text {number}"} for number in (2, 3, 4)]
    assert {key: value for key, value in page.items() if key != "events"} == {
        "cursor": 4,
        "latest_seq": 5,
        "has_more": True,
        "authority": {"gateway_id": "gw", "epoch": 1},
    }
    assert (room.read(4)["has_more"], room.read(4)["cursor"]) == (False, 5)


def test_a_reader_at_the_end_gets_an_empty_page(room: Gateway) -> None:
    """Nothing new is no error; a cursor ahead of the log is one, for it was never given out."""
    assert room.read()["events"] == []
    room.append()
    at_end = room.read(1)
    assert (at_end["events"], at_end["cursor"], at_end["has_more"]) == ([], 1, False)
    with room.refuses(HostedRoomError):
        room.read(2)


def test_a_page_has_100_events_unless_told_otherwise(room: Gateway, db: Database) -> None:
    """The limit is 100 where none is given, and at most 500."""
    for number in range(101):
        room.append(f"m{number}")
    page = rooms.read_events(db, room_id="room")
    assert (len(page["events"]), page["cursor"], page["has_more"]) == (100, 100, True)
    assert len(room.read(0, 500)["events"]) == 101


def test_a_closed_rooms_log_is_read_on_request(room: Gateway) -> None:
    """A disbanded room's log is there for those who ask for it, a retired one's for nobody."""
    room.append()
    room.disband()
    with room.refuses(RoomNotFoundError):
        room.read()
    assert [event["kind"] for event in room.read(closed_too=True)["events"]] == ["message.user", "room.disbanded"]
    room.prune(START + RETENTION)
    for closed_too in (False, True):
        with room.refuses(RoomHistoryExpiredError):
            room.read(closed_too=closed_too)


def test_a_damaged_event_hides_no_other(room: Gateway) -> None:
    """It is listed with its number and what is wrong with it, and a reader gets past it."""
    for number in range(3):
        room.append(f"m{number}")
    room.execute(f"UPDATE {EVENTS.name} SET payload_json = '{{' WHERE seq = 2")
    page = room.read()
    assert [event["seq"] for event in page["events"]] == [1, 2, 3]
    assert [event["payload"] for event in page["events"]] == [{"text": "hello"}, None, {"text": "hello"}]
    assert ["corrupt" in event for event in page["events"]] == [False, True, False]


@pytest.mark.parametrize("read", [Gateway.read, Gateway.state], ids=["read_events", "room_state"])
def test_a_reader_sees_one_instant(room: Gateway, monkeypatch: pytest.MonkeyPatch, read: Call) -> None:
    """What another handle commits between the statements of a read is not half in its answer: it reads one snapshot."""
    room.append()
    snapshots, reader = [], threading.current_thread()
    original = type(room.db).read

    def meanwhile() -> None:
        room.append("late")
        room.claim("e9")

    def reading(db: Database, body: Callable[[Transaction], Any]) -> Any:
        def interrupted(tx: Transaction) -> Any:
            tx.execute(f"SELECT COUNT(*) AS events FROM {EVENTS.name}")
            snapshots.append(tx)
            writer = threading.Thread(target=meanwhile)
            writer.start()
            writer.join()
            return body(tx)

        return original(db, interrupted if threading.current_thread() is reader else body)

    monkeypatch.setattr(type(room.db), "read", reading)
    answer = read(room)
    monkeypatch.undo()
    assert (len(snapshots), answer["latest_seq"]) == (1, 1)
    assert answer.get("authority", {"epoch": answer.get("authority_epoch")})["epoch"] == 1
    assert "authority_claim" not in answer
    assert len(answer.get("events", [1])) == 1
    assert room.state()["latest_seq"] == 3
