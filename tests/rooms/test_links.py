"""Room links: stored whole, replaced whole, counted, and deleted with their room."""

from types import MappingProxyType
from typing import Any

import pytest

from fsm import rooms
from fsm.lifecycles.tables import LINKS
from fsm.rooms import HostedRoomError
from tests.rooms.peers import Peers, link
from tests.world import START


def test_a_link_is_listed_as_it_was_stored(peers: Peers) -> None:
    """Every field of the record comes back as it was, the grant included, and further ones are ignored."""
    peers.put(target_url=" https://x ", trace_id="é漢🌍", updated_at=7, colour="red")
    assert peers.links() == [link(target_url=" https://x ", trace_id="é漢🌍", updated_at=7.0)]


def test_any_mapping_is_a_record(peers: Peers) -> None:
    """A record is read by its keys, whatever mapping it is."""
    rooms.upsert_room_link_record(peers.db, record=MappingProxyType(link()), max_links=1)
    assert peers.links() == [link()]


def test_links_are_listed_by_room_and_member(peers: Peers) -> None:
    """The order is that of their ids, not that in which they were stored."""
    for room, member in (("b", "x"), ("a", "y"), ("b", "a"), ("a", "b")):
        peers.put(room_id=room, member_id=member)
    assert [(each["room_id"], each["member_id"]) for each in peers.links()] == [
        ("a", "b"),
        ("a", "y"),
        ("b", "a"),
        ("b", "x"),
    ]


def test_a_second_record_replaces_the_first_whole(peers: Peers) -> None:
    """Every field but the key is the new one's, and the lost call can be made again."""
    kept = {"room_id", "member_id", "target_profile", "updated_at"}
    new: dict[str, Any] = {name: f"new {name}" for name in link() if name not in kept}
    new |= {"target_profile": "other", "updated_at": 0.5}
    peers.put()
    for _ in range(2):
        peers.put(**new)
        assert peers.links() == [link(**new)]


def test_one_link_too_many(peers: Peers) -> None:
    """A new link must find fewer than `max_links`; replacing one needs no room, even beyond the limit."""
    peers.put(2)
    peers.put(2, member_id="bob")
    with peers.refuses(HostedRoomError):
        peers.put(2, member_id="cy")
    with peers.refuses(HostedRoomError):
        peers.put(0, room_id="attic")
    peers.put(0, status="stale")
    assert [each["status"] for each in peers.links()] == ["stale", "ready"]
    peers.put(3, member_id="cy")


def test_a_status_is_noted(peers: Peers) -> None:
    """Status and instant of the one link change, nothing else; without that link nothing happens, and False says so."""
    peers.put()
    peers.put(member_id="bob")
    told = rooms.update_room_link_status(peers.db, room_id=" room ", member_id="ann", status="unreachable")
    assert told is True
    assert peers.links() == [link(status="unreachable", updated_at=START), link(member_id="bob")]
    for room, member in (("room", "cy"), ("attic", "ann")):
        before = peers.everything()
        assert rooms.update_room_link_status(peers.db, room_id=room, member_id=member, status="x") is False
        assert peers.everything() == before


def test_a_status_is_noted_at_the_given_instant(peers: Peers) -> None:
    """Where `now` is given the clock is not asked."""
    peers.put()
    rooms.update_room_link_status(peers.db, room_id="room", member_id="ann", status="x", now=3)
    assert peers.links()[0]["updated_at"] == 3.0


def test_the_links_of_a_room_are_deleted(peers: Peers) -> None:
    """All of the room's links go, others stay; the count says how many, and a second call finds none."""
    for room, member in (("room", "ann"), ("room", "bob"), ("attic", "ann")):
        peers.put(room_id=room, member_id=member)
    assert rooms.delete_room_link_records(peers.db, room_id=" room ") == 2
    assert peers.links() == [link(room_id="attic")]
    assert rooms.delete_room_link_records(peers.db, room_id="room") == 0


def test_a_link_stored_past_the_library_is_ready(peers: Peers) -> None:
    """Where a gateway stores no status, the column says `ready`, as it always did."""
    columns = [name for name in link() if name != "status"]
    listed, values = ", ".join(f'"{name}"' for name in columns), ", ".join(f":{name}" for name in columns)
    peers.db.write(lambda tx: tx.execute(f"INSERT INTO {LINKS.name} ({listed}) VALUES ({values})", link()))
    assert peers.links() == [link()]


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "x" * 1024},
        {"trace_id": "🌍" * 1024},
        {"grant": "x" * (256 * 1024)},
        {"catalog_json": "é" * (128 * 1024)},
        {"updated_at": -1},
        {"member_id": "x" * 128},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_just_within_the_limits(peers: Peers, changes: dict[str, Any]) -> None:
    """Every limit is the last value that is taken."""
    peers.put(**changes)
    assert peers.links() == [link(**changes)]


def test_a_refusal_does_not_show_a_grant(peers: Peers) -> None:
    """Whatever is wrong with a record, its secrets are not repeated."""
    wrong: list[dict[str, Any]] = [{"status": ""}, {"grant": "s3cret.grant\0"}, {"grant": "s3cret.grant" * 90_000}]
    for changes in wrong:
        with pytest.raises(HostedRoomError) as refusal:
            peers.put(**changes)
        assert "s3cret" not in str(refusal.value)
