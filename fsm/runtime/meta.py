"""`state_meta`: one text under one key, read and written in the open transaction."""

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.runtime_tables import META
from storage import Transaction

__all__ = ["forget", "keep", "keep_first", "kept"]

_KEPT = f'SELECT "value" FROM {quoted(META.name)} WHERE "key" = :key'
_KEEP = f"""
    INSERT INTO {quoted(META.name)} ("key", "value") VALUES (:key, :value)
    ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value"
"""
_KEEP_FIRST = f"""
    INSERT INTO {quoted(META.name)} ("key", "value") VALUES (:key, :value) ON CONFLICT DO NOTHING RETURNING "key"
"""
_FORGET = f'DELETE FROM {quoted(META.name)} WHERE "key" = :key'


def kept(tx: Transaction, key: str) -> str | None:
    """Return what is kept under the key, or None."""
    rows = tx.execute(_KEPT, {"key": key})
    return str(rows[0]["value"]) if rows and rows[0]["value"] is not None else None


def keep(tx: Transaction, key: str, value: str) -> None:
    """Keep the value under the key, in place of what was kept there."""
    tx.execute(_KEEP, {"key": key, "value": value})


def keep_first(tx: Transaction, key: str, value: str) -> bool:
    """Keep the value where nothing is kept under the key, and say so.

    Of two transactions that try, the later one waits for the earlier to end, and finds what that has kept.
    """
    return bool(tx.execute(_KEEP_FIRST, {"key": key, "value": value}))


def forget(tx: Transaction, key: str) -> None:
    """Delete what is kept under the key."""
    tx.execute(_FORGET, {"key": key})
