"""Every state of a reservation against every call on it; the table is the contract.

The record is what member `ann` has of the profile `helper` in `room`, granted by gateway `gw` at epoch 2.
"""

from collections.abc import Callable
from typing import Any

import pytest

import fsm
from fsm import rooms
from fsm.lifecycles import PEER_RESERVATION
from fsm.rooms import AuthorityConflictError, HostedRoomError
from fsm.rooms.machines import PEER_RESERVATION_MACHINE
from storage import Row
from tests.rooms.peers import HOUR, Peers, scope
from tests.world import START

STATES = ("absent", "live", "revoked", "expired", "revoked, expired")

# `>`: the record is live under the caller's authority; `A`: refused with AuthorityConflictError; `=`: nothing of it has
# changed; `!`: stamped as revoked now; a state: what it is afterwards.
MATRIX: dict[str, tuple[str, ...]] = {
    "reserve gw 2": (">", ">", ">", ">", ">"),
    "reserve gw 3": (">", ">", ">", ">", ">"),
    "reserve gw9 3": (">", ">", ">", ">", ">"),
    "reserve gw9 2": (">", "A", "A", ">", ">"),
    "reserve gw 1": (">", "A", "A", ">", ">"),
    "reserve gw9 1": (">", "A", "A", ">", ">"),
    "reserve gw 2 for bob": ("=", "=", "=", "gone", "gone"),
    "reserve gw 3 for bob": ("=", "revoked", "=", "gone", "gone"),
    "reserve gw9 3 for bob": ("=", "revoked", "=", "gone", "gone"),
    "reserve gw9 2 for bob": ("=", "A", "=", "gone", "gone"),
    "reserve gw 1 for bob": ("=", "A", "=", "gone", "gone"),
    "reserve gw9 1 for bob": ("=", "A", "=", "gone", "gone"),
    "reserve gw9 1 of other": ("=", "=", "=", "gone", "gone"),
    "reserve gw9 3 of other": ("=", "=", "=", "gone", "gone"),
    "reserve gw9 3 in attic": ("=", "=", "=", "gone", "gone"),
    "revoke gw 2": ("=", "!", "!", "!", "!"),
    "revoke gw 3": ("=", "=", "=", "=", "="),
    "revoke gw 1": ("=", "=", "=", "=", "="),
    "revoke gw9 2": ("=", "=", "=", "=", "="),
    "revoke gw 2 for bob": ("=", "=", "=", "=", "="),
    "revoke gw 2 of other": ("=", "=", "=", "=", "="),
    "revoke gw 2 in attic": ("=", "=", "=", "=", "="),
    "revoke gw 2 too late": ("=", "=", "=", "=", "="),
}
READS: dict[str, tuple[bool, ...]] = {
    "reserved": (False, True, False, False, False),
    "current gw 2": (False, True, False, False, False),
    "current gw 1": (False, False, False, False, False),
    "current gw 3": (False, False, False, False, False),
    "current gw9 2": (False, False, False, False, False),
    "current gw 2 for bob": (False, False, False, False, False),
    "reserved of other": (False, False, False, False, False),
    "reserved in attic": (False, False, False, False, False),
}


def _wait(peers: Peers) -> None:
    peers.clock.advance(2 * HOUR)


def _bring(peers: Peers, state: str) -> None:
    if state == "absent":
        return
    peers.reserve()
    if state.startswith("revoked"):
        peers.clock.advance(1)
        peers.revoke()
    if state.endswith("expired"):
        _wait(peers)


def _changes(words: list[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {"authority_gateway_id": words[0], "authority_epoch": int(words[1])}
    names = {"for": "member_id", "of": "target_profile", "in": "room_id"}
    return changes | ({names[words[2]]: words[3]} if words[2:] and words[2] in names else {})


def _call(peers: Peers, name: str) -> None:
    verb, *words = name.split()
    if verb == "reserve":
        peers.reserve(**_changes(words))
    else:
        peers.revoke(0 if name.endswith("too late") else HOUR, **_changes(words))


CELLS = [(name, state, code) for name, codes in MATRIX.items() for state, code in zip(STATES, codes, strict=True)]


@pytest.mark.parametrize(("name", "state", "code"), CELLS)
def test_cell(peers: Peers, name: str, state: str, code: str) -> None:
    """A call does what the table says to the record, and what was refused leaves every row as it was."""
    _bring(peers, state)
    peers.clock.advance(1)
    before = peers.row()
    if code == "A":
        with peers.refuses(AuthorityConflictError):
            _call(peers, name)
        return
    _call(peers, name)
    after, now = peers.row(), peers.clock.now
    if code == ">":
        gateway, epoch = name.split()[1:3]
        taken = {"authority_gateway_id": gateway, "authority_epoch": int(epoch), "revoked_at": None, "updated_at": now}
        assert after is not None
        assert after.items() >= taken.items()
        assert after["created_at"] == (START if state in {"live", "revoked"} else now)
        assert peers.current(**_changes(name.split()[1:]))
    elif code == "gone":
        assert (before is None, after) == (False, None)
    elif code == "=":
        assert after == before
    else:
        assert before is not None
        assert after == {**before, "revoked_at": now, "updated_at": now}
    assert PEER_RESERVATION_MACHINE.state_of(after, now=now) == _expected(code, state)


def _expected(code: str, state: str) -> str:
    if code in {"=", "!"}:
        stamped = "revoked" if code == "!" and state == "live" else state
        return stamped.removeprefix("revoked, ")
    return {">": "live", "gone": "absent"}.get(code, code)


@pytest.mark.parametrize(
    ("name", "state", "answer"),
    [(name, state, answer) for name, answers in READS.items() for state, answer in zip(STATES, answers, strict=True)],
)
def test_reading(peers: Peers, name: str, state: str, answer: bool) -> None:
    """A call that reads answers what the table says, and changes nothing."""
    _bring(peers, state)
    before = peers.everything()
    verb, *words = name.split()
    if verb == "current":
        assert peers.current(**_changes(words)) is answer
    else:
        asked: dict[str, Any] = {"of": {"profile": words[-1:]}, "in": {"room": words[-1:]}}.get("".join(words[:1]), {})
        assert peers.reserved(**{name: value[0] for name, value in asked.items()}) is answer
    assert peers.everything() == before


def test_the_declaration_has_exactly_these_edges() -> None:
    """A reservation moves along the edges of the contract and along no other."""
    found = {
        (trigger.name, edge.source.name, edge.dest.name)
        for trigger in PEER_RESERVATION.triggers
        for edge in trigger.edges
    }
    assert found == {
        ("reserve", "absent", "live"),
        ("reserve", "revoked", "live"),
        ("reserve", "live", "live"),
        ("revoke", "live", "revoked"),
        ("revoke", "revoked", "revoked"),
        ("revoke", "expired", "expired"),
        ("supersede", "live", "revoked"),
        ("drop", "expired", "gone"),
        ("purge", "live", "gone"),
        ("purge", "revoked", "gone"),
        ("purge", "expired", "gone"),
        ("expire", "live", "expired"),
        ("expire", "revoked", "expired"),
    }


def test_the_matrix_covers_every_state() -> None:
    """No declared state is missing from the table."""
    assert {state.name for state in PEER_RESERVATION.states} <= set(STATES)


ROWS: dict[str, tuple[float, float | None, str]] = {
    "live": (1, None, "live"),
    "at its last instant": (0, None, "expired"),
    "revoked": (1, -1, "revoked"),
    "revoked, then expired": (0, -1, "expired"),
    "expired, then revoked": (-1, 0, "expired"),
    "revoked in the future": (1, 5, "revoked"),
}


@pytest.mark.parametrize("case", ROWS)
def test_states_are_judged_in_their_order(case: str) -> None:
    """Expired comes before revoked, revoked before live; expiry is at the instant itself."""
    expires, revoked, state = ROWS[case]
    row: Row = {"expires_at": START + expires, "revoked_at": None if revoked is None else START + revoked}
    assert PEER_RESERVATION_MACHINE.state_of(row, now=START) == state
    assert PEER_RESERVATION_MACHINE.state_of(None, now=START) == "absent"


@pytest.mark.parametrize("lasting", [0, -1, -HOUR])
def test_a_reservation_must_have_time(peers: Peers, lasting: float) -> None:
    """One that would be over at once is bad input, and drops nothing on the way."""
    peers.reserve()
    _wait(peers)
    with peers.refuses(HostedRoomError):
        peers.reserve(lasting)


def test_a_reservation_is_never_shortened(peers: Peers) -> None:
    """Reserving again for less time keeps the expiry, for more moves it; so does a newer epoch."""
    peers.reserve(HOUR)
    for lasting, epoch, expected in ((1, 2, HOUR), (2 * HOUR, 2, 2 * HOUR), (1, 3, 2 * HOUR)):
        peers.reserve(lasting, authority_epoch=epoch)
        assert (peers.row() or {})["expires_at"] == START + expected


def test_an_expired_reservation_begins_anew(peers: Peers) -> None:
    """What has expired is dropped first: neither its expiry, nor its epoch, nor its creation lives on."""
    peers.reserve(10 * HOUR, authority_epoch=9)
    peers.clock.advance(10 * HOUR)
    peers.reserve(HOUR, authority_epoch=1)
    row = peers.row() or {}
    assert (row["authority_epoch"], row["created_at"], row["expires_at"]) == (
        1,
        peers.clock.now,
        peers.clock.now + HOUR,
    )


def test_every_expired_reservation_is_dropped(peers: Peers) -> None:
    """Whoever reserves drops what has expired of all rooms, members and profiles, and nothing else."""
    others: list[dict[str, Any]] = [{"room_id": "attic"}, {"member_id": "bob"}, {"target_profile": "other"}]
    for changes in others:
        peers.reserve(HOUR, **changes)
    peers.reserve(3 * HOUR, room_id="cellar")
    peers.clock.advance(HOUR)
    peers.reserve()
    assert [peers.row(**changes) for changes in others] == [None, None, None]
    assert peers.row(room_id="cellar") is not None


def test_a_refused_reservation_drops_nothing(peers: Peers) -> None:
    """A refusal leaves even what has expired as it was."""
    peers.reserve(10 * HOUR)
    peers.reserve(HOUR, room_id="attic")
    _wait(peers)
    with peers.refuses(AuthorityConflictError):
        peers.reserve(authority_epoch=1)


def test_members_of_one_authority_share_a_profile(peers: Peers) -> None:
    """Several members hold one profile at once, as long as the room's authority is the same."""
    members = ("ann", "bob", "cy")
    for member in members:
        peers.reserve(member_id=member)
    assert all(peers.current(member_id=member) for member in members)
    peers.reserve(member_id="bob", authority_epoch=3)
    assert [peers.current(member_id=member) for member in members] == [False, False, False]
    assert peers.current(member_id="bob", authority_epoch=3)
    rows = [peers.row(member_id=member) or {} for member in members]
    assert [row["revoked_at"] for row in rows] == [START, None, START]


def test_a_revoked_row_of_a_newer_epoch_refuses_its_own_member_alone(peers: Peers) -> None:
    """Whether a revoked reservation of a newer epoch refuses looks at the same member only."""
    peers.reserve(authority_epoch=5)
    peers.revoke(authority_epoch=5)
    with peers.refuses(AuthorityConflictError):
        peers.reserve(authority_epoch=4)
    peers.reserve(member_id="bob", authority_epoch=4)
    assert peers.current(member_id="bob", authority_epoch=4)
    peers.reserve(authority_epoch=5)
    assert peers.current(authority_epoch=5)
    assert not peers.current(member_id="bob", authority_epoch=4)


def test_claims_are_read_as_identifiers(peers: Peers) -> None:
    """White space around an identifier does not make another one; further claims are ignored."""
    peers.reserve(room_id=" room ", member_id="ann\n", colour="red")
    assert peers.current()
    assert peers.reserved(" room")


def test_the_given_instant_counts(peers: Peers) -> None:
    """Where `now` is given the handle's clock is not asked; expiry is at the instant itself."""
    rooms.reserve_peer_room(peers.db, claims=scope(), expires_at=11.0, now=10.0)
    for now, answer in ((10.0, True), (10.9, True), (11.0, False), (12.0, False)):
        names = {"room_id": "room", "target_profile": "helper"}
        assert rooms.peer_room_is_reserved(peers.db, **names, now=now) is answer
        assert rooms.probe_peer_room_reservation(peers.db, **names, now=now) is answer
        assert rooms.peer_room_grant_is_current(peers.db, claims=scope(), now=now) is answer


CALLS: dict[str, Callable[[Peers], object]] = {
    "reserve": lambda peers: peers.reserve(),
    "supersede": lambda peers: peers.reserve(member_id="bob", authority_epoch=3),
    "drop": lambda peers: peers.reserve(room_id="attic"),
}


@pytest.mark.parametrize("call", CALLS)
def test_observers_hear_of_every_move(peers: Peers, call: str) -> None:
    """Each edge that a call takes is told once, after the commit, with the record's key."""
    if call == "supersede":
        peers.reserve()
    if call == "drop":
        peers.reserve()
        _wait(peers)
    heard: list[fsm.Transition] = []
    fsm.observe(peers.db, heard.append)
    CALLS[call](peers)
    told = {(each.trigger, each.source, each.dest, each.key["room_id"], each.key["member_id"]) for each in heard}
    assert (
        told
        == {
            "reserve": {("reserve", "absent", "live", "room", "ann")},
            "supersede": {
                ("supersede", "live", "revoked", "room", "ann"),
                ("reserve", "absent", "live", "room", "bob"),
            },
            "drop": {("drop", "expired", "gone", "room", "ann"), ("reserve", "absent", "live", "attic", "ann")},
        }[call]
    )
