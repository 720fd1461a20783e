"""What the room calls are handed as one object: a link, a grant's claims, a receipt."""

from collections.abc import Iterable, Mapping
from typing import Any

from fsm.errors import HostedRoomError
from fsm.lifecycles.limits import MAX_IDENTIFIER_CHARS
from fsm.lifecycles.tables import REMOTE_RUNS
from fsm.rooms.parse import parse_epoch, parse_gateway, parse_install, parse_member, parse_profile, parse_room_id
from storage import Value, identifier, integer

__all__ = ["fields_of", "mapping_of", "parse_reservation", "parse_run", "parse_scope"]


def fields_of(value: object, names: Iterable[str], *, label: str) -> dict[str, Any]:
    """Return the named fields of an object, all of which it must have; others are ignored."""
    fields, wanted = mapping_of(value, label=label), tuple(names)
    if missing := [name for name in wanted if name not in fields]:
        raise HostedRoomError(f"{label}: expected the fields {', '.join(missing)}, which are missing; add them")
    return {name: fields[name] for name in wanted}


def mapping_of(value: object, *, label: str) -> dict[Any, Any]:
    """Return an object as a plain dict, which cannot answer a check one thing and a use another."""
    if not isinstance(value, Mapping):
        raise HostedRoomError(f"{label}: expected an object, found a {type(value).__name__}; pass a dict")
    return dict(dict.items(value)) if isinstance(value, dict) else dict(value)


_RESERVATION = ("room_id", "member_id", "target_profile", "authority_gateway_id", "authority_epoch")
_SCOPE = (*_RESERVATION, "home_install_id", "target_install_id")


def parse_reservation(claims: object) -> dict[str, Value]:
    """Return whose claim on a profile a grant stands for: room, member, profile and the room's authority."""
    fields = fields_of(claims, _RESERVATION, label="claims")
    return {
        "room_id": parse_room_id(fields["room_id"]),
        "member_id": parse_member(fields["member_id"]),
        "target_profile": parse_profile(fields["target_profile"]),
        "authority_gateway_id": parse_gateway(fields["authority_gateway_id"], "authority_gateway_id"),
        "authority_epoch": parse_epoch(fields["authority_epoch"], "authority_epoch"),
    }


def parse_scope(claims: object) -> dict[str, Value]:
    """Return the whole scope of a grant: its reservation, and the installs at both ends."""
    fields = fields_of(claims, _SCOPE, label="claims")
    installs = {name: parse_install(fields[name], name) for name in ("home_install_id", "target_install_id")}
    return {**parse_reservation(fields), **installs}


def parse_run(record: object) -> dict[str, Value]:
    """Return the key of a run on another gateway: the grant's scope, the task and which execution of it."""
    fields = fields_of(record, REMOTE_RUNS.primary_key, label="record")
    task = identifier(fields["task_id"], label="task_id", error=HostedRoomError, maximum=MAX_IDENTIFIER_CHARS)
    generation = integer(fields["execution_generation"], label="execution_generation", error=HostedRoomError, minimum=1)
    return {**parse_scope(fields), "task_id": task, "execution_generation": generation}
