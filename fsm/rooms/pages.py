"""A page of a room's log: the longest run of events whose JSON, as it is sent, keeps within the limit of bytes."""

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from fsm.errors import HostedRoomError
from fsm.lifecycles.limits import MAX_LOG_PAGE_BYTES
from fsm.rooms.events import counted, following
from fsm.rooms.views import EventPage, ListedEvent, listed_event_view, shown
from storage import Row, Transaction

__all__ = ["page_bytes", "read_page"]

_BATCH: Final = 64
"""How many events are read at once: a page of large ones must not fetch hundreds that do not fit on it."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def page_bytes(value: object) -> int:
    """Return how many bytes a value has as compact JSON in UTF-8."""
    # A damaged row can hold a lone surrogate, which counts as the three bytes that a lenient encoder makes of it.
    return len(_ENCODER.encode(value).encode("utf-8", "surrogatepass"))


def read_page(tx: Transaction, room: Row, since: int, limit: int) -> EventPage:
    """Return the page after `since` of a room's log, with at most `limit` events.

    Raises HostedRoomError where `since` is ahead of the log, or where not even one event fits.
    """
    latest = counted(room, "next_seq", minimum=1) - 1
    if since > latest:
        raise HostedRoomError(
            f"since_seq must be at most {latest}, the end of the log; read again from an earlier event"
        )
    events: list[ListedEvent] = []
    left = MAX_LOG_PAGE_BYTES - page_bytes(_page(events, since, latest, room)) + _cursor_bytes(since, latest)
    for batch in _batches(tx, str(room["room_id"]), since, limit):
        fitting, taken = _fitting(batch, latest, left)
        if not fitting and not events:
            raise HostedRoomError("the next event is larger than a page may be; read on after it, or mend its row")
        events += fitting
        # The comma before the next event.
        left -= taken + 1
        if len(fitting) < len(batch):
            break
    return _page(events, since, latest, room)


def _fitting(batch: list[ListedEvent], latest: int, left: int) -> tuple[list[ListedEvent], int]:
    """Return the events from the front of the batch that fit into the bytes left, and the bytes that they take."""
    whole = page_bytes(batch) - len("[]")
    if whole + _cursor_bytes(batch[-1]["seq"], latest) <= left:
        return batch, whole
    ends = [end - 1 for end in accumulate(page_bytes(view) + 1 for view in batch)]
    fitting = sum(end + _cursor_bytes(view["seq"], latest) <= left for view, end in zip(batch, ends, strict=True))
    return batch[:fitting], ends[fitting - 1] if fitting else 0


def _page(events: list[ListedEvent], since: int, latest: int, room: Row) -> EventPage:
    cursor = events[-1]["seq"] if events else since
    stored = shown(room, ("authority_gateway_id", "authority_epoch"))
    authority: Any = {"gateway_id": stored["authority_gateway_id"], "epoch": stored["authority_epoch"]}
    return {
        "events": events,
        "cursor": cursor,
        "latest_seq": latest,
        "has_more": cursor < latest,
        "authority": authority,
    }


def _cursor_bytes(cursor: int, latest: int) -> int:
    """Return the bytes of what depends on where the page ends: the cursor, and `has_more`."""
    return len(str(cursor)) + len("true" if cursor < latest else "false")


def _batches(tx: Transaction, room_id: str, since: int, limit: int) -> Iterator[list[ListedEvent]]:
    after, left = since, limit
    while left > 0 and (rows := following(tx, room_id, after, min(left, _BATCH))):
        # Damaged text counts as greater than any number: such a row comes last, and has no place in the log.
        last = counted(rows[-1], "seq", minimum=1)
        yield [listed_event_view(row) for row in rows]
        after, left = last, left - len(rows)
