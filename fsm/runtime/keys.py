"""Fingerprints, and the keys under which `state_meta` keeps results, bindings, receipts and tombstones."""

import hashlib
import json
from typing import Any, Final

__all__ = [
    "IDENTITY_PREFIX",
    "LEGACY_IMPORT_KEY",
    "MUTATION_PREFIX",
    "REPLACEMENT_PREFIX",
    "RESERVED_EXECUTION_PREFIX",
    "RESULT_PREFIX",
    "RETIRED_SESSION_PREFIX",
    "TERMINAL_ADMISSION_PREFIX",
    "TERMINAL_WORKER_PREFIX",
    "admission_fingerprint",
    "content_digest",
    "identity_key",
    "operation_digest",
    "request_key",
]

RESULT_PREFIX: Final = "gateway.admission.result.v1."
REPLACEMENT_PREFIX: Final = "gateway.queued_replacement.v1."
MUTATION_PREFIX: Final = "gateway.mutation.v1."
LEGACY_IMPORT_KEY: Final = "gateway.prompt_admissions_import.v1"
RETIRED_SESSION_PREFIX: Final = "gateway.retired_session.v1."
TERMINAL_ADMISSION_PREFIX: Final = "gateway.terminal_admission.v1."
IDENTITY_PREFIX: Final = "gateway.terminal_identity.v1."
TERMINAL_WORKER_PREFIX: Final = "gateway.terminal_worker.v1."
RESERVED_EXECUTION_PREFIX: Final = "admission-worker:"
"""How the id of an execution begins that an admission has reserved."""


def admission_fingerprint(*, canonical_target: str, payload: Any) -> str:
    """Return the SHA-256 of the compact, sorted JSON of payload and target, in hexadecimal digits."""
    return _digest(_encoded({"payload": payload, "target": canonical_target}))


def content_digest(session_id: str, payload_json: str, intent: str) -> str:
    """Return the fingerprint of an admission's content, from its payload as it is stored.

    The stored text is spliced in as it is, so that a row moves to another session though nobody can decode it.
    """
    return _digest(
        f'{{"payload":{{"input":{payload_json},"intent":{_encoded(intent)}}},"target":{_encoded(session_id)}}}'
    )


def operation_digest(session_id: str, operation: str, payload_json: str) -> str:
    """Return the fingerprint of a worker's operation, from its payload as canonical JSON."""
    return _digest(
        f'{{"payload":{{"operation":{_encoded(operation)},"payload":{payload_json}}},"target":{_encoded(session_id)}}}'
    )


def request_key(prefix: str, principal_id: str, session_id: str, request_id: str) -> str:
    """Return the key under this prefix of what a principal asked a session under a request id."""
    payload = {"principal": principal_id, "request": request_id}
    return prefix + admission_fingerprint(canonical_target=session_id, payload=payload)


def identity_key(principal_id: str, session_id: str, request_id: str) -> str:
    """Return the key under which the identity of a deleted session's admission is kept."""
    return request_key(IDENTITY_PREFIX, principal_id, session_id, request_id)


# Made once: making an encoder costs more than most of these values cost to encode.
_encoded = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _digest(encoded: str) -> str:
    return hashlib.sha256(encoded.encode()).hexdigest()
