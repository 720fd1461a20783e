"""What may be written into a room's log, and by whom: checked and normalised before a transaction begins."""

from collections.abc import Mapping
from typing import Any, Final

from fsm.errors import HostedRoomError
from fsm.lifecycles.limits import (
    MAX_ACTOR_ID_CHARS,
    MAX_ACTOR_JSON_BYTES,
    MAX_ACTOR_LABEL_CHARS,
    MAX_EVENT_JSON_BYTES,
    MAX_EVENT_KIND_CHARS,
)
from storage import Value
from storage.canonical import canonical_json
from storage.validate import choice, identifier, instance, record, text

__all__ = ["CONTROL_KINDS", "KINDS_BY_ACTOR", "OWN_KINDS", "entry", "parse_actor", "parse_kind", "parse_payload"]

KINDS_BY_ACTOR: Final[Mapping[str, frozenset[str]]] = {
    "user": frozenset({"message.user"}),
    "member": frozenset({"message.member"}),
    "gateway": frozenset(
        {
            "member.unavailable",
            "room.activity",
            "room.stop_requested",
            "turn.cancelled",
            "turn.deferred",
            "turn.failed",
            "turn.reassigned",
            "turn.settled",
            "turn.started",
        }
    ),
    "system": frozenset(
        {
            "authority.claimed",
            "authority.lost",
            "room.created",
            "room.disbanded",
            "room.members_changed",
            "room.renamed",
        }
    ),
}
"""The kinds of event that each kind of actor may cause."""

OWN_KINDS: Final[Mapping[str, str]] = {
    "authority.claimed": "claim_authority",
    "room.disbanded": "disband_room",
    "room.renamed": "rename_room",
}
"""The kinds that report a change of the room, with the one function that makes the change and writes them."""

CONTROL_KINDS: Final = frozenset({"authority.claimed", "authority.lost", "room.disbanded", "room.stop_requested"})
"""The kinds that may use the reserve of a room, or gateway, that is full for everything else."""

_LABELS: Final = {
    "display_name": MAX_ACTOR_LABEL_CHARS,
    "profile": MAX_ACTOR_ID_CHARS,
    "connection_id": MAX_ACTOR_ID_CHARS,
}


def entry(
    event_id: str, kind: str, *, actor: Mapping[str, str], payload: Mapping[str, Any], epoch: int | None = None
) -> dict[str, Value]:
    """Return the arguments of an event that is ready to be stored; without an epoch it bears its room's own.

    Raises HostedRoomError where the payload is no JSON object of at most 256 KiB of UTF-8.
    """
    arguments: dict[str, Value] = {
        "event_id": event_id,
        "event_kind": kind,
        "event_actor_json": _json(actor, "actor", MAX_ACTOR_JSON_BYTES),
        "event_payload_json": _json(payload, "payload", MAX_EVENT_JSON_BYTES),
    }
    return arguments if epoch is None else {**arguments, "event_epoch": epoch}


def _json(value: object, label: str, maximum: int) -> str:
    return canonical_json(value, label=label, error=HostedRoomError, maximum_bytes=maximum, ascii_only=False)


def parse_kind(value: object) -> str:
    """Return the kind of a caller's event, stripped; those that report a change of the room are refused."""
    kind = text(value, label="kind", error=HostedRoomError).strip()
    text(kind, label="kind", error=HostedRoomError, maximum_characters=MAX_EVENT_KIND_CHARS)
    if kind in OWN_KINDS:
        raise HostedRoomError(f"kind: {kind} is written by {OWN_KINDS[kind]} alone, with the change; call that")
    return choice(kind, label="kind", error=HostedRoomError, options=frozenset().union(*KINDS_BY_ACTOR.values()))


def parse_actor(value: object, kind: str) -> dict[str, str]:
    """Return the actor of an event of this kind: kind and id, and the labels that are not blank, all stripped.

    `display_name` has at most 200 characters, `id`, `profile` and `connection_id` at most 128.
    """
    given = record(value, label="actor", error=HostedRoomError, required=("kind", "id"), optional=tuple(_LABELS))
    actor_kind = choice(given["kind"], label="actor.kind", error=HostedRoomError, options=KINDS_BY_ACTOR)
    if kind not in KINDS_BY_ACTOR[actor_kind]:
        allowed = ", ".join(sorted(KINDS_BY_ACTOR[actor_kind] - OWN_KINDS.keys()))
        raise HostedRoomError(
            f"kind: an actor of kind {actor_kind} may cause {allowed}, not {kind}; pass another actor"
        )
    actor_id = identifier(given["id"], label="actor.id", error=HostedRoomError, maximum=MAX_ACTOR_ID_CHARS)
    labels = {name: _label(given.get(name), f"actor.{name}", maximum) for name, maximum in _LABELS.items()}
    return {"kind": actor_kind, "id": actor_id, **{name: label for name, label in labels.items() if label}}


def _label(value: object, label: str, maximum: int) -> str:
    if value is None:
        return ""
    shown = text(value, label=label, error=HostedRoomError, blank=True).strip()
    return text(shown, label=label, error=HostedRoomError, maximum_characters=maximum, blank=True)


def parse_payload(value: object) -> dict[str, Any]:
    """Return the payload, which must be an object; `entry` judges what it holds."""
    payload: dict[str, Any] = instance(value, dict, label="payload", error=HostedRoomError)
    return payload
