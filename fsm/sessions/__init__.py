"""Sessions: their store, their epoch, and what is asked of them.

Every call takes `db` first: a handle of `storage.open_database`, or a location that is opened once a process. Ids are
texts of 1 to 1024 characters, clocks and new ids are the handle's. A refusal is a `RuntimeStoreError`, whose `reason`
is one of `fsm.errors.REASONS`. The rules stand in `fsm.lifecycles.session_admission`.
"""

from fsm.errors import RuntimeStoreError
from fsm.lifecycles.admission_states import SessionAdmissionState
from fsm.lifecycles.limits import ADMISSION_QUEUE_MAX
from fsm.runtime.keys import REPLACEMENT_PREFIX
from fsm.runtime.messages import MESSAGE_FIELDS
from fsm.runtime.views import AdmissionView, MessageView, SessionView
from fsm.sessions.admitting import (
    admit_session_input,
    cancel_session_input,
    find_session_admission,
    get_session_admission,
    list_session_admissions,
)
from fsm.sessions.epochs import begin_runtime_epoch
from fsm.sessions.legacy import import_legacy_session_admissions
from fsm.sessions.moving import rehome_queued_inputs, retarget_local_automation
from fsm.sessions.mutations import mutate_runtime_session
from fsm.sessions.receipts import mutation_receipt_key, replay_mutation_receipt
from fsm.sessions.replacing import check_replaced_input, replacement_binding, retire_replaced_input
from fsm.sessions.results import MutationView
from fsm.sessions.steering import revert_steer_input, settle_steer_transfers, steer_replayed, steer_session_input
from fsm.sessions.store import append_message, create_session, end_session, get_session, list_messages
from fsm.sessions.turns import (
    ANY_HEAD,
    claim_session_input,
    recover_session_inputs,
    resolve_unknown_session_input,
    settle_session_input,
)

__all__ = [
    "ADMISSION_QUEUE_MAX",
    "ANY_HEAD",
    "MESSAGE_FIELDS",
    "REPLACEMENT_PREFIX",
    "AdmissionView",
    "MessageView",
    "MutationView",
    "RuntimeStoreError",
    "SessionAdmissionState",
    "SessionView",
    "admit_session_input",
    "append_message",
    "begin_runtime_epoch",
    "cancel_session_input",
    "check_replaced_input",
    "claim_session_input",
    "create_session",
    "end_session",
    "find_session_admission",
    "get_session",
    "get_session_admission",
    "import_legacy_session_admissions",
    "list_messages",
    "list_session_admissions",
    "mutate_runtime_session",
    "mutation_receipt_key",
    "recover_session_inputs",
    "rehome_queued_inputs",
    "replacement_binding",
    "replay_mutation_receipt",
    "resolve_unknown_session_input",
    "retarget_local_automation",
    "retire_replaced_input",
    "revert_steer_input",
    "settle_session_input",
    "settle_steer_transfers",
    "steer_replayed",
    "steer_session_input",
]
