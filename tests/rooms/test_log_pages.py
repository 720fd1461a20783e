"""Pages of the log are as long as their limit allows, measured as the JSON that is sent."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm.lifecycles.tables import EVENTS
from fsm.rooms import MAX_LOG_PAGE_BYTES, EventPage, HostedRoomError, ListedEvent, events, pages
from tests.engines import Engine
from tests.rooms.support import MIB, Gateway
from tests.world import ManualClock

SCRIPTS = [
    "x",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "\N{CJK UNIFIED IDEOGRAPH-6F22}",
    "\N{EARTH GLOBE EUROPE-AFRICA}",
]
ESCAPED = ['"', "\\", "\n", "\x01", "\x7f", "/", "\N{LINE SEPARATOR}"]


def sent(value: object) -> int:
    """Return the UTF-8 bytes of a page or event as a server sends it, reckoned without the library."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def extended(page: EventPage, event: ListedEvent) -> EventPage:
    """Return the page with one more event."""
    cursor = event["seq"]
    return {
        **page,
        "events": [*page["events"], event],
        "cursor": cursor,
        "has_more": cursor < page["latest_seq"],
    }


def check_page(gateway: Gateway, page: EventPage, limit: int, largest: int) -> None:
    """A page keeps within its bytes, and the event after it would have broken the limit of bytes or of count."""
    assert sent(page) <= largest
    if not page["has_more"] or len(page["events"]) == limit:
        return
    (following,) = gateway.read(page["cursor"], 1, closed_too=True)["events"]
    assert sent(extended(page, following)) > largest


def all_pages(gateway: Gateway, limit: int, largest: int) -> Iterator[EventPage]:
    """Read the log page by page, each of them checked."""
    cursor, more = 0, True
    while more:
        page = gateway.read(cursor, limit)
        check_page(gateway, page, limit, largest)
        assert page["events"]
        cursor, more = page["cursor"], page["has_more"]
        yield page


@pytest.fixture
def room(gateway: Gateway) -> Gateway:
    """A gateway with the live room `room`."""
    gateway.create()
    return gateway


@pytest.mark.parametrize("character", [*SCRIPTS, *ESCAPED], ids=ascii)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_the_last_byte_of_a_page(room: Gateway, character: str, beyond: int) -> None:
    """A page of exactly 2 MiB is given whole, in any script; one byte more, and it ends before the last event."""
    width = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    for number in range(9):
        room.append(f"m{number}", character * (230_000 // width))
    room.append("last", "")
    missing = MAX_LOG_PAGE_BYTES - sent(room.read())
    room.execute(f"DELETE FROM {EVENTS.name} WHERE event_id = 'last'")
    room.alter(next_seq=10, event_bytes=0)
    assert 0 < missing + beyond < 200_000
    count, rest = divmod(missing + beyond, width)
    room.append("last", character * count + "y" * rest)
    page = room.read()
    assert len(page["events"]) == (9 if beyond > 0 else 10)
    assert page["has_more"] is (beyond > 0)
    assert beyond > 0 or sent(page) == MAX_LOG_PAGE_BYTES + beyond


def test_the_largest_events_come_one_page_after_the_other(room: Gateway) -> None:
    """Events of 256 KiB each fill page after page, and a reader gets every one of them."""
    for number in range(20):
        room.append(f"m{number}", "\N{SNOWMAN}" * ((256 * 1024 - len('{"text":""}')) // 3))
    found = [event["seq"] for page in all_pages(room, 500, MAX_LOG_PAGE_BYTES) for event in page["events"]]
    assert found == list(range(1, 21))
    assert len(room.read()["events"]) == 7


def test_every_prefix_of_a_log_has_a_limit_that_it_just_fits(room: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """At exactly the bytes of its first n events a page holds n of them, one byte below that one less, for every n."""
    for number in range(140):
        room.append(f"m{number}", SCRIPTS[number % 4] * (number % 3))
    whole = room.read()
    for count in range(1, 141):
        last = whole["events"][count - 1]
        size = sent(extended({**whole, "events": whole["events"][: count - 1]}, last))
        for limit, expected in ((size, count), (size - 1, count - 1)):
            monkeypatch.setattr(pages, "MAX_LOG_PAGE_BYTES", limit)
            if expected:
                assert len(room.read()["events"]) == expected
            else:
                with pytest.raises(HostedRoomError):
                    room.read()


texts = st.text(st.sampled_from([*SCRIPTS, *ESCAPED]), max_size=80)


@settings(max_examples=60)
@given(written=st.lists(texts, min_size=1, max_size=130), limit=st.integers(1, 500), largest=st.integers(700, 9000))
def test_no_page_is_needlessly_short(engine: Engine, written: list[str], limit: int, largest: int) -> None:
    """Whatever the events hold and wherever the limits fall, each page is the longest that keeps within both."""
    db = engine.fresh(clock=ManualClock())
    room = Gateway(db, ManualClock())
    room.create()
    for number, text in enumerate(written):
        room.append(f"m{number}", text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages, "MAX_LOG_PAGE_BYTES", largest)
        found = [event["payload"] for page in all_pages(room, limit, largest) for event in page["events"]]
    assert found == [{"text": text} for text in written]


@settings(max_examples=12)
@given(sizes=st.lists(st.integers(1, 260_000), min_size=9, max_size=16), character=st.sampled_from(SCRIPTS + ESCAPED))
def test_pages_at_their_true_limit(engine: Engine, sizes: list[int], character: str) -> None:
    """The same holds for events of up to 256 KiB around pages of 2 MiB."""
    db = engine.fresh(clock=ManualClock())
    room = Gateway(db, ManualClock())
    room.create()
    width = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    for number, size in enumerate(sizes):
        room.append(f"m{number}", character * (size // width))
    count = sum(len(page["events"]) for page in all_pages(room, 500, MAX_LOG_PAGE_BYTES))
    assert count == len(sizes)


FOREIGN: dict[str, str] = {
    "spaced": '{"text" : ' + " " * 300_000 + '"x"}',
    "escaped": '{"text":"' + "\\u00e9" * 50_000 + '"}',
    "floats": '{"text":[' + ",".join(["1e15"] * 16_000) + "]}",
}


@pytest.mark.parametrize("stored", FOREIGN.values(), ids=FOREIGN)
def test_a_page_is_measured_as_it_is_sent_and_not_as_it_is_stored(room: Gateway, stored: str) -> None:
    """Another program's spelling of JSON, longer or shorter than what is sent, makes no page too long or short."""
    for number in range(12):
        room.append(f"m{number}", "x" * 60_000)
    room.execute(f"UPDATE {EVENTS.name} SET payload_json = :stored WHERE seq <= 8", stored=stored)
    found = [event["seq"] for page in all_pages(room, 500, MAX_LOG_PAGE_BYTES) for event in page["events"]]
    assert found == list(range(1, 13))


def test_an_event_that_is_larger_than_a_page(room: Gateway) -> None:
    """What only another program could store is refused by itself, and can be passed by its number."""
    room.append("m1", "before")
    room.append("m2", "huge")
    room.append("m3", "after")
    room.execute(
        f"UPDATE {EVENTS.name} SET payload_json = :stored WHERE seq = 2", stored='{"x":"' + "x" * 2 * MIB + '"}'
    )
    assert [event["seq"] for event in room.read()["events"]] == [1]
    with room.refuses(HostedRoomError):
        room.read(1)
    assert [event["seq"] for event in room.read(2)["events"]] == [3]


def test_a_page_fetches_little_more_than_it_gives(room: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log of many large events only some are read for a page, whatever its limit of count."""
    for number in range(60):
        room.append(f"m{number}", "x" * 200_000)
    asked: list[Any] = []
    original = events.following

    def counted(*arguments: Any) -> Any:
        rows = original(*arguments)
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(pages, "following", counted)
    assert len(room.read()["events"]) == 10
    assert sum(asked) <= pages._BATCH
