"""Workers: their executions, and what these do to their session, each operation once.

Every call takes `db` first: a handle of `storage.open_database`, or a location that is opened once a process. Ids are
texts of 1 to 1024 characters, clocks are the handle's. A refusal is a `RuntimeStoreError`, whose `reason` is one of
`fsm.errors.REASONS`. The rules stand in `fsm.lifecycles.worker_execution` and `fsm.lifecycles.session_turn_lease`.
"""

from fsm.errors import RuntimeStoreError
from fsm.lifecycles.session_turn_lease import SessionTurnLeaseState
from fsm.lifecycles.worker_execution import WorkerExecutionState
from fsm.runtime.views import WorkerView
from fsm.workers.annotations import row_annotations
from fsm.workers.executions import adopt_worker_execution, register_worker_execution
from fsm.workers.operations import mutate_worker_execution
from fsm.workers.receipts import Handler, apply_worker_receipt
from fsm.workers.transcript import HANDOFF_MESSAGE_FIELDS

__all__ = [
    "HANDOFF_MESSAGE_FIELDS",
    "Handler",
    "RuntimeStoreError",
    "SessionTurnLeaseState",
    "WorkerExecutionState",
    "WorkerView",
    "adopt_worker_execution",
    "apply_worker_receipt",
    "mutate_worker_execution",
    "register_worker_execution",
    "row_annotations",
]
