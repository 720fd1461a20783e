"""driver_task: one room turn, from its admission to its one outcome."""

from typing import Final, Literal

from fsm.errors import InvalidTaskTransitionError, StaleTaskError, TaskConflictError
from fsm.lifecycle import (
    GONE,
    NEW,
    NOW,
    Arg,
    Check,
    Do,
    Fence,
    Lifecycle,
    Load,
    Look,
    Not,
    Plus,
    Refusal,
    Replay,
    Source,
    Term,
    Trigger,
    Write,
    Writes,
    among,
    choice,
    edges,
    given,
    stored,
)
from fsm.lifecycles.authorities import LEASE, LIVE_ROOM, ROOM, THE_ROOM
from fsm.lifecycles.tables import LOCK_ORDER, PUBLICATIONS, TASK_ORDER, TASKS

__all__ = ["DRIVER_TASK", "DriverTaskState"]

DriverTaskState = Literal[
    "queued", "running", "settled", "failed", "cancelled", "indeterminate", "deferred", "stopping"
]

# --- refusals

_READ = "call get_task and decide on the state and generations that it returns"
MISSING: Final = Refusal(TaskConflictError, "admit the task first, or mend its identity")
OTHER_TURN: Final = Refusal(
    TaskConflictError, "use the identity under which this task_id was admitted, or a new task_id"
)
OTHER_CONTENT: Final = Refusal(
    TaskConflictError, "retry with the payload that was admitted, or admit under a new task_id"
)
TURN_TAKEN: Final = Refusal(TaskConflictError, "this turn already has a task under another task_id; use that one")
OTHER_SETTLEMENT: Final = Refusal(TaskConflictError, f"the task has another outcome already, which stays; {_READ}")
STALE: Final = Refusal(StaleTaskError, _READ)
WRONG_STATE: Final = Refusal(InvalidTaskTransitionError, _READ)
TWO_PHASES: Final = Refusal(InvalidTaskTransitionError, "the task may be at work; stop it with begin_task_cancel")
AT_ONCE: Final = Refusal(InvalidTaskTransitionError, "the task is not at work; cancel it at once with cancel_task")
UNRESOLVED: Final = Refusal(
    InvalidTaskTransitionError, "recover the room and resolve the earlier task before starting another"
)
NOT_NEXT: Final = Refusal(InvalidTaskTransitionError, "start the room's tasks in the order that list_tasks returns")
UNPUBLISHED: Final = Refusal(InvalidTaskTransitionError, "publish the outcome before pruning the task")

# --- terms

TURN: Final = given("thread_id", "turn_id")
GENERATIONS: Final = given("execution_generation", "cancel_generation")
CANCEL_GENERATION: Final = given("cancel_generation")
RUN_COLUMNS: Final = {
    "run_gateway_id": Arg("gateway_id"),
    "run_process_generation": Arg("process_generation"),
    "run_lease_generation": Arg("lease_generation"),
}
RUN: Final = tuple(Term(column, "=", argument) for column, argument in RUN_COLUMNS.items())
NEVER_RUN: Final = tuple(Term(column, "is null") for column in RUN_COLUMNS)
HAS_RUN: Final = tuple(Not(term) for term in NEVER_RUN)
ENDED: Final = Not(Term("terminal_at", "is null"))
SETTLEMENT: Final = (
    Term("settlement_id", "=", Arg("settlement_id")),
    Term("settlement_status", "=", Arg("status")),
    Term("result_json", "=", Arg("result_json")),
)
PUBLISHED: Final = Term("kind", "in", ("turn.settled", "turn.failed", "turn.cancelled"))
IS_SETTLED: Final = tuple(
    Not(Term(column, "is null")) for column in ("settlement_id", "settlement_status", "result_json")
)

# --- states

QUEUED: Final = stored(
    "status", "queued", "admitted, waiting for its turn; the driver starts it next in order", requires=NEVER_RUN
)
RUNNING: Final = stored(
    "status",
    "running",
    "a driver is at work under the lease that the row names",
    requires=(*HAS_RUN, Not(Term("started_at", "is null"))),
)
SETTLED: Final = stored("status", "settled", "the run reported success", final=True, requires=(*IS_SETTLED, ENDED))
FAILED: Final = stored("status", "failed", "the run reported failure", final=True, requires=(*IS_SETTLED, ENDED))
CANCELLED: Final = stored(
    "status",
    "cancelled",
    "stopped for good before an outcome",
    final=True,
    requires=(Not(Term("cancel_id", "is null")), ENDED),
)
INDETERMINATE: Final = stored(
    "status",
    "indeterminate",
    "its driver is gone and nobody knows how far it came; a person or a receipt resolves it",
    requires=Not(Term("indeterminate_at", "is null")),
)
DEFERRED: Final = stored(
    "status",
    "deferred",
    "uncertain work set aside so that the room goes on",
    requires=(Not(Term("result_json", "is null")), ENDED),
)
STOPPING: Final = stored(
    "status", "stopping", "a stop was asked for and not yet acknowledged", requires=Not(Term("cancel_id", "is null"))
)

STATES: Final = (QUEUED, RUNNING, STOPPING, INDETERMINATE, DEFERRED, SETTLED, FAILED, CANCELLED)
"""In the order of a task's life."""

# --- steps

LOAD: Final = Load(MISSING, (Check(TURN, OTHER_TURN),))
READABLE: Final = Do(
    "read_payload",
    "the stored payload decodes and is the one that was admitted; else TaskConflictError",
    reads_only=True,
)
SAME_SETTLEMENT: Final = Replay(SETTLEMENT, conflict=Not(Term("settlement_id", "is null")), refuse=OTHER_SETTLEMENT)
QUEUED_AGAIN: Final = Replay((*QUEUED.terms, *GENERATIONS, *NEVER_RUN))
SAME_CANCEL: Final = Replay((*CANCELLED.terms, *given("cancel_id")))
NOTHING_UNRESOLVED: Final = Look(
    "unresolved",
    TASKS,
    (*given("room_id"), among(RUNNING, INDETERMINATE, STOPPING)),
    order=TASK_ORDER,
    checks=(Check(Term("task_id", "is null"), UNRESOLVED),),
)
IS_HEAD: Final = Look(
    "head",
    TASKS,
    (*given("room_id"), *QUEUED.terms),
    order=TASK_ORDER,
    checks=(Check(given("task_id"), NOT_NEXT),),
)
STEPS_OF_A_RECOVERY: Final = (Fence(GENERATIONS, STALE), Source(STALE), READABLE, Write(STALE))

# --- writes

TOUCHED: Final[Writes] = {"updated_at": NOW}
SETTLES: Final[Writes] = {
    "settlement_id": Arg("settlement_id"),
    "settlement_status": Arg("status"),
    "result_json": Arg("result_json"),
    "terminal_at": NOW,
    **TOUCHED,
}
FORGETS_RUN: Final[Writes] = {**dict.fromkeys(RUN_COLUMNS), "started_at": None, **TOUCHED}
ASKS_CANCEL: Final[Writes] = {
    "cancel_generation": Plus("cancel_generation", 1),
    "cancel_id": Arg("cancel_id"),
    **TOUCHED,
}
CANCELS: Final[Writes] = {**ASKS_CANCEL, "terminal_at": NOW}

# --- triggers

ADMIT: Final = Trigger(
    "admit",
    "the gateway hands over a room turn",
    LIVE_ROOM,
    Load(checks=(Check(TURN, OTHER_TURN),)),
    Replay(given("payload_digest", "payload_json"), conflict=(), refuse=OTHER_CONTENT),
    Look("turn", TASKS, (*given("room_id"), *TURN), checks=(Check(Term("task_id", "is null"), TURN_TAKEN),)),
    Write(TURN_TAKEN),
    edges=edges(
        NEW,
        QUEUED,
        writes={
            **{
                name: Arg(name)
                for name in ("thread_id", "turn_id", "source_event_seq", "payload_json", "payload_digest")
            },
            "execution_generation": 0,
            "cancel_generation": 0,
            "created_at": NOW,
            **TOUCHED,
        },
    ),
)
START: Final = Trigger(
    "start",
    "the driver takes the head of the room's queue",
    ROOM,
    LEASE,
    LOAD,
    Fence(CANCEL_GENERATION, STALE),
    Source(WRONG_STATE),
    NOTHING_UNRESOLVED,
    IS_HEAD,
    READABLE,
    Write(STALE),
    edges=edges(
        QUEUED,
        RUNNING,
        writes={"execution_generation": Plus("execution_generation", 1), **RUN_COLUMNS, "started_at": NOW, **TOUCHED},
    ),
)
SETTLE: Final = Trigger(
    "settle",
    "the run reported how it ended",
    LOAD,
    SAME_SETTLEMENT,
    ROOM,
    LEASE,
    Fence((*GENERATIONS, *RUN), STALE),
    Source(STALE),
    READABLE,
    Write(STALE),
    edges=choice(Arg("status"), RUNNING, (SETTLED, FAILED), SETTLES),
)
SETTLE_STOPPING: Final = Trigger(
    "settle_stopping",
    "the run ended before its stop was acknowledged",
    LOAD,
    SAME_SETTLEMENT,
    ROOM,
    LEASE,
    *STEPS_OF_A_RECOVERY,
    edges=choice(Arg("status"), STOPPING, (SETTLED, FAILED), SETTLES),
)
REQUEUE_NOT_ADMITTED: Final = Trigger(
    "requeue_not_admitted",
    "the driver can prove that the run never began",
    ROOM,
    LEASE,
    LOAD,
    QUEUED_AGAIN,
    Fence((*GENERATIONS, *RUN), STALE),
    Source(STALE),
    READABLE,
    Write(STALE),
    edges=edges(RUNNING, QUEUED, writes=FORGETS_RUN),
)
LOSE: Final = Trigger(
    "lose",
    "a new lease holder recovers the room and finds work of another lease",
    ROOM,
    LEASE,
    kind="sweep",
    over=given("room_id"),
    edges=edges(RUNNING, INDETERMINATE, guard=Not(RUN), writes={"indeterminate_at": NOW, **TOUCHED}),
)
RESOLVE: Final = Trigger(
    "resolve",
    "a receipt or a person says how the uncertain run ended",
    ROOM,
    LEASE,
    LOAD,
    SAME_SETTLEMENT,
    *STEPS_OF_A_RECOVERY,
    edges=choice(Arg("status"), INDETERMINATE, (SETTLED, FAILED), SETTLES),
)
RESOLVE_CANCEL: Final = Trigger(
    "resolve_cancel",
    "it is proven that the uncertain run was stopped",
    ROOM,
    LEASE,
    LOAD,
    SAME_CANCEL,
    *STEPS_OF_A_RECOVERY,
    edges=edges(INDETERMINATE, CANCELLED, writes=CANCELS),
)
REQUEUE: Final = Trigger(
    "requeue",
    "an operator accepts that the uncertain run may happen twice",
    ROOM,
    LEASE,
    LOAD,
    QUEUED_AGAIN,
    *STEPS_OF_A_RECOVERY,
    edges=edges(INDETERMINATE, QUEUED, writes={**FORGETS_RUN, "indeterminate_at": None}),
)
DEFER: Final = Trigger(
    "defer",
    "the uncertain run is set aside so that the room goes on",
    ROOM,
    LEASE,
    LOAD,
    Replay((*DEFERRED.terms, *GENERATIONS, *given("result_json"))),
    *STEPS_OF_A_RECOVERY,
    edges=edges(INDETERMINATE, DEFERRED, writes={"result_json": Arg("result_json"), "terminal_at": NOW, **TOUCHED}),
)
REQUEUE_DEFERRED: Final = Trigger(
    "requeue_deferred",
    "an operator wants the deferred run after all",
    ROOM,
    LEASE,
    LOAD,
    QUEUED_AGAIN,
    *STEPS_OF_A_RECOVERY,
    edges=edges(
        DEFERRED,
        QUEUED,
        writes={**FORGETS_RUN, "result_json": None, "terminal_at": None, "indeterminate_at": None},
    ),
)
CANCEL: Final = Trigger(
    "cancel",
    "a user withdraws work that has not begun",
    LOAD,
    SAME_CANCEL,
    Source(WRONG_STATE, per=dict.fromkeys((RUNNING, INDETERMINATE, STOPPING), TWO_PHASES)),
    Fence(CANCEL_GENERATION, STALE),
    Write(STALE),
    edges=edges((QUEUED, DEFERRED), CANCELLED, writes=CANCELS),
)
BEGIN_CANCEL: Final = Trigger(
    "begin_cancel",
    "a user asks that work be stopped which may be under way",
    LOAD,
    Replay((*STOPPING.terms, *given("cancel_id"))),
    Source(WRONG_STATE, per={QUEUED: AT_ONCE, DEFERRED: AT_ONCE, STOPPING: STALE}),
    Fence(CANCEL_GENERATION, STALE),
    Write(STALE),
    edges=edges((RUNNING, INDETERMINATE), STOPPING, writes=ASKS_CANCEL),
)
COMPLETE_CANCEL: Final = Trigger(
    "complete_cancel",
    "the transport acknowledged exactly this stop",
    LOAD,
    SAME_CANCEL,
    Fence(given("cancel_id", "cancel_generation"), STALE),
    Source(STALE),
    Write(STALE),
    edges=edges(STOPPING, CANCELLED, writes={"terminal_at": NOW, **TOUCHED}),
)
PRUNE: Final = Trigger(
    "prune",
    "the outcome is published, and past its retention or beyond the kept count",
    Load(MISSING),
    Source(WRONG_STATE),
    Look(
        "publication",
        PUBLICATIONS,
        (*given("room_id", "task_id"), PUBLISHED),
        checks=(Check(Not(Term("task_id", "is null")), UNPUBLISHED),),
    ),
    Write(STALE),
    edges=edges((SETTLED, FAILED, CANCELLED), GONE),
)
PURGE: Final = Trigger(
    "purge",
    "its disbanded room is pruned",
    kind="sweep",
    over=given("room_id"),
    edges=edges(STATES, GONE),
)

DRIVER_TASK: Final = Lifecycle(
    "driver_task",
    "one room turn, from its admission to its one outcome",
    TASKS,
    states=STATES,
    triggers=(
        ADMIT,
        START,
        SETTLE,
        SETTLE_STOPPING,
        REQUEUE_NOT_ADMITTED,
        LOSE,
        RESOLVE,
        RESOLVE_CANCEL,
        REQUEUE,
        DEFER,
        REQUEUE_DEFERRED,
        CANCEL,
        BEGIN_CANCEL,
        COMPLETE_CANCEL,
        PRUNE,
        PURGE,
    ),
    root=THE_ROOM,
    lock_order=LOCK_ORDER,
)
