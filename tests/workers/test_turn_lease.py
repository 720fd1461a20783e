"""The turn of a conversation: each state against each operation, its laws over time, and whose lineage it is."""

from typing import Any

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import sessions
from fsm.lifecycles import SESSION_TURN_LEASE
from fsm.runtime.machines import TURN_LEASE_MACHINE
from tests.engines import Engine
from tests.sessions.support import Owner
from tests.workers.support import Works
from tests.world import START, ManualClock

STATES = ("free", "own", "another's", "own expired", "another's expired")
# What the operation answers, and the state and holder that it leaves: `h` asks.
MATRIX: dict[str, dict[str, tuple[Any, str, str | None]]] = {
    "turn.acquire": {
        "free": (True, "held", "h"),
        "own": (True, "held", "h"),
        "another's": (False, "held", "g"),
        "own expired": (True, "held", "h"),
        "another's expired": (True, "held", "h"),
    },
    "turn.renew": {
        "free": (False, "free", None),
        "own": (True, "held", "h"),
        "another's": (False, "held", "g"),
        "own expired": (False, "expired", "h"),
        "another's expired": (False, "expired", "g"),
    },
    "turn.release": {
        "free": (None, "free", None),
        "own": (None, "free", None),
        "another's": (None, "held", "g"),
        "own expired": (None, "free", None),
        "another's expired": (None, "expired", "g"),
    },
}


@pytest.fixture
def working(works: Works) -> Works:
    """A registered worker."""
    works.register()
    return works


def bring(works: Works, state: str) -> None:
    """Bring the turn into a state of the table."""
    if state != "free":
        works.do("turn.acquire", {"holder": "h" if state.startswith("own") else "g", "ttl_seconds": 60})
    if state.endswith("expired"):
        works.owner.clock.advance(60)


@pytest.mark.parametrize(
    ("operation", "state"), [(operation, state) for operation, line in MATRIX.items() for state in line]
)
def test_cell(working: Works, operation: str, state: str) -> None:
    """An operation from a state answers and leaves what the table says; one that changes nothing is a read."""
    bring(working, state)
    answer, dest, holder = MATRIX[operation][state]
    before, revision = working.lease(), working.revision()
    assert working.do(operation, {"holder": "h"}) == {"value": answer}
    row = working.lease()
    assert working.turn() == dest
    assert (row or {}).get("holder") == holder
    assert working.revision() == revision + (row != before)


def test_the_matrix_takes_every_edge() -> None:
    """Every declared edge is taken by some cell of the table, and no other one; the clock takes the last."""
    places = {"own": "held", "another's": "held", "own expired": "expired", "another's expired": "expired"}
    taken = {
        (operation.removeprefix("turn."), places.get(state, state), dest)
        for operation, line in MATRIX.items()
        for state, (_, dest, holder) in line.items()
        if (state, dest) != ("free", "free") and holder in {"h", None} and (operation, state) != REFUSED
    }
    declared = {
        (trigger.name, edge.source.name, edge.dest.name)
        for trigger in SESSION_TURN_LEASE.triggers
        for edge in trigger.edges
        if trigger.kind == "fire"
    }
    assert taken == declared


REFUSED = ("turn.renew", "own expired")
"""The one cell of one's own turn that leaves it as it was."""


def test_the_default_is_five_minutes_and_can_be_reached(working: Works) -> None:
    """The default of a turn's `ttl_seconds` is 300."""
    working.do("turn.acquire", {"holder": "h"})
    assert (working.lease() or {})["expires_at"] == START + 300
    working.owner.clock.advance(100)
    working.do("turn.renew", {"holder": "h"})
    assert (working.lease() or {})["expires_at"] == START + 400


def test_the_same_holder_extends_and_never_shortens(working: Works) -> None:
    """The same holder extends its turn by acquiring again, and never shortens it."""
    working.do("turn.acquire", {"holder": "h", "ttl_seconds": 100})
    acquired = (working.lease() or {})["acquired_at"]
    for operation, ttl, expected in (
        ("turn.acquire", 50, 100),
        ("turn.acquire", 200, 200),
        ("turn.renew", 0.1, 200),
        ("turn.renew", 3600, 3600),
    ):
        assert working.do(operation, {"holder": "h", "ttl_seconds": ttl}) == {"value": True}
        assert working.lease() == {
            "conversation_id": "s",
            "holder": "h",
            "acquired_at": acquired,
            "expires_at": START + expected,
        }


@pytest.mark.engines("sqlite")
def test_a_holders_death_is_not_looked_at(works: Works) -> None:
    """A turn is its holder's until it expires, also where the name is that of a process that is gone."""
    works.register()
    gone = f"host:{2**22 + 1}:worker"
    works.do("turn.acquire", {"holder": gone, "ttl_seconds": 10})
    assert works.do("turn.acquire", {"holder": "h"}) == {"value": False}
    works.owner.clock.now += 10
    assert works.do("turn.acquire", {"holder": "h"}) == {"value": True}


def test_renewing_does_not_revive(working: Works) -> None:
    """`turn.renew` is False when the lease has expired, and never shortens a live one."""
    working.do("turn.acquire", {"holder": "h", "ttl_seconds": 10})
    working.owner.clock.advance(10)
    assert working.do("turn.renew", {"holder": "h"}) == {"value": False}
    assert working.turn() == "expired"
    working.owner.clock.advance(-1)
    assert working.do("turn.renew", {"holder": "h", "ttl_seconds": 0.5}) == {"value": True}
    assert (working.lease() or {})["expires_at"] == START + 10


NO_HOLDERS: list[Any] = [None, 1, True, "", " ", [], {}, "x" * 1025]
NO_TIMES: list[Any] = [None, True, "60", 0, -1, 0.09, 3600.5, 2**63, [], {}]


@pytest.mark.parametrize(
    "payload",
    [
        *({"holder": value} for value in NO_HOLDERS),
        *({"holder": "h", "ttl_seconds": value} for value in NO_TIMES),
        *({}, {"ttl_seconds": 60}, {"holder": "h", "colour": "red"}),
    ],
)
@pytest.mark.parametrize("operation", ["turn.acquire", "turn.renew", "turn.release"])
def test_bad_payloads_are_refused(working: Works, operation: str, payload: dict[str, Any]) -> None:
    """A holder is a text of 1 to 1024 characters, a time 0.1 to 3600 seconds, and nothing else is taken."""
    with working.refuses("invalid_params"):
        working.do(operation, payload)


def test_releasing_takes_no_time(working: Works) -> None:
    """A release names its holder alone."""
    with working.refuses("invalid_params"):
        working.do("turn.release", {"holder": "h", "ttl_seconds": 60})


@pytest.mark.parametrize("ttl", [0.1, 3600])
def test_the_limits_are_within(working: Works, ttl: float) -> None:
    """The least and the greatest time are taken."""
    assert working.do("turn.acquire", {"holder": "h" * 1024, "ttl_seconds": ttl}) == {"value": True}


# --- lineages


def test_the_turn_is_that_of_the_oldest_session_of_the_lineage(working: Works) -> None:
    """The key is the oldest session of the lineage, so that a compressed conversation keeps its turn."""
    owner = working.owner
    working.do("turn.acquire", {"holder": "h"})
    working.finish()
    sessions.end_session(owner.db, "s", reason="compression")
    owner.open("s2", parent_session_id="s")
    working.register("w2", session_id="s2")
    assert working.do("turn.acquire", {"holder": "g"}, worker="w2", session_id="s2") == {"value": False}
    assert working.do("turn.renew", {"holder": "h"}, worker="w2", session_id="s2") == {"value": True}
    assert working.lease("s2") is None


@pytest.mark.parametrize("source", ["branch", "delegate"])
def test_a_conversation_apart_has_a_turn_of_its_own(working: Works, source: str) -> None:
    """A branch and a delegate are no part of the lineage."""
    working.do("turn.acquire", {"holder": "h"})
    sessions.end_session(working.db, "s", reason="compression")
    working.owner.open("apart", parent_session_id="s", source=source)
    working.register("w2", session_id="apart")
    assert working.do("turn.acquire", {"holder": "g"}, worker="w2", session_id="apart") == {"value": True}
    assert [(working.lease(name) or {})["holder"] for name in ("s", "apart")] == ["h", "g"]


@pytest.mark.engines("sqlite")
def test_a_damaged_turn_is_had_by_nobody(working: Works) -> None:
    """A row that is in no declared state declines whoever asks, and raises no error of another family."""
    working.do("turn.acquire", {"holder": "h"})
    working.owner.execute("UPDATE session_turn_leases SET expires_at = 'soon'")
    for operation, value in (("turn.acquire", False), ("turn.renew", False), ("turn.release", None)):
        assert working.do(operation, {"holder": "h"}) == {"value": value}


@pytest.mark.parametrize("expired", [False, True])
def test_a_deleted_conversation_leaves_no_turn(working: Works, expired: bool) -> None:
    """A deletion of the first session takes its turn along, held or expired, and no other one."""
    working.owner.open("t")
    working.register("w2", session_id="t")
    working.do("turn.acquire", {"holder": "h", "ttl_seconds": 60})
    working.do("turn.acquire", {"holder": "h"}, worker="w2", session_id="t")
    working.owner.clock.advance(60 if expired else 0)
    now = working.owner.clock.now
    for expected in (1, 0):
        moved = working.db.write(lambda tx: TURN_LEASE_MACHINE.sweep(tx, "purge", now=now, conversation_id="s"))
        assert len(moved) == expected
    assert (working.turn(), working.turn("t")) == ("free", "held")


# --- laws


@define
class Model:
    """Who has the turn by all that was asked, and until when."""

    holder: str | None = None
    expires_at: float = 0.0
    seen: list[str] = field(factory=list)

    def ask(self, operation: str, holder: str, now: float, ttl: float) -> Any:
        """Return what an operation must answer, and move on."""
        held = self.holder is not None and self.expires_at > now
        own = self.holder == holder
        if operation == "turn.release":
            self.holder = None if own else self.holder
            return None
        if operation == "turn.renew" and not (held and own):
            return False
        if held and not own:
            return False
        self.expires_at = max(self.expires_at, now + ttl) if held else now + ttl
        self.holder = holder
        return True


ASKED = st.tuples(
    st.sampled_from(["turn.acquire", "turn.renew", "turn.release"]),
    st.sampled_from(["g", "h"]),
    st.sampled_from([0.1, 10.0, 3600.0]),
    st.sampled_from([0.0, 1.0, 10.0, -5.0, 4000.0]),
)


@settings(max_examples=120, derandomize=True, database=None)
@given(asked=st.lists(ASKED, max_size=14))
def test_the_turn_is_one_holders_at_a_time(engine: Engine, asked: list[tuple[str, str, float, float]]) -> None:
    """Whatever is asked, in whatever order, under a clock that also steps back, the turn is as the model says."""
    clock = ManualClock()
    works = Works(Owner.begin(engine.fresh(clock=clock), clock))
    works.register()
    model = Model()
    for number, (operation, holder, ttl, step) in enumerate(asked, start=1):
        clock.advance(step)
        payload: dict[str, Any] = {"holder": holder}
        if operation != "turn.release":
            payload["ttl_seconds"] = ttl
        expected = model.ask(operation, holder, clock.now, ttl)
        assert works.do(operation, payload, number) == {"value": expected}
        row = works.lease()
        assert (row or {"holder": None})["holder"] == model.holder
        assert row is None or row["expires_at"] == pytest.approx(model.expires_at)
