"""The turn of a conversation, leased to one holder at a time. Rules: `fsm.lifecycles.session_turn_lease`."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import quoted, sql
from fsm.lifecycles.limits import MAX_TURN_LEASE_SECONDS, MIN_TURN_LEASE_SECONDS, TURN_LEASE_SECONDS
from fsm.lifecycles.runtime_tables import TURN_LEASES
from fsm.lifecycles.session_turn_lease import HELD, SESSION_TURN_LEASE
from fsm.machine import Outcome, Record
from fsm.runtime.lineage import oldest_of
from fsm.runtime.parse import parse_text, refusing
from storage import Value, number, record

__all__ = ["acquire_turn", "parse_holder", "parse_turn", "release_turn", "renew_turn", "require_turn"]

_HELD_BY = f"""
    SELECT holder FROM {quoted(TURN_LEASES.name)} WHERE conversation_id = :conversation_id AND {sql(HELD.terms)}
"""


@frozen
class Turn:
    """Who wants the turn, and for how many seconds."""

    holder: str
    seconds: float


def parse_turn(payload: Mapping[str, Any]) -> Turn:
    """Return what acquires or renews a turn; raises RuntimeStoreError(invalid_params)."""
    fields = record(
        payload, label="payload", error=refusing("payload"), required=("holder",), optional=("ttl_seconds",)
    )
    seconds = number(fields.get("ttl_seconds", TURN_LEASE_SECONDS), label="ttl_seconds", error=refusing("ttl_seconds"))
    if not MIN_TURN_LEASE_SECONDS <= seconds <= MAX_TURN_LEASE_SECONDS:
        raise refusing("ttl_seconds")(
            f"ttl_seconds: expected {MIN_TURN_LEASE_SECONDS} to {MAX_TURN_LEASE_SECONDS} seconds, found another;"
            " pass one within"
        )
    return Turn(parse_text(fields["holder"], "holder"), seconds)


def parse_holder(payload: Mapping[str, Any]) -> str:
    """Return who releases a turn; raises RuntimeStoreError(invalid_params)."""
    fields = record(payload, label="payload", error=refusing("payload"), required=("holder",))
    return parse_text(fields["holder"], "holder")


def acquire_turn(call: Record, turn: Turn) -> dict[str, Any]:
    """Take the turn that is free or expired, or extend one's own; False where another holder has it."""
    return {"value": not _fire(call, "acquire", holder=turn.holder, expires_at=call.now + turn.seconds).declined}


def renew_turn(call: Record, turn: Turn) -> dict[str, Any]:
    """Extend one's own turn; False where it has expired or is another's."""
    return {"value": not _fire(call, "renew", holder=turn.holder, expires_at=call.now + turn.seconds).declined}


def release_turn(call: Record, holder: str) -> dict[str, Any]:
    """Give up one's own turn, if it is that."""
    _fire(call, "release", holder=holder)
    return {"value": None}


def require_turn(call: Record, holder: str) -> None:
    """Raise RuntimeStoreError(permission_denied) where another holder has the turn."""
    held = call.tx.execute(_HELD_BY, {"conversation_id": _conversation(call), "now": call.now})
    if held and held[0]["holder"] != holder:
        raise RuntimeStoreError(
            "permission_denied",
            field="turn_lease_holder",
            detail="expected the turn to be this holder's, found another's; acquire it when it is free",
        )


def _fire(call: Record, trigger: str, **arguments: Value) -> Outcome:
    return call.fire(SESSION_TURN_LEASE.name, trigger, conversation_id=_conversation(call), **arguments)


def _conversation(call: Record) -> str:
    return oldest_of(call.tx, str(call.values["session_id"]))
