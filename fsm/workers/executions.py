"""Executions: announced by their session's owner, and adopted by the next. Rules: `fsm.lifecycles.worker_execution`."""

import hashlib

from fsm.lifecycles.worker_execution import KINDS
from fsm.runtime.keys import RESERVED_EXECUTION_PREFIX, TERMINAL_WORKER_PREFIX
from fsm.runtime.machines import WORKER_MACHINE
from fsm.runtime.parse import (
    Location,
    call,
    opened_at,
    parse_choice,
    parse_epoch,
    parse_flag,
    parse_generation,
    parse_text,
)
from fsm.runtime.views import WorkerView, worker_view
from storage import Value

__all__ = ["adopt_worker_execution", "register_worker_execution"]


@call
def register_worker_execution(
    db: Location,
    *,
    epoch: object,
    execution_id: object,
    session_id: object,
    generation: object,
    kind: object,
    adoption_secret: object,
    require_idle: object = False,
) -> WorkerView:
    """Announce a worker of a session's generation; an exact retry returns what is stored, whatever became of it.

    `kind` is cron, child, compute or kanban. Of `adoption_secret`, a text of 1 to 1024 characters, only a digest is
    kept: by it the worker proves itself to a later owner. With `require_idle` nothing of the lineage may be queued or
    started either.

    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found where there is no such session; stale_generation
    where the session has moved on, or its lineage has a worker that has not ended, or is not idle as asked;
    admission_conflict where the id is taken by other content or was a deleted session's; unknown_execution where an
    admission of the lineage must be resolved first.
    """
    name = parse_text(execution_id, "execution_id")
    arguments: dict[str, Value] = {
        "execution_id": name,
        "session_id": parse_text(session_id, "session_id"),
        "kind": parse_choice(kind, "kind", KINDS),
        "adoption_digest": _digest_of(adoption_secret),
        "tombstone_key": f"{TERMINAL_WORKER_PREFIX}{name}",
    }
    context = {"require_idle": parse_flag(require_idle, "require_idle")}
    arguments["epoch"], arguments["generation"] = parse_epoch(epoch), parse_generation(generation)
    handle, now = opened_at(db)
    return worker_view(
        handle.write(lambda tx: WORKER_MACHINE.fire(tx, "register", context, now=now, **arguments).stored)
    )


@call
def adopt_worker_execution(
    db: Location,
    *,
    epoch: object,
    execution_id: object,
    session_id: object,
    generation: object,
    adoption_secret: object,
) -> WorkerView:
    """Let a worker that proves its secret go on under the present epoch, running; calling again changes nothing.

    The admission that was claimed under the worker's epoch and generation goes on with it, started, and so does what
    steers to that one. An execution whose id begins with `admission-worker:` is adopted within its own epoch alone.

    Raises RuntimeStoreError: invalid_params; stale_epoch, also for such an execution of an older one; not_found;
    permission_denied where it is another session's or the secret is another; stale_generation where it has ended, or
    the generation is not its own and its session's; admission_conflict where two admissions could be its own.
    """
    name = parse_text(execution_id, "execution_id")
    arguments: dict[str, Value] = {
        "execution_id": name,
        "session_id": parse_text(session_id, "session_id"),
        "adoption_digest": _digest_of(adoption_secret),
        "reserved": int(name.startswith(RESERVED_EXECUTION_PREFIX)),
    }
    arguments["epoch"], arguments["generation"] = parse_epoch(epoch), parse_generation(generation)
    handle, now = opened_at(db)
    return worker_view(handle.write(lambda tx: WORKER_MACHINE.fire(tx, "adopt", now=now, **arguments).stored))


def _digest_of(secret: object) -> str:
    return hashlib.sha256(parse_text(secret, "adoption_secret").encode()).hexdigest()
