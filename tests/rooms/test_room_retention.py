"""When a closed room is pruned, and that its id stays taken for ever."""

import threading
from collections.abc import Callable

import pytest

from fsm.lifecycles.tables import ROOMS
from fsm.rooms import RoomConflictError, RoomHistoryExpiredError
from tests.rooms.support import DAY, RETENTION, Gateway
from tests.world import START

RETENTION_IN_SECONDS = 7_776_000.0


def test_the_retention_is_ninety_days() -> None:
    """A closed room is kept for 90 days."""
    assert RETENTION == RETENTION_IN_SECONDS


@pytest.mark.parametrize(("after", "pruned"), [(RETENTION - 0.001, 0), (RETENTION, 1), (RETENTION + 1, 1)])
def test_the_boundary_of_age(gateway: Gateway, after: float, pruned: int) -> None:
    """A closed room is kept until its age is 90 days exactly, and then pruned."""
    gateway.bring("disbanded")
    assert gateway.prune(START + after) == pruned
    assert gateway.room_ids() == ["room"][pruned:]
    assert gateway.retired() == {"room": START}


def test_the_clock_decides_where_no_instant_is_given(gateway: Gateway) -> None:
    """Without `now` the age is measured by the handle's clock."""
    gateway.bring("disbanded")
    gateway.clock.advance(RETENTION - 1)
    assert gateway.prune() == 0
    gateway.clock.advance(1)
    assert gateway.prune() == 1


def test_age_counts_from_the_disbanding(gateway: Gateway) -> None:
    """A room that was created long ago and disbanded lately is kept; a live one is kept whatever its age."""
    gateway.create()
    gateway.create("ancient")
    gateway.clock.advance(10 * RETENTION)
    gateway.disband()
    assert gateway.prune() == 0
    assert gateway.prune(START + 11 * RETENTION) == 1
    assert gateway.room_ids() == ["ancient"]


def test_pruning_again_finds_nothing(gateway: Gateway) -> None:
    """A lost call is made again: what is pruned is not counted a second time."""
    for number in range(3):
        gateway.add_closed(f"old-{number}", START)
    assert gateway.prune(START + RETENTION) == 3
    assert gateway.prune(START + RETENTION) == 0


def test_the_kept_count(gateway: Gateway) -> None:
    """Of 515 closed rooms the 512 closed last are kept, whatever their age."""
    gateway.add_closed_many(512, START)
    assert gateway.prune(START) == 0
    gateway.add_closed_many(3, START + 1000, prefix="new")
    assert gateway.prune(START) == 3
    assert gateway.room_ids() == [f"new-{number:04}" for number in (1, 2, 3)] + [
        f"old-{number:04}" for number in range(4, 513)
    ]
    assert gateway.retired() == {f"old-{number:04}": START + number for number in (1, 2, 3)}


def test_of_rooms_closed_at_once_the_greater_ids_go(gateway: Gateway) -> None:
    """Where rooms beyond the kept count were closed at the same instant, those with the greater ids are pruned."""
    gateway.add_closed_many(514, START)
    gateway.execute(f"UPDATE {ROOMS.name} SET disbanded_at = {START}")
    assert gateway.prune(START) == 2
    assert {"old-0513", "old-0514"} == gateway.retired().keys()


def test_age_and_count_together(gateway: Gateway) -> None:
    """A room that is due for both reasons is counted once."""
    gateway.add_closed_many(513, START)
    assert gateway.prune(START + 2 + RETENTION) == 2
    assert "old-0003" in gateway.room_ids()


def test_a_disbanding_prunes_what_is_due_by_age(gateway: Gateway) -> None:
    """A disbanding prunes the rooms closed 90 days ago, at its own instant."""
    gateway.create()
    gateway.add_closed("due", START - RETENTION)
    gateway.add_closed("kept", START - RETENTION + 1)
    gateway.disband()
    assert gateway.room_ids() == ["kept", "room"]


def test_a_disbanding_prunes_what_is_beyond_the_count(gateway: Gateway) -> None:
    """The 513th closed room drives the one closed longest ago out."""
    gateway.create()
    gateway.add_closed_many(512, START - 1000)
    gateway.disband()
    assert gateway.room_ids() == [*(f"old-{number:04}" for number in range(2, 513)), "room"]


def test_a_disbanding_spares_its_own_room_beyond_the_count(gateway: Gateway) -> None:
    """Where a clock set back makes the room the oldest of 513, its own disbanding keeps it; later pruning does not."""
    gateway.create()
    gateway.add_closed_many(512, START)
    gateway.disband(now=START - 1)
    assert len(gateway.room_ids()) == 513
    assert gateway.disband()["event"]["kind"] == "room.disbanded"
    assert gateway.prune(START) == 1
    assert "room" not in gateway.room_ids()


def test_a_retry_of_a_disbanding_prunes_nothing(gateway: Gateway) -> None:
    """An exact retry only reads, however much is due by then."""
    gateway.bring("disbanded")
    gateway.clock.advance(RETENTION)
    before = gateway.everything()
    assert gateway.disband()["idempotent"] is True
    assert gateway.everything() == before


@pytest.mark.parametrize("listed", [True, False], ids=["listed as retired", "from an old database"])
def test_the_id_stays_taken(gateway: Gateway, listed: bool) -> None:
    """Once pruned, an id answers as retired in every call, and is never given to a room again."""
    gateway.add_closed("old", START, retired=listed)
    assert gateway.prune(START + RETENTION) == 1
    assert gateway.retired() == {"old": START}
    calls: list[tuple[type[Exception], Callable[[], object]]] = [
        (RoomConflictError, lambda: gateway.create("old", name="Old")),
        (RoomConflictError, lambda: gateway.create("old", authority_gateway_id="gw7")),
        (RoomHistoryExpiredError, lambda: gateway.state("old")),
        (RoomHistoryExpiredError, lambda: gateway.state("old", closed_too=True)),
        (RoomHistoryExpiredError, lambda: gateway.claim("e1", "old")),
    ]
    for error, call in calls:
        with gateway.refuses(error):
            call()
    assert gateway.prune(START + 1e12) == 0
    assert gateway.disband("old", "any", 99)["history_expired"] is True


def test_an_expired_history_says_so(gateway: Gateway) -> None:
    """The refusal for a retired id is also a RoomNotFoundError, and carries a reason code of its own."""
    assert RoomHistoryExpiredError.reason == "room_history_expired"
    gateway.bring("retired")
    with pytest.raises(RoomHistoryExpiredError, match="id"):
        gateway.state()


def test_an_instant_that_was_noted_stays(gateway: Gateway) -> None:
    """Where the id is noted with another instant than the room's own, the noted one stays."""
    gateway.add_closed("old", START)
    gateway.execute("UPDATE hosted_room_retired_ids SET retired_at = 5.0")
    gateway.prune(START + RETENTION)
    assert gateway.retired() == {"old": 5.0}
    assert gateway.disband("old")["disbanded_at"] == 5.0


def test_rivals_prune_each_room_once(gateway: Gateway) -> None:
    """Of eight prunings at once, the counts add up to the rooms that were due."""
    gateway.add_closed_many(40, START)
    counts: list[int] = []
    barrier = threading.Barrier(8)

    def rival() -> None:
        barrier.wait()
        counts.append(gateway.prune(START + 2 * RETENTION))

    threads = [threading.Thread(target=rival) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0] * 7 + [40]
    assert len(gateway.retired()) == 40


def test_an_instant_far_off(gateway: Gateway) -> None:
    """The greatest and least finite instants are ordinary ones: nothing overflows."""
    gateway.bring("disbanded")
    assert gateway.prune(-1.7e308) == 0
    assert gateway.prune(1.7e308) == 1


def test_days_are_seconds(gateway: Gateway) -> None:
    """Instants are seconds: a room closed 89 days ago is kept."""
    gateway.bring("disbanded")
    assert gateway.prune(START + 89 * DAY) == 0
