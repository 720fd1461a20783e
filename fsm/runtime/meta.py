"""`state_meta`: one text under one key, read and written in the open transaction."""

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import META
from storage import Transaction

__all__ = ["forget", "keep", "kept"]

_KEPT = f'SELECT "value" FROM {quoted(META.name)} WHERE "key" = :key'
_KEEP = f"""
    INSERT INTO {quoted(META.name)} ("key", "value") VALUES (:key, :value)
    ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value"
"""
_FORGET = f'DELETE FROM {quoted(META.name)} WHERE "key" = :key'


def kept(tx: Transaction, key: str) -> str | None:
    """Return what is kept under the key, or None."""
    rows = tx.execute(_KEPT, {"key": key})
    return str(rows[0]["value"]) if rows and rows[0]["value"] is not None else None


def keep(tx: Transaction, key: str, value: str) -> None:
    """Keep the value under the key, in place of what was kept there."""
    tx.execute(_KEEP, {"key": key, "value": value})


def forget(tx: Transaction, key: str) -> None:
    """Delete what is kept under the key."""
    tx.execute(_FORGET, {"key": key})
