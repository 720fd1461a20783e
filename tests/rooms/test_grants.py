"""Revoked grants: by exact scope and time of issue, and never less than was revoked before."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import rooms
from tests.engines import Engine
from tests.rooms.peers import HOUR, Peers, scope
from tests.world import START, ManualClock

OTHERS: dict[str, Any] = {
    "room_id": "attic",
    "member_id": "bob",
    "target_profile": "other",
    "authority_gateway_id": "gw9",
    "authority_epoch": 3,
    "home_install_id": "install:other",
    "target_install_id": "install:other",
}


@pytest.mark.parametrize(("issued", "answer"), [(-1.0, True), (0.0, True), (0.001, False), (HOUR, False)])
def test_a_grant_is_revoked_by_its_time_of_issue(peers: Peers, issued: float, answer: bool) -> None:
    """What was issued at or before the revocation is revoked, what came after it is not."""
    peers.revoke()
    assert peers.revoked(START + issued) is answer


@pytest.mark.parametrize("claims", [{}, {"issued_at": None}, {"issued_at": 0}, {"issued_at": -5}])
def test_a_grant_that_does_not_say_when_is_revoked(peers: Peers, claims: dict[str, Any]) -> None:
    """A claim without its time of issue is as old as can be."""
    assert not rooms.room_grant_is_revoked(peers.db, claims={**scope(), **claims})
    peers.revoke()
    assert rooms.room_grant_is_revoked(peers.db, claims={**scope(), **claims})


@pytest.mark.parametrize("name", OTHERS)
def test_only_the_exact_scope_is_revoked(peers: Peers, name: str) -> None:
    """A grant that differs in any one of the seven parts of its scope goes on counting."""
    peers.revoke()
    assert peers.revoked()
    assert not peers.revoked(**{name: OTHERS[name]})


def test_a_revocation_counts_until_its_grants_expire(peers: Peers) -> None:
    """From the instant at which no such grant counts anyhow it is as if there were none, and the next one drops it."""
    peers.revoke(HOUR)
    peers.clock.advance(HOUR - 0.001)
    assert peers.revoked(START)
    peers.clock.advance(0.001)
    assert not peers.revoked(START)
    peers.revoke(room_id="attic")
    assert len(peers.grants()) == 1


@pytest.mark.parametrize("lasting", [0, -0.5, -HOUR])
def test_revoking_what_has_expired_is_nothing(peers: Peers, lasting: float) -> None:
    """Where no grant of the scope counts any more nothing is written, and the reservation stands."""
    peers.reserve()
    before = peers.everything()
    peers.revoke(lasting)
    assert peers.everything() == before
    assert peers.current()


def test_a_revocation_never_takes_less(peers: Peers) -> None:
    """Revoking again moves both instants up and never down, whatever clock and expiry it comes with."""
    for now, expires, expected in (
        (10.0, 100.0, (100.0, 10.0)),
        (20.0, 50.0, (100.0, 20.0)),
        (5.0, 200.0, (200.0, 20.0)),
        (30.0, 300.0, (300.0, 30.0)),
    ):
        rooms.revoke_room_grant_scope(peers.db, claims=scope(), expires_at=expires, now=now)
        (row,) = peers.grants()
        assert (row["expires_at"], row["revoked_before"]) == expected


def test_a_revocation_takes_its_reservation_along(peers: Peers) -> None:
    """The reservation of the same member, profile and authority is revoked in the same transaction, others are not."""
    peers.reserve()
    peers.reserve(member_id="bob")
    peers.revoke()
    assert not peers.current()
    assert peers.current(member_id="bob")
    assert peers.reserved()


@pytest.mark.parametrize("name", ["home_install_id", "target_install_id"])
def test_a_reservation_does_not_know_installs(peers: Peers, name: str) -> None:
    """A revocation that differs in an install alone names another grant, and the same reservation."""
    peers.reserve()
    changes: dict[str, Any] = {name: "install:other"}
    peers.revoke(**changes)
    assert not peers.current()
    assert not peers.revoked()


def test_what_is_stored_tells_nothing_of_the_scope(peers: Peers) -> None:
    """The key is the SHA-256 of the canonical JSON of the seven parts, each as text."""
    peers.revoke()
    parts = {name: str(scope()[name]) for name in OTHERS}
    encoded = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert [row["scope_key"] for row in peers.grants()] == [hashlib.sha256(encoded.encode()).hexdigest()]


def test_other_claims_are_ignored(peers: Peers) -> None:
    """A token's further claims and white space around an identifier make no other scope."""
    peers.revoke(colour="red", room_id=" room ")
    assert peers.revoked()


@settings(max_examples=40)
@given(data=st.data())
def test_a_grant_is_revoked_iff_a_later_revocation_of_its_scope_counts(engine: Engine, data: st.DataObject) -> None:
    """After any revocations in any order, the question is answered as their history says."""
    clock = ManualClock(0.0)
    peers = Peers(engine.fresh(clock=clock), clock)
    # What has expired by the time of a later revocation is dropped for good, even if the clock then steps back.
    kept: dict[str, tuple[float, float]] = {}
    for now, lasting, member in data.draw(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.sampled_from("ab")), max_size=6)
    ):
        clock.now = float(now)
        peers.revoke(lasting, member_id=member)
        if lasting:
            kept = {name: row for name, row in kept.items() if row[0] > now}
            old = kept.get(member, (0.0, 0.0))
            kept[member] = (max(old[0], now + lasting), max(old[1], now))
    clock.now = float(data.draw(st.integers(0, 30), label="asked at"))
    for member in "ab":
        issued = data.draw(st.integers(0, 20), label="issued")
        expires, before = kept.get(member, (0.0, 0.0))
        assert peers.revoked(issued, member_id=member) is (expires > clock.now and issued <= before)
