"""Laws of reservations that hold after any sequence of calls by two gateways over several epochs and members.

The test keeps a model of its own: what each row must hold, told by nothing but the calls that were made.
"""

from collections import Counter
from typing import Any

from attrs import define
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import fsm
from fsm.lifecycles import PEER_RESERVATION
from fsm.lifecycles.tables import PEER_RESERVATIONS
from fsm.rooms import AuthorityConflictError, HostedRoomError
from tests.engines import Engine
from tests.laws import hold, never_seen
from tests.rooms.peers import HOUR, Peers
from tests.world import ManualClock

GATEWAYS = st.sampled_from(["gw", "gw2"])
EPOCHS = st.integers(1, 3)
MEMBERS = st.sampled_from(["ann", "bob"])
PROFILES = st.sampled_from(["helper", "helper", "other"])
LASTING = st.sampled_from([1.0, HOUR, 3 * HOUR])
STEPS = st.sampled_from([0.0, 1.0, HOUR, 3 * HOUR, -1.0, -HOUR])
Key = tuple[str, str]

SEEN: Counter[str] = Counter()
EXPECTED = {
    *(
        f"{trigger.name}: {edge.source.name} -> {edge.dest.name}"
        for trigger in PEER_RESERVATION.triggers
        # Only the pruning of a room purges, and no room is hosted here.
        if trigger.kind != "time" and trigger.name != "purge"
        for edge in trigger.edges
    ),
    "refused by a newer epoch of the same member",
    "refused by a newer epoch of another member",
    "refused by a rival of the same member",
    "refused by a rival of another member",
    "refused by a revoked row",
    "not refused by a revoked row",
    "revoked a grant that nothing was reserved for",
    "revoked too late",
    "reserved too late",
    "live again after the clock stepped back",
}


@define
class Model:
    """A row, by all that was asked of it."""

    gateway: str
    epoch: int
    expires_at: float
    created_at: float
    updated_at: float
    revoked_at: float | None = None

    def outranks(self, gateway: str, epoch: int) -> bool:
        """Say whether nobody of this authority may reserve over the row."""
        return self.epoch > epoch or (self.epoch == epoch and self.gateway != gateway)

    def live(self, now: float) -> bool:
        """Say whether the row fences its profile."""
        return self.revoked_at is None and self.expires_at > now


class Reservations(RuleBasedStateMachine):
    """One room, two members, two profiles, two gateways, three epochs, and a clock that also steps back."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    @initialize()
    def start(self) -> None:
        """Begin without a reservation."""
        self.clock = ManualClock()
        self.peers = Peers(self.engine.fresh(clock=self.clock), self.clock)
        self.rows: dict[Key, Model] = {}
        assert self.peers.links() == []
        fsm.observe(self.peers.db, self.hear)

    def hear(self, moved: fsm.Transition) -> None:
        """Note which edge was taken; it decides nothing here, and is looked at when all sequences are over."""
        SEEN[f"{moved.trigger}: {moved.source} -> {moved.dest}"] += 1

    @rule(step=STEPS)
    def pass_time(self, step: float) -> None:
        """Move the clock, also back."""
        dead = [row for row in self.rows.values() if not row.live(self.clock.now)]
        self.clock.advance(step)
        SEEN["live again after the clock stepped back"] += any(row.live(self.clock.now) for row in dead)

    @rule()
    def look_ahead(self) -> None:
        """Let the clock stand where everything has expired, and step back."""
        self.pass_time(4 * HOUR)
        self.one_authority_holds_a_profile()
        self.pass_time(-4 * HOUR)

    @rule(gateway=GATEWAYS, epoch=EPOCHS, member=MEMBERS, profile=PROFILES, lasting=LASTING)
    def reserve(self, gateway: str, epoch: int, member: str, profile: str, lasting: float) -> None:
        """Reserve, or learn that another authority holds the profile."""
        now, key = self.clock.now, (member, profile)
        kept = {name: row for name, row in self.rows.items() if row.expires_at > now}
        if self.judge(kept, key, gateway, epoch):
            with self.peers.refuses(AuthorityConflictError):
                self.peers.reserve(lasting, **self.changes(key, gateway, epoch))
            return
        self.peers.reserve(lasting, **self.changes(key, gateway, epoch))
        for other, row in kept.items():
            if other != key and other[1] == profile and row.epoch < epoch and row.revoked_at is None:
                row.revoked_at = row.updated_at = now
        old = kept.get(key)
        expires = now + lasting if old is None else max(now + lasting, old.expires_at)
        kept[key] = Model(gateway, epoch, expires, now if old is None else old.created_at, now)
        self.rows = kept

    def judge(self, kept: dict[Key, Model], key: Key, gateway: str, epoch: int) -> bool:
        """Say whether a reservation must be refused."""
        own, refused = kept.get(key), False
        for other, row in kept.items():
            if other[1] != key[1] or not row.outranks(gateway, epoch):
                continue
            kind = "a newer epoch" if row.epoch > epoch else "a rival"
            if row.revoked_at is None:
                SEEN[f"refused by {kind} of {'the same' if row is own else 'another'} member"] += 1
            else:
                SEEN["refused by a revoked row" if row is own else "not refused by a revoked row"] += 1
            refused = refused or row is own or row.revoked_at is None
        return refused

    def changes(self, key: Key, gateway: str, epoch: int) -> dict[str, Any]:
        """Return the claims of a call."""
        return {
            "member_id": key[0],
            "target_profile": key[1],
            "authority_gateway_id": gateway,
            "authority_epoch": epoch,
        }

    @rule(gateway=GATEWAYS, epoch=EPOCHS, member=MEMBERS, profile=PROFILES)
    def revoke(self, gateway: str, epoch: int, member: str, profile: str) -> None:
        """Revoke a scope; a reservation goes with it where it was made by the same authority."""
        key = (member, profile)
        self.peers.revoke(**self.changes(key, gateway, epoch))
        row = self.rows.get(key)
        if row is None or (row.gateway, row.epoch) != (gateway, epoch):
            SEEN["revoked a grant that nothing was reserved for"] += 1
            return
        row.revoked_at = row.updated_at = self.clock.now

    @rule(pick=st.integers(0, 9))
    def revoke_what_is_there(self, pick: int) -> None:
        """Revoke the scope of a row that there is, in whichever state."""
        if self.rows:
            key = sorted(self.rows)[pick % len(self.rows)]
            self.revoke(self.rows[key].gateway, self.rows[key].epoch, *key)

    @rule(pick=st.integers(0, 9))
    def revoke_what_has_expired(self, pick: int) -> None:
        """Let the time of every row run out and revoke one."""
        self.pass_time(4 * HOUR)
        self.revoke_what_is_there(pick)

    @rule(gateway=GATEWAYS, epoch=EPOCHS, member=MEMBERS, profile=PROFILES)
    def come_too_late(self, gateway: str, epoch: int, member: str, profile: str) -> None:
        """Revoke what has expired, which is nothing; reserve for a time that is over, which is bad input."""
        changes = self.changes((member, profile), gateway, epoch)
        before = self.peers.everything()
        self.peers.revoke(0, **changes)
        assert self.peers.everything() == before
        SEEN["revoked too late"] += 1
        with self.peers.refuses(HostedRoomError):
            self.peers.reserve(0, **changes)
        SEEN["reserved too late"] += 1

    @invariant()
    def rows_are_what_the_calls_made_them(self) -> None:
        """Every row holds exactly what the model says, and there is no other."""
        if not hasattr(self, "peers"):
            return
        stored = {
            (str(row["member_id"]), str(row["target_profile"])): Model(
                *(row[name] for name in ("authority_gateway_id", "authority_epoch", "expires_at")),  # type: ignore[arg-type] # as the table has them
                *(row[name] for name in ("created_at", "updated_at", "revoked_at")),
            )
            for row in self.peers.everything()[PEER_RESERVATIONS.name]
        }
        assert stored == self.rows

    @invariant()
    def one_authority_holds_a_profile(self) -> None:
        """The live rows of one profile are of one gateway at one epoch, and the questions are answered by them."""
        if not hasattr(self, "peers"):
            return
        for profile in ("helper", "other"):
            live = {key: row for key, row in self.rows.items() if key[1] == profile and row.live(self.clock.now)}
            assert len({(row.gateway, row.epoch) for row in live.values()}) <= 1
            assert self.peers.reserved(profile=profile) is bool(live)
            for key, row in self.rows.items():
                if key[1] == profile:
                    assert self.peers.current(**self.changes(key, row.gateway, row.epoch)) is (key in live)


def test_reservations_keep_their_laws(engine: Engine) -> None:
    """After any sequence each row is what the calls made it, and one authority alone holds a profile; and every edge
    and every refusal was met on the way
    """
    SEEN.clear()
    hold(Reservations, engine, lambda: never_seen(EXPECTED, SEEN), examples=100, on_server=10, steps=30)
