"""Revoked grants: which grants to use a profile of this gateway no longer count, by their scope and time of issue."""

import hashlib
from collections.abc import Mapping

from fsm.calling import operation
from fsm.errors import HostedRoomError
from fsm.lifecycles.tables import REVOKED_GRANTS
from fsm.rooms.machines import PEER_RESERVATION_MACHINE
from fsm.rooms.parse import Location, opened_at
from fsm.rooms.records import mapping_of, parse_scope
from storage import Transaction, Value, canonical_json, number

__all__ = ["revoke_room_grant_scope", "room_grant_is_revoked"]

_MAX_SCOPE_BYTES = 4 * 1024
_DROP_EXPIRED = f"DELETE FROM {REVOKED_GRANTS.name} WHERE expires_at <= :now"
_NEVER_SHORTENED = ", ".join(
    f"{column} = CASE WHEN {REVOKED_GRANTS.name}.{column} > excluded.{column}"
    f" THEN {REVOKED_GRANTS.name}.{column} ELSE excluded.{column} END"
    for column in ("expires_at", "revoked_before")
)
_REVOKE = (
    f"INSERT INTO {REVOKED_GRANTS.name} (scope_key, expires_at, revoked_before)"
    f" VALUES (:scope_key, :expires_at, :now) ON CONFLICT (scope_key) DO UPDATE SET {_NEVER_SHORTENED}"
)
_REVOKED = (
    f"SELECT scope_key FROM {REVOKED_GRANTS.name}"
    " WHERE scope_key = :scope_key AND expires_at > :now AND revoked_before >= :issued_at"
)


def _scope_key(scope: Mapping[str, Value]) -> str:
    """Return a name for the scope that tells nothing about it."""
    # Every part as text: an epoch that a claim spells as a number means the same.
    parts = {name: str(value) for name, value in scope.items()}
    encoded = canonical_json(
        parts, label="claims", error=HostedRoomError, maximum_bytes=_MAX_SCOPE_BYTES, ascii_only=False
    )
    return hashlib.sha256(encoded.encode()).hexdigest()


@operation(HostedRoomError)
def revoke_room_grant_scope(
    db: Location, *, claims: Mapping[str, object], expires_at: object, now: object = None
) -> None:
    """Revoke every grant of one scope that was issued until now, and the reservation that was made with it.

    `expires_at` is the instant in seconds from which no such grant counts anyhow: one that has passed leaves nothing to
    revoke. Calling again only ever revokes more. Raises HostedRoomError.
    """
    scope = parse_scope(claims)
    until = number(expires_at, label="expires_at", error=HostedRoomError)
    handle, at = opened_at(db, now)
    if until <= at:
        return
    revocation: dict[str, Value] = {"scope_key": _scope_key(scope), "expires_at": until, "now": at}

    def body(tx: Transaction) -> None:
        tx.execute(_DROP_EXPIRED, revocation)
        tx.execute(_REVOKE, revocation)
        PEER_RESERVATION_MACHINE.fire(tx, "revoke", now=at, **scope)

    handle.write(body)


@operation(HostedRoomError)
def room_grant_is_revoked(db: Location, *, claims: Mapping[str, object], now: object = None) -> bool:
    """Tell whether a grant was issued at or before the latest revocation of its scope that still counts.

    `claims` may hold `issued_at`, in seconds; a grant that does not say when is as old as can be. Raises
    HostedRoomError.
    """
    fields = mapping_of(claims, label="claims")
    scope, issued = parse_scope(fields), fields.get("issued_at")
    grant: dict[str, Value] = {
        "scope_key": _scope_key(scope),
        "issued_at": 0.0 if issued is None else number(issued, label="issued_at", error=HostedRoomError),
    }
    handle, at = opened_at(db, now)
    return bool(handle.read(lambda tx: tx.execute(_REVOKED, {**grant, "now": at})))
