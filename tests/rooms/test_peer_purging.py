"""What of a room's links to other gateways goes with it, and what outlives it."""

import pytest

import fsm
from fsm.lifecycles.tables import LINKS, PEER_RESERVATIONS, REMOTE_RUNS, REVOKED_GRANTS
from tests.rooms.peers import Peers, scope
from tests.rooms.support import RETENTION, Gateway
from tests.world import START

OF_THE_ROOM = (LINKS.name, PEER_RESERVATIONS.name, REMOTE_RUNS.name)


def _fill(gateway: Gateway, peers: Peers, lasting: float) -> None:
    """Give two rooms a link, a receipt, a revoked grant, and reservations of two members, one of them revoked."""
    for room in ("going", "staying"):
        gateway.create(room)
        peers.put(room_id=room)
        peers.bind(room_id=room)
        peers.reserve(lasting, room_id=room)
        peers.reserve(lasting, room_id=room, member_id="bob")
        peers.revoke(lasting, room_id=room, member_id="bob")


def _rooms_in(gateway: Gateway, table: str) -> set[str]:
    return {str(row["room_id"]) for row in gateway.execute(f"SELECT room_id FROM {table}")}


@pytest.mark.parametrize("lasting", [1.0, 10 * RETENTION], ids=["expired by then", "live by then"])
def test_links_reservations_and_receipts_go(gateway: Gateway, peers: Peers, lasting: float) -> None:
    """Pruning a room deletes its links, its receipts and its reservations in whatever state; another keeps its own."""
    _fill(gateway, peers, lasting)
    gateway.disband("going")
    before = {table: _rooms_in(gateway, table) for table in OF_THE_ROOM}
    assert before == {key: {"going", "staying"} for key in OF_THE_ROOM}
    assert gateway.prune(START + RETENTION) == 1
    after = {table: _rooms_in(gateway, table) for table in OF_THE_ROOM}
    assert after == {key: {"staying"} for key in OF_THE_ROOM}


def test_observers_hear_of_purged_reservations(gateway: Gateway, peers: Peers) -> None:
    """A reservation that goes with its room is told as purged, from the state that it was in."""
    _fill(gateway, peers, 10 * RETENTION)
    gateway.disband("going")
    heard: list[fsm.Transition] = []
    fsm.observe(gateway.db, heard.append)
    gateway.prune(START + RETENTION)
    told = {(each.source, each.dest, each.key["room_id"]) for each in heard if each.lifecycle == "peer_reservation"}
    assert told == {("live", "gone", "going"), ("revoked", "gone", "going")}


def test_a_revoked_grant_outlives_its_room(gateway: Gateway, peers: Peers) -> None:
    """A grant that was taken back stays so though the room is gone: whoever holds it may still show it."""
    _fill(gateway, peers, 10 * RETENTION)
    grants = gateway.everything()[REVOKED_GRANTS.name]
    gateway.disband("going")
    assert gateway.prune(START + RETENTION) == 1
    assert gateway.everything()[REVOKED_GRANTS.name] == grants
    peers.clock.advance(RETENTION)
    assert peers.revoked(START, room_id="going", member_id="bob")


def test_a_disbanding_prunes_them_too(gateway: Gateway, peers: Peers) -> None:
    """A room that another one's disbanding prunes takes them along."""
    _fill(gateway, peers, 10 * RETENTION)
    gateway.disband("going")
    gateway.disband("staying", now=START + RETENTION)
    assert {table: _rooms_in(gateway, table) for table in OF_THE_ROOM} == {key: {"staying"} for key in OF_THE_ROOM}


def test_disbanding_itself_keeps_them(gateway: Gateway, peers: Peers) -> None:
    """Until it is pruned, a disbanded room keeps them, and its profile stays reserved."""
    _fill(gateway, peers, 10 * RETENTION)
    before = {table: gateway.everything()[table] for table in OF_THE_ROOM}
    gateway.disband("going")
    assert {table: gateway.everything()[table] for table in OF_THE_ROOM} == before
    assert peers.current(**{**scope(), "room_id": "going"})
