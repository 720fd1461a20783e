"""What is left of a deleted session's admissions: identity, outcome and digests, and no word of its user."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from fsm.runtime.keys import RESULT_PREFIX, TERMINAL_ADMISSION_PREFIX, identity_key
from fsm.runtime.meta import forget, keep, kept
from fsm.runtime.parse import refusing
from storage import Row, Transaction, Value
from storage.canonical import decode_json
from storage.validate import storable

__all__ = ["buried_admission", "buried_identity", "bury_admission", "result_digest"]

_KEPT = (
    *("seq", "admission_id", "request_id", "principal_id", "target_session_id", "payload_digest"),
    *("intent", "status", "outcome", "owner_epoch", "generation"),
)


def result_digest(result_json: str | None) -> str | None:
    """Return the SHA-256 of a stored result, or None where none was stored."""
    return None if result_json is None else hashlib.sha256(result_json.encode()).hexdigest()


def bury_admission(tx: Transaction, row: Mapping[str, Value]) -> None:
    """Keep a tombstone of the admission and of its identity, and forget its result."""
    admission_id = str(row["admission_id"])
    result_key = RESULT_PREFIX + admission_id
    tombstone = {column: row[column] for column in _KEPT} | {"result_digest": result_digest(kept(tx, result_key))}
    identity = identity_key(str(row["principal_id"]), str(row["target_session_id"]), str(row["request_id"]))
    keep(tx, TERMINAL_ADMISSION_PREFIX + admission_id, json.dumps(tombstone, ensure_ascii=False))
    keep(tx, identity, json.dumps(admission_id, ensure_ascii=False))
    forget(tx, result_key)


def buried_admission(tx: Transaction, admission_id: str) -> Row | None:
    """Return the tombstone as the row that the admission had, with an empty payload, and `result_digest`; or None.

    Raises RuntimeStoreError(storage_unavailable) where it is damaged.
    """
    stored = kept(tx, TERMINAL_ADMISSION_PREFIX + admission_id)
    if stored is None:
        return None
    row: Any = decode_json(stored, label="the tombstone", error=_damaged)
    if not isinstance(row, dict) or not {*_KEPT, "result_digest"} <= row.keys():
        raise _damaged("the tombstone: expected what an admission leaves, found another value; mend the row")
    return {**row, "payload_json": "{}", "lineage_json": "[]", "retired_at": None}


def buried_identity(stored: Value) -> str:
    """Return the id of the admission of which this is the identity's tombstone; raises as `buried_admission`."""
    admission_id = decode_json(stored, label="the tombstone", error=_damaged)
    if not isinstance(admission_id, str) or not storable(admission_id):
        raise _damaged("the tombstone: expected the id of an admission, found another value; mend the row")
    return admission_id


_damaged = refusing("tombstone", "storage_unavailable")
