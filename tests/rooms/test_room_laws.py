"""Laws that hold after any sequence of calls, in any order, by any caller.

The test keeps a model of its own: what each room is, told by nothing but the calls that were made.
"""

import itertools
from collections import Counter
from typing import Any

from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fsm.lifecycles.tables import EVENTS, ROOMS
from fsm.rooms import (
    AuthorityConflictError,
    AuthoritySupersededError,
    EventConflictError,
    HostedRoomError,
    RoomConflictError,
    RoomHistoryExpiredError,
    RoomNotFoundError,
)
from tests.engines import Engine
from tests.laws import hold, never_seen
from tests.rooms.support import DAY, MIB, RETENTION, Gateway, check_books
from tests.world import ManualClock

IDS = st.sampled_from(["a", "b", "c"])
GATEWAYS = st.sampled_from(["gw", "gw2"])
EVENT_IDS = st.sampled_from(["e1", "e2", "e3"])
Caller = tuple[str, int] | None
CALLERS: st.SearchStrategy[Caller] = st.none() | st.sampled_from([("gw", 1), ("gw2", 2), ("legacy", 1), ("gw9", 1)])
TEXTS = st.sampled_from(["hello", "é", "漢字", "🌍"])
STEPS = st.sampled_from([0.0, 1.0, -1.0, DAY, -DAY, RETENTION])


SEEN: Counter[str] = Counter()
EXPECTED = {
    "adopted",
    "create_for: answered",
    "create_for: RoomConflictError",
    "create_for: EventConflictError",
    "claim_from: answered",
    "claim_from: RoomNotFoundError",
    "claim_from: RoomHistoryExpiredError",
    "claim_from: AuthorityConflictError",
    "claim_from: AuthoritySupersededError",
    "claim_from: EventConflictError",
    "claim_from: HostedRoomError",
    "disbanded",
    "disbanded again",
    "retired, disbanded again",
    "disband: RoomNotFoundError",
    "disband: AuthorityConflictError",
    "disband: HostedRoomError",
    "pruned",
    "pruned by a disbanding",
}


@define
class Model:
    """What a room is by all that was asked of it."""

    gateway: str
    epoch: int = 1
    closed_at: float | None = None
    gone: bool = False
    adopted: bool = False
    claims: dict[str, tuple[str, int, str]] = field(factory=dict)


class Rooms(RuleBasedStateMachine):
    """Three rooms, two gateways, and a clock that also steps back."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    @initialize()
    def start(self) -> None:
        """Begin with two rooms of three."""
        self.clock = ManualClock()
        self.gateway = Gateway(self.engine.fresh(clock=self.clock), self.clock)
        self.gateway.prune()
        self.models: dict[str, Model] = {}
        for room in ("a", "b"):
            self.create(room, "gw")
        self.names = itertools.count(10)
        self.reached: dict[str, tuple[Any, Any, Any]] = {}

    def count(self, what: str, times: int = 1) -> None:
        """Note what has happened; it decides nothing here, and is looked at when all sequences are over."""
        SEEN[what] += times

    def call(self, error: type[Exception] | None, function: Any, *args: Any) -> Any:
        """Make a call of which the model knows how it ends; a refusal changes nothing."""
        self.count(f"{function.__name__}: {error.__name__ if error else 'answered'}")
        if error is None:
            return function(*args)
        with self.gateway.refuses(error):
            function(*args)
        return None

    def live(self, room: str) -> Model | None:
        """Return the model of a room that is live."""
        model = self.models.get(room)
        return model if model is not None and model.closed_at is None else None

    @rule(step=STEPS)
    def pass_time(self, step: float) -> None:
        """Move the clock, also back."""
        self.clock.advance(step)

    @rule(room=IDS, gateway=GATEWAYS)
    def create(self, room: str, gateway: str) -> None:
        """Create or adopt a room, or learn that its id is taken."""
        error, model = self.judge_creation(room, gateway), self.live(room)
        answer = self.call(error, self.gateway.create_for, room, gateway)
        if error is not None:
            return
        assert answer["idempotent"] is (model is not None)
        if model is None:
            self.models[room] = Model(gateway)
        elif model.gateway == "legacy":
            self.count("adopted")
            model.gateway, model.epoch, model.adopted = gateway, model.epoch + 1, True

    def judge_creation(self, room: str, gateway: str) -> type[Exception] | None:
        """Return how a creation must end."""
        model = self.models.get(room)
        if model is None:
            return None
        if model.closed_at is not None:
            return RoomConflictError
        if model.gateway == "legacy":
            return EventConflictError if model.adopted else None
        return None if model.gateway == gateway else RoomConflictError

    @rule(room=IDS)
    def lose_authority(self, room: str) -> None:
        """Let a room be one from before rooms had an authority."""
        model = self.live(room)
        if model is not None:
            model.gateway = "legacy"
            self.gateway.make_legacy(room)

    @rule(room=IDS, gateway=GATEWAYS)
    def adopt(self, room: str, gateway: str) -> None:
        """Let a gateway come upon a room from before rooms had an authority."""
        self.lose_authority(room)
        self.create(room, gateway)

    @rule(room=IDS, caller=CALLERS, new=GATEWAYS, event_id=EVENT_IDS)
    def claim(self, room: str, caller: Caller, new: str, event_id: str) -> None:
        """Claim a room under an id that may be new or bound to another claim."""
        expected, epoch = self.authority(room, caller)
        self.make_claim(room, (expected, epoch, new), event_id)

    @rule(room=IDS, pick=st.integers(0, 2))
    def claim_again(self, room: str, pick: int) -> None:
        """Repeat a claim that was made, whatever has happened since."""
        model = self.models.get(room)
        if model is not None and model.claims:
            event_id = list(model.claims)[pick % len(model.claims)]
            self.make_claim(room, model.claims[event_id], event_id)

    @rule(room=IDS, new=GATEWAYS)
    def claim_on(self, room: str, new: str) -> None:
        """Let the room's own gateway give it on, under an id of its own."""
        self.make_claim(room, (*self.authority(room, None), new), f"e{next(self.names)}")

    def authority(self, room: str, caller: Caller) -> tuple[str, int]:
        """Return the authority that a caller believes in: None stands for the room's own."""
        model = self.models.get(room)
        return (model.gateway, model.epoch) if caller is None and model is not None else caller or ("gw", 1)

    def make_claim(self, room: str, claim: tuple[str, int, str], event_id: str) -> None:
        """Claim, and let the model follow."""
        error, moves = self.judge_claim(room, claim, event_id)
        answer = self.call(error, self.gateway.claim_from, *claim, event_id, room)
        if error is None:
            assert answer["idempotent"] is not moves
        if moves:
            model = self.models[room]
            model.gateway, model.epoch = claim[2], claim[1] + 1
            model.claims[event_id] = claim

    def judge_claim(self, room: str, claim: tuple[str, int, str], event_id: str) -> tuple[type[Exception] | None, bool]:
        """Return how a claim must end, and whether it moves the room."""
        model = self.live(room)
        if model is None:
            gone = room in self.models and self.models[room].gone
            return (RoomHistoryExpiredError if gone else RoomNotFoundError), False
        if event_id in model.claims:
            if model.claims[event_id] != claim:
                return EventConflictError, False
            now_holds = (model.gateway, model.epoch) == (claim[2], claim[1] + 1)
            return (None if now_holds else AuthoritySupersededError), False
        if (model.gateway, model.epoch) != claim[:2]:
            return AuthorityConflictError, False
        return None, True

    @rule(room=IDS, caller=CALLERS)
    def disband(self, room: str, caller: Caller) -> None:
        """Disband a room; a closed one answers whoever asks."""
        gateway, epoch = self.authority(room, caller)
        model = self.models.get(room)
        if model is None:
            self.call(RoomNotFoundError, self.gateway.disband, room, gateway, epoch)
        elif model.closed_at is None and (model.gateway, model.epoch) != (gateway, epoch):
            self.call(AuthorityConflictError, self.gateway.disband, room, gateway, epoch)
        else:
            self.disband_it(room, model, gateway, epoch)

    @rule(room=IDS)
    def disband_later(self, room: str) -> None:
        """Let 90 days pass and disband a room."""
        self.clock.advance(RETENTION)
        self.disband(room, None)

    def disband_it(self, room: str, model: Model, gateway: str, epoch: int) -> None:
        """Disband a room by its authority, or again by anyone."""
        self.count("retired, disbanded again" if model.gone else "disbanded again" if model.closed_at else "disbanded")
        answer = self.gateway.disband(room, gateway, epoch)
        assert answer["idempotent"] is (model.closed_at is not None)
        assert ("history_expired" in answer) is model.gone
        if model.closed_at is None:
            model.closed_at = self.clock.now
            self.count("pruned by a disbanding", self.forget_due(but=room))
        assert answer["disbanded_at"] == model.closed_at

    def forget_due(self, but: str | None = None) -> int:
        """Let the model forget the rooms that were closed 90 days ago; return how many."""
        due = [
            model
            for room, model in self.models.items()
            if room != but and not model.gone and model.closed_at is not None
            if model.closed_at <= self.clock.now - RETENTION
        ]
        for model in due:
            model.gone = True
        return len(due)

    @rule()
    def prune(self) -> None:
        """Prune what is due by age."""
        due = self.forget_due()
        assert self.gateway.prune() == due
        self.count("pruned", due)

    @rule()
    def prune_later(self) -> None:
        """Let 90 days pass and prune."""
        self.clock.advance(RETENTION)
        self.prune()

    @rule(room=IDS, text=TEXTS)
    def say(self, room: str, text: str) -> None:
        """Let a gateway that has events store one."""
        if self.live(room) is not None:
            self.gateway.add_event(f"m{next(self.names)}", text, room)

    @rule(room=IDS, caller=CALLERS)
    def call_in_vain(self, room: str, caller: Caller) -> None:
        """Call while the rooms' totals say that everything is full: what is refused changes nothing."""
        model = self.live(room)
        if model is None:
            return
        gateway, epoch = self.authority(room, caller)
        error = HostedRoomError if (model.gateway, model.epoch) == (gateway, epoch) else AuthorityConflictError
        held = self.gateway.stored(room)["event_bytes"]
        self.gateway.alter(room, event_bytes=18 * MIB)
        self.call(error, self.gateway.claim_from, gateway, epoch, "gw", "never", room)
        self.call(error, self.gateway.disband, room, gateway, epoch)
        self.gateway.alter(room, event_bytes=held)

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """Each room that is not pruned has a row, under the authority and epoch that the calls gave it."""
        kept = {room: model for room, model in self.models.items() if not model.gone}
        assert self.gateway.room_ids() == sorted(kept)
        for room, model in kept.items():
            row = self.gateway.stored(room)
            found = (row["authority_gateway_id"], row["authority_epoch"], row["disbanded_at"])
            assert found == (model.gateway, model.epoch, model.closed_at)

    @invariant()
    def the_books_balance(self) -> None:
        """No room's numbers have a gap, and the totals of the rows are the bytes of the events."""
        for room in self.gateway.room_ids():
            check_books(self.gateway, room)
        kept = self.gateway.execute(f"SELECT DISTINCT room_id FROM {EVENTS.name}")
        assert {str(row["room_id"]) for row in kept} <= set(self.gateway.room_ids())

    @invariant()
    def nothing_goes_back(self) -> None:
        """A room's epoch, revision and `updated_at` never go back, nor does any of them belong to an older room."""
        rows = self.gateway.execute(f"SELECT room_id, authority_epoch, revision, updated_at FROM {ROOMS.name}")
        for row in rows:
            room, now = str(row["room_id"]), (row["authority_epoch"], row["revision"], row["updated_at"])
            before = self.reached.get(room, (0, 0, float("-inf")))
            assert all(a >= b for a, b in zip(now, before, strict=True))
            self.reached[room] = now

    @invariant()
    def a_disbanded_id_is_retired(self) -> None:
        """Every id that was ever disbanded is listed for ever, with the instant of its end, and no other one is."""
        closed = {room: model.closed_at for room, model in self.models.items() if model.closed_at is not None}
        assert self.gateway.retired() == closed

    @invariant()
    def what_is_read_is_what_is_stored(self) -> None:
        """A room's state is its row, and a retired id is refused as one."""
        for room, model in self.models.items():
            if model.gone:
                self.call(RoomHistoryExpiredError, self.gateway.state, room)
                self.call(RoomConflictError, self.gateway.create, room)
                continue
            view, row = self.gateway.state(room, closed_too=True), self.gateway.stored(room)
            assert view["latest_seq"] == len(self.gateway.events(room))
            assert (view["revision"], view["updated_at"]) == (row["revision"], row["updated_at"])
            assert view.get("disbanded_at") == model.closed_at


def test_the_laws(engine: Engine) -> None:
    """No sequence of calls breaks a law, and every outcome that the model knows has happened in some sequence."""
    SEEN.clear()
    hold(Rooms, engine, lambda: never_seen(EXPECTED, SEEN), examples=100, on_server=6, steps=40)
