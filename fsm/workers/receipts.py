"""Receipts: each operation of an execution once, in its sequence. Rules: `fsm.lifecycles.worker_execution`."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from fsm.errors import RuntimeStoreError
from fsm.lifecycles.limits import MAX_RECEIPT_PAYLOAD_BYTES
from fsm.machine import Outcome, Record
from fsm.runtime.keys import operation_digest
from fsm.runtime.machines import WORKER_MACHINE
from fsm.runtime.parse import (
    Location,
    call,
    opened_at,
    parse_choice,
    parse_epoch,
    parse_generation,
    parse_object,
    parse_text,
    refusing,
)
from storage import Database, Transaction, Value, instance, integer
from storage.canonical import decode_json

__all__ = ["FINISH", "Handler", "Request", "Run", "apply_worker_receipt", "handled_by", "parse_handlers"]

Handler: TypeAlias = Callable[[Database, Transaction, str, dict[str, Any]], Mapping[str, Any]]
"""`(db, tx, session_id, payload) -> JSON object`: it works in the open transaction and must not commit."""
Run: TypeAlias = Callable[[Record], Mapping[str, Any]]

FINISH: Final = "execution.finish"
"""The one operation with which an execution ends."""


@frozen
class Request:
    """One operation of an execution, checked: its arguments for the machine, and its payload as canonical JSON."""

    operation: str
    payload_json: str
    arguments: Mapping[str, Value]

    @classmethod
    def parse(
        cls,
        *,
        execution_id: object,
        session_id: object,
        sequence: object,
        operation: object,
        payload: object,
        known: Collection[str],
    ) -> "Request":
        """Return the request; raises RuntimeStoreError(invalid_params)."""
        number = integer(sequence, label="sequence", error=refusing("sequence"), minimum=1)
        session = parse_text(session_id, "session_id")
        name = parse_choice(operation, "operation", tuple(known))
        encoded = parse_object(payload, "payload", maximum_bytes=MAX_RECEIPT_PAYLOAD_BYTES)
        arguments: dict[str, Value] = {
            "execution_id": parse_text(execution_id, "execution_id"),
            "session_id": session,
            "sequence": number,
            "previous_sequence": number - 1,
            "payload_digest": operation_digest(session, name, encoded),
        }
        return cls(name, encoded, arguments)

    def payload(self) -> dict[str, Any]:
        """Return the payload as a value of its own: whoever is handed it may change it, and may be run again."""
        decoded: dict[str, Any] = json.loads(self.payload_json)
        return decoded

    def apply(self, db: Location, run: Run, *, epoch: object, generation: object) -> dict[str, Any]:
        """Run it under its sequence number, or answer what is stored there; raises as `apply_worker_receipt`."""
        trigger = "finish" if self.operation == FINISH else "apply"
        fences: dict[str, Value] = {"epoch": parse_epoch(epoch), "generation": parse_generation(generation)}
        handle, now = opened_at(db)

        def write(tx: Transaction) -> Outcome:
            return WORKER_MACHINE.fire(tx, trigger, {"run": run}, now=now, **self.arguments, **fences)

        return _answer(handle.write(write))


def _answer(outcome: Outcome) -> dict[str, Any]:
    found = outcome.found["receipt" if outcome.replayed else "run_operation"]
    answer = decode_json(found["result_json"], label="the stored receipt", error=_damaged)
    if not isinstance(answer, dict):
        raise _damaged("the stored receipt: expected an object, found another JSON value; mend the row")
    return answer


_damaged = refusing("result", "storage_unavailable")


def parse_handlers(handlers: object) -> dict[str, Handler]:
    """Return the handlers by the operations' names; raises RuntimeStoreError(invalid_params)."""
    given: Mapping[object, Any] = instance(handlers, Mapping, label="handlers", error=refusing("handlers"))  # type: ignore[type-abstract]  # isinstance takes it
    named = {parse_text(name, "handlers"): handler for name, handler in dict(given).items()}
    if not all(map(callable, named.values())):
        raise RuntimeStoreError(
            "invalid_params", field="handlers", detail="handlers: expected functions by their names; pass such"
        )
    return named


def handled_by(handler: Handler, request: Request) -> Run:
    """Return what runs a caller's handler, each time on a payload of its own."""

    def run(record: Record) -> Mapping[str, Any]:
        return handler(record.tx.database, record.tx, str(record.values["session_id"]), request.payload())

    return run


@call
def apply_worker_receipt(
    db: Location,
    *,
    epoch: object,
    execution_id: object,
    session_id: object,
    generation: object,
    sequence: object,
    operation: object,
    payload: object,
    handlers: object,
) -> dict[str, Any]:
    """Run `handlers[operation]` once under the execution's next sequence number, and return its stored answer.

    A handler is `(db, tx, session_id, payload)` and answers a JSON object; it must not commit, may run again, and
    undoes all by raising. The session's revision moves where it wrote. `execution.finish` ends the execution; what it
    had only read (an answer with a key `messages` or `session`) then shrinks to {"retired": true}. `payload` is an
    object of at most 4 MiB of JSON, sequence numbers begin with 1.

    An exact retry (sequence, operation, payload) returns the stored answer and runs nothing, also when the session has
    moved on; of what shrank it is stale_generation.

    Raises RuntimeStoreError: invalid_params, also for a number that is not the next one and an answer that is no JSON
    object; stale_epoch where the execution is not this epoch's; not_found; permission_denied where it is another
    session's; stale_generation where the generation is not its own and its session's, or it has ended;
    admission_conflict where the number has another operation; storage_unavailable where a stored answer is damaged.
    """
    known = parse_handlers(handlers)
    request = Request.parse(
        execution_id=execution_id,
        session_id=session_id,
        sequence=sequence,
        operation=operation,
        payload=payload,
        known=known,
    )
    return request.apply(db, handled_by(known[request.operation], request), epoch=epoch, generation=generation)
