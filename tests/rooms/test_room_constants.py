"""The limits that gateways import by name: their values are part of what they agree on."""

from fsm import rooms

KIB, MIB, DAY = 1024, 1024 * 1024, 24 * 60 * 60
LIMITS = {
    "PROTOCOL_VERSION": 2,
    "MAX_ROOM_ID_CHARS": 128,
    "MAX_EVENT_ID_CHARS": 128,
    "MAX_ROOM_NAME_CHARS": 200,
    "MAX_EVENT_KIND_CHARS": 64,
    "MAX_ACTOR_ID_CHARS": 128,
    "MAX_ACTOR_LABEL_CHARS": 200,
    "MAX_MEMBERS": 128,
    "MAX_MEMBERS_JSON_BYTES": 128 * KIB,
    "MAX_EVENT_JSON_BYTES": 256 * KIB,
    "MAX_LOG_LIMIT": 500,
    "MAX_LOG_PAGE_BYTES": 2 * MIB,
    "MAX_ROOM_LIST_LIMIT": 500,
    "MAX_ACTIVE_ROOMS": 256,
    "MAX_DISBANDED_ROOM_TOMBSTONES": 512,
    "DISBANDED_ROOM_RETENTION_SECONDS": 90 * DAY,
    "MAX_EVENTS_PER_ROOM": 50_000,
    "MAX_ROOM_EVENT_BYTES": 256 * MIB,
    "MAX_GATEWAY_EVENT_BYTES": 16 * MIB,
    "MAX_LINK_TEXT_CHARS": 1024,
    "MAX_LINK_DOCUMENT_BYTES": 256 * KIB,
    "CONTROL_EVENT_COUNT_RESERVE": 64,
    "CONTROL_EVENT_BYTE_RESERVE": MIB,
}


def test_the_limits_are_those_that_gateways_agree_on() -> None:
    """Every limit of rooms is exported under its name, with its value."""
    assert {name: getattr(rooms, name) for name in rooms.__all__ if name.isupper()} == LIMITS
