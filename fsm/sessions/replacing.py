"""Replacing: a queued input withdrawn in the very transaction that admits its successor."""

from fsm.lifecycles.session_authorities import CONFLICT
from fsm.runtime.keys import REPLACEMENT_PREFIX, request_key
from fsm.runtime.machines import ADMISSION_MACHINE
from fsm.runtime.meta import kept
from fsm.runtime.parse import call, parse_text, parse_transaction, refusing
from fsm.runtime.tombstones import buried_admission
from fsm.sessions.admitting import not_found
from fsm.sessions.steering import already_started
from storage import Transaction
from storage.canonical import decode_json

__all__ = ["check_replaced_input", "replacement_binding", "retire_replaced_input"]


@call
def replacement_binding(principal_id: object, session_id: object, request_id: object) -> str:
    """Return the key that binds a replacement's identity to the admission which it retired.

    Raises RuntimeStoreError(invalid_params).
    """
    names = (("principal_id", principal_id), ("session_id", session_id), ("request_id", request_id))
    principal, session, request = (parse_text(value, field) for field, value in names)
    return request_key(REPLACEMENT_PREFIX, principal, session, request)


@call
def retire_replaced_input(tx: Transaction, admission_id: object, binding: object) -> None:
    """Cancel a queued input for the successor that is being admitted in this transaction, and bind the two.

    Called from the `authorize_write` of the successor's admission, so that its exact retry does not come here again.
    Raises RuntimeStoreError: invalid_params; not_found; admission_started where it is no longer queued.
    """
    name, key = parse_text(admission_id, "admission_id"), parse_text(binding, "binding")
    open_tx, now = parse_transaction(tx)
    if ADMISSION_MACHINE.fire(open_tx, "replace", now=now, admission_id=name, binding=key).declined:
        raise not_found() if buried_admission(open_tx, name) is None else already_started()


@call
def check_replaced_input(tx: Transaction, admission_id: object, binding: object) -> None:
    """Refuse the retry of a replacement that did not retire this admission; for the `replay_guard` of its admission.

    Raises RuntimeStoreError: invalid_params; admission_conflict; storage_unavailable where the binding is damaged.
    """
    name, key = parse_text(admission_id, "admission_id"), parse_text(binding, "binding")
    open_tx, _ = parse_transaction(tx)
    stored = kept(open_tx, key)
    damaged = refusing("binding", "storage_unavailable")
    if stored is None or decode_json(stored, label="the binding", error=damaged) != name:
        raise CONFLICT.error(f"expected the request that replaced this admission, found another; {CONFLICT.remedy}")
