"""Receipts of mutations: one for each request, with which its exact retry is answered, whatever happened since."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, cast

from fsm.errors import RuntimeStoreError
from fsm.lifecycle.terms import quoted
from fsm.lifecycles.limits import MAX_RUNTIME_JSON_BYTES
from fsm.lifecycles.runtime_tables import META
from fsm.lifecycles.session_authorities import CONFLICT
from fsm.runtime.keys import MUTATION_PREFIX, admission_fingerprint, request_key
from fsm.runtime.meta import forget, keep, keep_first, kept
from fsm.runtime.parse import call, parse_object, parse_text, parse_transaction, refusing
from fsm.sessions.payloads import parse_counter, parse_operation
from fsm.sessions.results import MutationView
from storage import Transaction, canonical_json
from storage.canonical import decode_json

__all__ = ["mutation_receipt_key", "replay_mutation_receipt", "reserve", "store", "strip_texts"]

MESSAGE: Final = "target_message"
WORDS: Final = frozenset({"title", "summary"})
TEXTS: Final = WORDS | {MESSAGE}
"""What a result may hold of a user's words; it goes with the session."""

_NAMING = f"""
    SELECT "key", "value" FROM {quoted(META.name)}
    WHERE "key" >= :first AND "key" < :beyond AND "value" LIKE :naming ESCAPE '!' ORDER BY "key"
"""
_BOUNDS: Final = {"first": MUTATION_PREFIX, "beyond": f"{MUTATION_PREFIX[:-1]}{chr(ord(MUTATION_PREFIX[-1]) + 1)}"}


@call
def mutation_receipt_key(
    principal_id: object,
    session_id: object,
    request_id: object,
    *,
    operation: object,
    payload: object,
    expected_revision: object,
    expected_generation: object = None,
) -> tuple[str, str]:
    """Return the key under which `state_meta` keeps the receipt of a mutation, and the digest of what it asks.

    The key is that of (principal_id, session_id, request_id), the digest that of all the rest. Raises
    RuntimeStoreError(invalid_params).
    """
    names = (("principal_id", principal_id), ("session_id", session_id), ("request_id", request_id))
    principal, session, request = (parse_text(value, field) for field, value in names)
    asked = {
        "operation": parse_operation(operation),
        "payload": json.loads(parse_object(payload, "payload")),
        "expected_revision": parse_counter(expected_revision, "expected_revision"),
    }
    if expected_generation is not None:
        asked["expected_generation"] = parse_counter(expected_generation, "expected_generation")
    key = request_key(MUTATION_PREFIX, principal, session, request)
    return key, admission_fingerprint(canonical_target=session, payload=asked)


@call
def replay_mutation_receipt(tx: Transaction, key: object, digest: object) -> MutationView | None:
    """Return what is stored for a request, by what `mutation_receipt_key` answered; None where it never came.

    Raises RuntimeStoreError: invalid_params; admission_conflict where the receipt is of another request under the same
    identity; storage_unavailable where it is damaged.
    """
    parsed_key, parsed_digest = parse_text(key, "key"), parse_text(digest, "digest")
    open_tx, _ = parse_transaction(tx)
    return _replayed(open_tx, parsed_key, parsed_digest)


def _replayed(tx: Transaction, key: str, digest: str) -> MutationView | None:
    stored = kept(tx, key)
    if stored is None:
        return None
    receipt = decode_json(stored, label="the receipt", error=refusing("receipt", "storage_unavailable"))
    if not isinstance(receipt, dict) or not {"digest", "result"} <= receipt.keys():
        raise RuntimeStoreError(
            "storage_unavailable", field="receipt", detail="expected a digest and a result, found others; mend the row"
        )
    if receipt["digest"] != digest:
        raise CONFLICT.error(f"expected the request that this receipt is of, found another; {CONFLICT.remedy}")
    return cast("MutationView | None", receipt["result"])


def reserve(tx: Transaction, key: str, digest: str) -> MutationView | None:
    """Take the place of a receipt that there is not yet, or return what is stored for the exact retry.

    Taken ahead of everything else, so that of two requests under one identity the later one waits for the earlier to
    commit, and is then answered like any retry. Raises as `replay_mutation_receipt`.
    """
    if keep_first(tx, key, json.dumps({"digest": digest, "result": None})):
        return None
    return _replayed(tx, key, digest)


def store(tx: Transaction, key: str, digest: str, result: Mapping[str, Any]) -> MutationView:
    """Keep the result in the place that was taken, and return it as a retry will return it."""
    encoded = canonical_json(
        {"digest": digest, "result": dict(result)},
        label="result",
        error=refusing("result"),
        maximum_bytes=MAX_RUNTIME_JSON_BYTES,
        ascii_only=False,
    )
    keep(tx, key, encoded)
    return cast("MutationView", json.loads(encoded)["result"])


def strip_texts(tx: Transaction, session_ids: Collection[str]) -> None:
    """Take the user's words out of every receipt whose result names one of these sessions; the rest of it stays."""
    for session_id in session_ids:
        named = json.dumps(session_id, ensure_ascii=False)
        for sign in "!%_":
            named = named.replace(sign, f"!{sign}")
        for row in tx.execute(_NAMING, {**_BOUNDS, "naming": f"%{named}%"}):
            _strip(tx, str(row["key"]), str(row["value"]), session_id)


def _strip(tx: Transaction, key: str, stored: str, session_id: str) -> None:
    try:
        receipt = decode_json(stored, label="the receipt", error=ValueError)
    except ValueError:
        receipt = None
    kinds = {"digest": str, "result": dict}
    if not isinstance(receipt, dict) or not all(isinstance(receipt.get(name), kinds[name]) for name in kinds):
        # It answers no retry, and nobody can tell what of it is a user's words.
        forget(tx, key)
        return
    result = {name: value for name, value in receipt["result"].items() if name not in TEXTS}
    if len(result) < len(receipt["result"]) and session_id in _named(receipt["result"]):
        store(tx, key, receipt["digest"], result)


def _named(result: Mapping[str, Any]) -> Iterator[object]:
    """Yield what may be a session's id; a message that a rewinding removed need not be of the session it named."""
    for name, value in result.items():
        if name == MESSAGE:
            yield value.get("session_id") if isinstance(value, dict) else None
        elif name not in WORDS:
            yield from value if isinstance(value, list) else (value,)
