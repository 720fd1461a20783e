"""What may be written into a log, and by whom: the kinds of event by the kinds of actor, and the shape of both."""

import json
from typing import Any

import pytest

from fsm.rooms import EventView, HostedRoomError
from tests import bad_input as bad
from tests.rooms.support import Gateway

# What is refused before the database is asked is refused alike on each; what must not escape any is the property below.
pytestmark = pytest.mark.engines("sqlite")

GATEWAY = (
    "member.unavailable",
    "room.activity",
    "room.stop_requested",
    "turn.cancelled",
    "turn.deferred",
    "turn.failed",
    "turn.reassigned",
    "turn.settled",
    "turn.started",
)
MATRIX: dict[str, tuple[str, ...]] = {
    "user": ("message.user",),
    "member": ("message.member",),
    "gateway": GATEWAY,
    "system": ("authority.lost", "room.created", "room.members_changed"),
}
OWN = {"authority.claimed": "claim_authority", "room.disbanded": "disband_room", "room.renamed": "rename_room"}
KINDS = (*(kind for kinds in MATRIX.values() for kind in kinds), *OWN)
CELLS = [(actor, kind) for actor in MATRIX for kind in KINDS]


@pytest.fixture
def room(gateway: Gateway) -> Gateway:
    """A gateway with the live room `room`."""
    gateway.create()
    return gateway


def append(room: Gateway, actor: Any, kind: Any = "message.user", payload: Any = None) -> EventView:
    """Append an event of this actor and kind."""
    return room.append(kind=kind, actor=actor, payload={} if payload is None else payload)


@pytest.mark.parametrize(("actor", "kind"), CELLS)
def test_the_matrix_of_actors_and_kinds(room: Gateway, actor: str, kind: str) -> None:
    """Each kind of event may be caused by its own kind of actor, and by no other."""
    author = {"kind": actor, "id": "gw"}
    if kind in MATRIX[actor]:
        view = append(room, author, kind)
        assert (view["kind"], view["actor"]) == (kind, author)
        return
    with room.refuses(HostedRoomError):
        append(room, author, kind)


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("actor", MATRIX)
def test_what_reports_a_change_is_written_by_the_change_alone(room: Gateway, kind: str, actor: str) -> None:
    """An event that says that a room was renamed, claimed or disbanded would lie; the refusal names what to call."""
    with pytest.raises(HostedRoomError, match=OWN[kind]):
        append(room, {"kind": actor, "id": "gw"}, kind)
    assert room.events() == []


@pytest.mark.parametrize("kind", GATEWAY)
def test_a_gateway_speaks_for_itself_alone(room: Gateway, kind: str) -> None:
    """The id of an actor that is a gateway must be that of the authority that appends."""
    with room.refuses(HostedRoomError):
        append(room, {"kind": "gateway", "id": "gw2"}, kind)


def test_a_stop_request_may_also_be_appended(room: Gateway) -> None:
    """Under an id of the caller's own, as existing gateways do."""
    view = append(room, {"kind": "gateway", "id": "gw"}, "room.stop_requested", {"cancel_id": "c1"})
    assert view["seq"] == 1
    assert room.stop("c1")["seq"] == 2


LABELS = {"display_name": 200, "profile": 128, "connection_id": 128}


@pytest.mark.parametrize(("label", "most"), LABELS.items())
def test_labels_are_stripped_and_measured_in_characters(room: Gateway, label: str, most: int) -> None:
    """A label is any text of so many characters, white space around it aside; one more character is refused."""
    text = "\N{EARTH GLOBE EUROPE-AFRICA}" * most
    view = append(room, {"kind": "user", "id": "ann", label: f" {text}\n"})
    assert view["actor"] == {"kind": "user", "id": "ann", label: text}
    with room.refuses(HostedRoomError):
        room.append("m2", actor={"kind": "user", "id": "ann", label: text + "x"})


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("blank", [None, "", " \t\n"])
def test_a_blank_label_is_none(room: Gateway, label: str, blank: object) -> None:
    """What is left out, null or blank is not stored, so that all three are one content."""
    first = append(room, {"kind": "user", "id": "ann", label: blank})
    assert first["actor"] == {"kind": "user", "id": "ann"}
    assert append(room, {"kind": "user", "id": "ann"})["idempotent"] is True


def test_the_longest_actor_fits(room: Gateway) -> None:
    """Every label at its longest, of the characters that JSON spells longest, is stored and found again."""
    actor = {"kind": "user", "id": "a" * 128, **{label: "\x01" * most for label, most in LABELS.items()}}
    assert append(room, actor)["actor"] == actor
    assert append(room, actor)["idempotent"] is True


NO_KINDS: list[Any] = [None, 1, True, "", "User", " user", "bot", [], {}, b"user"]
ACTORS: list[Any] = [
    *(None, 1, "ann", [], (), object(), {}, {"kind": "user"}, {"id": "ann"}),
    *({"kind": kind, "id": "ann"} for kind in NO_KINDS),
    *({"kind": "user", "id": value} for value in bad.IDENTIFIERS),
    *({"kind": "user", "id": "ann", key: "x"} for key in ("name", "", "Kind", 1, None, ("a",), "\ud800")),
    *(
        {"kind": "user", "id": "ann", label: value}
        for label in LABELS
        for value in (1, True, b"x", [], {}, object(), "a\0b", "\ud800", "x" * 201)
    ),
]
PAYLOADS: list[Any] = [
    *(None, 1, "x", True, [], (), object(), b"x"),
    *({"key": value} for value in bad.JSON),
    *({key: 1} for key in (1, None, True, ("a",), "\ud800", "a\0b")),
    {"text": "x" * (256 * 1024 - 10)},
    {"text": "\N{LATIN SMALL LETTER E WITH ACUTE}" * (128 * 1024 - 5)},
]
BAD_KINDS: list[Any] = [
    *(None, 1, 1.5, True, b"message.user", [], {}, object()),
    *("", " ", "x" * 65, "Message.user", "message", "message.", "message.user\0", "\ud800", "message user"),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("actor", value) for value in ACTORS),
        *(("payload", value) for value in PAYLOADS),
        *(("kind", value) for value in BAD_KINDS),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "bad",
)
def test_bad_content_is_refused(room: Gateway, name: str, value: Any) -> None:
    """Whatever is wrong with an actor, a payload or a kind, it is refused as such and nothing is stored."""
    with room.refuses(HostedRoomError):
        room.append(**{name: value})


def test_a_refusal_repeats_nothing_of_an_event(room: Gateway) -> None:
    """Neither message, label nor an unknown field of an actor shows in a refusal."""
    secret = "s3cret"
    actor = {"kind": "user", "id": "ann"}
    bad_calls: list[dict[str, Any]] = [
        {"payload": {"text": f"{secret}\0"}},
        {"payload": {f"{secret}\0": 1}},
        {"actor": {**actor, "display_name": secret * 40}},
        {"actor": {**actor, secret: "x"}},
        {"kind": secret},
    ]
    for changes in bad_calls:
        with pytest.raises(HostedRoomError) as refusal:
            room.append(**changes)
        assert secret not in str(refusal.value)
    room.append("m1", secret)
    with pytest.raises(HostedRoomError) as refusal:
        room.append("m1", f"{secret}!")
    assert secret not in str(refusal.value)


def test_the_largest_payload(room: Gateway) -> None:
    """A payload of 256 KiB of UTF-8 exactly is stored, in any script, and one byte more is not."""
    frame = len('{"text":""}')
    for number, character in enumerate(("x", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{SNOWMAN}")):
        count, rest = divmod(256 * 1024 - frame, len(character.encode()))
        text = character * count + "y" * rest
        room.append(f"m{number}", text)
        assert len(str(room.events()[number]["payload_json"]).encode()) == 256 * 1024
        with room.refuses(HostedRoomError):
            room.append("more", text + "y")


def test_a_payload_is_stored_as_json_and_read_back_the_same(room: Gateway) -> None:
    """What a payload holds comes back as JSON has it: numbers, nesting, null and any text."""
    payload = {"b": [1, 1.5, True, None, {"x": []}], "a": '\N{LINE SEPARATOR}"\\\n\x7f', "": 2**63 - 1}
    view = append(room, {"kind": "user", "id": "ann"}, payload=payload)
    assert view["payload"] == payload == room.read()["events"][0]["payload"] == json.loads(json.dumps(payload))
