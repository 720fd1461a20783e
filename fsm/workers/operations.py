"""The closed set of operations that an execution may report, and those that a caller adds."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from fsm.lifecycles.worker_execution import TERMINAL
from fsm.machine import Record
from fsm.runtime.parse import Location, call, refusing
from fsm.workers.reading import read_context, read_row_role, read_tail_role
from fsm.workers.receipts import FINISH, Request, Run, handled_by, parse_handlers
from fsm.workers.transcript import append_messages, parse_append
from fsm.workers.turns import acquire_turn, parse_holder, parse_turn, release_turn, renew_turn
from fsm.workers.usage import add_auxiliary_usage, add_main_usage, parse_auxiliary_usage, parse_main_usage
from storage import integer, record

__all__ = ["OPERATIONS", "mutate_worker_execution"]


@frozen
class Operation:
    """One operation: how its payload is checked before a transaction begins, and what it does in it."""

    parse: Callable[[Mapping[str, Any]], Any]
    run: Callable[[Record, Any], Mapping[str, Any]]


def _parse_nothing(payload: Mapping[str, Any]) -> None:
    record(payload, label="payload", error=refusing("payload"))


def _parse_row_id(payload: Mapping[str, Any]) -> int:
    fields = record(payload, label="payload", error=refusing("payload"), required=("row_id",))
    return integer(fields["row_id"], label="row_id", error=refusing("row_id"), minimum=1)


def _finish(_: Record, __: object) -> dict[str, Any]:
    return {"status": TERMINAL.name}


OPERATIONS: Final[Mapping[str, Operation]] = {
    "transcript.append": Operation(parse_append, append_messages),
    "turn.acquire": Operation(parse_turn, acquire_turn),
    "turn.renew": Operation(parse_turn, renew_turn),
    "turn.release": Operation(parse_holder, release_turn),
    "usage.main": Operation(parse_main_usage, add_main_usage),
    "usage.auxiliary": Operation(parse_auxiliary_usage, add_auxiliary_usage),
    "session.context": Operation(_parse_nothing, read_context),
    "session.tail_role": Operation(_parse_nothing, read_tail_role),
    "session.row_role": Operation(_parse_row_id, read_row_role),
    FINISH: Operation(_parse_nothing, _finish),
}
"""By name; a caller's handlers come beside these and never in their place."""


@call
def mutate_worker_execution(
    db: Location,
    *,
    epoch: object,
    execution_id: object,
    session_id: object,
    generation: object,
    sequence: object,
    operation: object,
    payload: object,
    handlers: object = None,
) -> dict[str, Any]:
    """Run one operation of an execution once, under its next sequence number, and return its stored answer.

    `operation` with `payload`, and what it answers:

    - `transcript.append` {messages, turn_lease_holder?}: {count, annotations}. At most 1000 messages; one whose
      `_row_id` names a row of the transcript is that row and is not stored again. An annotation is the message's
      `_row_id` and `timestamp`, `count` how many were stored.
    - `turn.acquire`, `turn.renew` {holder, ttl_seconds?}: {value: bool}. 0.1 to 3600 s, by default 300; what is held
      is extended and never shortened. `turn.release` {holder}: {value: null}.
    - `usage.main` {counters, ...}: {value: null}. Added to the session, or set with `absolute` where they are given;
      `model` and `source` fill in what the session does not know yet. Of `usage.auxiliary` {task, model?, counters,
      ...} the sum is kept by session, task and model; a call counts where `api_call_count` is left out. What either
      says of billing and pricing is checked, and has no column.
    - `session.context` {}: {session, messages}. `session.tail_role` {}, `session.row_role` {row_id}: {value: role},
      null where there is no such message. Reads leave the session's revision alone.
    - `execution.finish` {}: {status: "terminal"}, after which nothing more is taken.

    `handlers` {name: function} are further operations, as `apply_worker_receipt` describes; they have other names. An
    exact retry returns the stored answer, as there, and refusals are the same. permission_denied besides, where an
    appended row is not the transcript's, or another holder than the one named has the turn.
    """
    further = {} if handlers is None else parse_handlers(handlers)
    if taken := OPERATIONS.keys() & further.keys():
        raise refusing("handlers")(
            f"handlers: expected other names than {', '.join(sorted(taken))}; rename the handlers"
        )
    request = Request.parse(
        execution_id=execution_id,
        session_id=session_id,
        sequence=sequence,
        operation=operation,
        payload=payload,
        known=(*OPERATIONS, *further),
    )
    return request.apply(db, _run_of(request, further), epoch=epoch, generation=generation)


def _run_of(request: Request, further: Mapping[str, Any]) -> Run:
    known = OPERATIONS.get(request.operation)
    if known is None:
        return handled_by(further[request.operation], request)
    run, parsed = known.run, known.parse(request.payload())
    return lambda record: run(record, parsed)
