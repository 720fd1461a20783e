"""Driver leases and driver tasks: who may work on a room, and what became of each turn.

Every call takes `db` first: a handle of `storage.open_database`, or a location that is opened once a process. Instants
and durations are seconds; `clock` is read once a call, and the handle's clock where none is given. The rules stand in
`fsm.lifecycles.driver_lease` and `fsm.lifecycles.driver_task`; the functions here parse, fire and show.
"""

from typing import Final

from fsm.driver.cancellation import begin_task_cancel, cancel_task, complete_task_cancel
from fsm.driver.leases import acquire_lease, new_process_generation, release_lease, renew_lease
from fsm.driver.parse import Clock, TaskPayload
from fsm.driver.reading import get_task, list_tasks, prune_published_terminal_tasks
from fsm.driver.recovery import (
    defer_indeterminate_task,
    recover_room,
    requeue_deferred_task,
    requeue_indeterminate_task,
    resolve_indeterminate_cancellation,
    resolve_indeterminate_task,
)
from fsm.driver.tasks import admit_task, requeue_not_admitted_task, settle_stopping_task, settle_task, start_task
from fsm.driver.values import DriverLease, TaskAttempt, TaskIdentity
from fsm.driver.views import LeaseRelease, RoomRecovery, TaskView
from fsm.errors import (
    DriverStateError,
    DriverValidationError,
    InvalidTaskTransitionError,
    LeaseHeldError,
    RoomUnavailableError,
    StaleLeaseError,
    StaleTaskError,
    TaskConflictError,
)
from fsm.lifecycles import DRIVER_TASK
from fsm.lifecycles.driver_task import DriverTaskState
from fsm.lifecycles.limits import (
    MAX_IDENTIFIER_CHARS,
    MAX_PROMPT_BYTES,
    MAX_RESULT_JSON_BYTES,
    MAX_RETAINED_TERMINAL_TASKS,
    MAX_TASK_PRUNE_BATCH,
    TERMINAL_TASK_RETENTION_SECONDS,
)

TASK_STATUSES: Final = frozenset(state.name for state in DRIVER_TASK.states)
"""Every state of a task."""
TERMINAL_STATUSES: Final = frozenset(state.name for state in DRIVER_TASK.final)
"""The states in which a task has ended."""

__all__ = [
    "MAX_IDENTIFIER_CHARS",
    "MAX_PROMPT_BYTES",
    "MAX_RESULT_JSON_BYTES",
    "MAX_RETAINED_TERMINAL_TASKS",
    "MAX_TASK_PRUNE_BATCH",
    "TASK_STATUSES",
    "TERMINAL_STATUSES",
    "TERMINAL_TASK_RETENTION_SECONDS",
    "Clock",
    "DriverLease",
    "DriverStateError",
    "DriverTaskState",
    "DriverValidationError",
    "InvalidTaskTransitionError",
    "LeaseHeldError",
    "LeaseRelease",
    "RoomRecovery",
    "RoomUnavailableError",
    "StaleLeaseError",
    "StaleTaskError",
    "TaskAttempt",
    "TaskConflictError",
    "TaskIdentity",
    "TaskPayload",
    "TaskView",
    "acquire_lease",
    "admit_task",
    "begin_task_cancel",
    "cancel_task",
    "complete_task_cancel",
    "defer_indeterminate_task",
    "get_task",
    "list_tasks",
    "new_process_generation",
    "prune_published_terminal_tasks",
    "recover_room",
    "release_lease",
    "renew_lease",
    "requeue_deferred_task",
    "requeue_indeterminate_task",
    "requeue_not_admitted_task",
    "resolve_indeterminate_cancellation",
    "resolve_indeterminate_task",
    "settle_stopping_task",
    "settle_task",
    "start_task",
]
