"""Turns: an input claimed, settled, lost and resolved. Rules: `fsm.lifecycles.session_admission`."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Literal

from fsm.lifecycle.terms import quoted
from fsm.lifecycles.admission_states import CAPTURED_OUTCOMES, INTERRUPTED, OUTCOMES, UNKNOWN
from fsm.lifecycles.runtime_tables import MESSAGES
from fsm.lifecycles.session_authorities import STALE_GENERATION
from fsm.lifecycles.worker_execution import TERMINAL
from fsm.runtime.keys import RESULT_PREFIX
from fsm.runtime.machines import ADMISSION_MACHINE, WORKER_MACHINE
from fsm.runtime.parse import (
    Location,
    call,
    opened_at,
    parse_choice,
    parse_epoch,
    parse_generation,
    parse_hook,
    parse_object,
    parse_optional_text,
    parse_text,
    refusing,
)
from fsm.runtime.tombstones import result_digest
from fsm.runtime.views import AdmissionView, admission_view
from fsm.runtime.worker_steps import compact_receipts
from fsm.sessions.admitting import Hook, answer, not_found
from fsm.sessions.steering import parse_transfers
from storage import Row, Transaction, Value

__all__ = [
    "ANY_HEAD",
    "claim_session_input",
    "recover_session_inputs",
    "resolve_unknown_session_input",
    "settle_session_input",
]

TerminalWrite = Callable[[Transaction, Mapping[str, Any]], object]

_MARK = f"SELECT COALESCE(MAX(id), 0) AS mark FROM {quoted(MESSAGES.name)}"


class AnyHead(Enum):
    """Says that a claim takes the head of the queue whichever it is."""

    ANY_HEAD = "any"


ANY_HEAD: Final = AnyHead.ANY_HEAD
"""The default of `head`: the caller has checked no head beforehand."""


@call
def claim_session_input(
    db: Location, *, epoch: object, session_id: object, guard: Hook | None = None, head: object = ANY_HEAD
) -> AdmissionView | Literal[False] | None:
    """Start the head of a session's queue under its next generation; the view adds `transcript_mark`.

    None: nothing is queued, or a turn or a worker of the session's lineage is at work. False: the head is not `head`,
    the admission id that the caller's checks were about (None: it saw an empty queue); read again and check the one
    that is first now. `guard(tx)` raises to refuse, may run again, and what it wrote is undone where nothing is
    claimed.

    Never replays: two callers would both believe that they won. Where the answer was lost, `list_session_admissions`
    tells: started, and of this epoch.

    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found where there is no such session; unknown_execution
    where a turn or a worker of the lineage must be resolved first; storage_unavailable where the head is damaged.
    """
    arguments: dict[str, Value] = {
        "session_id": parse_text(session_id, "session_id"),
        "any_head": int(head is ANY_HEAD),
        "head": None if head is ANY_HEAD else parse_optional_text(head, "head"),
    }
    context = parse_hook(guard, "guard")
    arguments["epoch"] = parse_epoch(epoch)
    handle, now = opened_at(db)

    def claim(tx: Transaction) -> AdmissionView | Literal[False] | None:
        outcome = ADMISSION_MACHINE.fire(tx, "claim", context, now=now, **arguments)
        if outcome.declined:
            seen = outcome.found.get("head")
            other = seen is not None and head is not ANY_HEAD and seen["admission_id"] != arguments["head"]
            return False if other else None
        view = admission_view(outcome.stored)
        view["transcript_mark"] = int(tx.execute(_MARK)[0]["mark"] or 0)
        return view

    return handle.write(claim)


@call
def settle_session_input(
    db: Location,
    *,
    epoch: object,
    admission_id: object,
    generation: object,
    outcome: object,
    result: object = None,
    transfers: object = None,
    terminal_write: TerminalWrite | None = None,
) -> AdmissionView:
    """End a claim: completed, interrupted, rejected or failed, with the JSON object that it answered, if any.

    Its workers end with it. `transfers` {admission id: delivered} says of each input that steered here whether its text
    was delivered: then it is steered where this turn completed and interrupted otherwise, else it is queued again; what
    is left out is interrupted. `terminal_write(tx, row)` is the owner's own effect: it may run again, must not commit,
    and undoes all by raising.

    An exact retry (generation, outcome, result) returns what is stored, whichever epoch settled it; no hook runs.
    Raises RuntimeStoreError: invalid_params; stale_epoch; not_found; stale_generation where this is not the running
    claim; storage_unavailable where what is left of a deleted session's is damaged.
    """
    name = parse_text(admission_id, "admission_id")
    arguments: dict[str, Value] = {
        "admission_id": name,
        "outcome": parse_choice(outcome, "outcome", OUTCOMES),
        "result_json": None if result is None else parse_object(result, "result"),
        "result_key": f"{RESULT_PREFIX}{name}",
    }
    context = {"transfers": parse_transfers(transfers), **parse_hook(terminal_write, "terminal_write")}
    arguments["epoch"], arguments["generation"] = parse_epoch(epoch), parse_generation(generation)
    handle, now = opened_at(db)
    digest = result_digest(None if result is None else str(arguments["result_json"]))

    def refused(buried: Row) -> Exception | None:
        settled = (buried["generation"], buried["outcome"], buried["result_digest"])
        return None if settled == (arguments["generation"], arguments["outcome"], digest) else not_found()

    def settle(tx: Transaction) -> AdmissionView:
        return answer(tx, ADMISSION_MACHINE.fire(tx, "settle", context, now=now, **arguments), name, refused)

    return handle.write(settle)


@call
def recover_session_inputs(db: Location, *, epoch: object) -> int:
    """Mark as unknown what older epochs have started, and return how many; call again where the answer was lost.

    Their workers are lost first; what was steering towards them is interrupted. Nothing is ever run again. Raises
    RuntimeStoreError(stale_epoch).
    """
    arguments: dict[str, Value] = {"epoch": parse_epoch(epoch)}
    handle, now = opened_at(db)

    def recover(tx: Transaction) -> int:
        for _, dest, worker in WORKER_MACHINE.sweep(tx, "lose", now=now, **arguments).moved:
            if dest == TERMINAL.name:
                compact_receipts(tx, str(worker["execution_id"]))
        moved = ADMISSION_MACHINE.sweep(tx, "lose", now=now, **arguments).moved
        return sum(1 for _, dest, _ in moved if dest == UNKNOWN.name)

    return handle.write(recover)


@call
def resolve_unknown_session_input(
    db: Location,
    *,
    epoch: object,
    admission_id: object,
    generation: object,
    terminal_write: TerminalWrite | None = None,
    captured: object = None,
) -> AdmissionView:
    """Acknowledge that nobody knows how far a turn came: it is interrupted, and the queue goes on.

    `captured` (outcome, result) is the end that this very epoch's owner had captured before its settlement failed:
    completed, interrupted or failed with a JSON object; of another epoch's row it is not used. The turn's workers end,
    what steered towards it is interrupted, `terminal_write(tx, row)` works as in `settle_session_input`.

    An exact retry returns what is stored. Raises RuntimeStoreError: invalid_params; stale_epoch; not_found;
    stale_generation where it is not unknown under this generation; storage_unavailable as in `settle_session_input`.
    """
    name = parse_text(admission_id, "admission_id")
    arguments: dict[str, Value] = {"admission_id": name, "result_key": f"{RESULT_PREFIX}{name}", **_captured(captured)}
    context = parse_hook(terminal_write, "terminal_write")
    arguments["epoch"], arguments["generation"] = parse_epoch(epoch), parse_generation(generation)
    handle, now = opened_at(db)

    def refused(buried: Row) -> Exception | None:
        over = buried["outcome"] == INTERRUPTED.name or buried["result_digest"] is not None
        return None if over and buried["generation"] == arguments["generation"] else _stale()

    def resolve(tx: Transaction) -> AdmissionView:
        return answer(tx, ADMISSION_MACHINE.fire(tx, "resolve", context, now=now, **arguments), name, refused)

    return handle.write(resolve)


def _captured(captured: object) -> dict[str, Value]:
    if captured is None:
        return {"captured_outcome": None, "captured_json": None}
    if not isinstance(captured, tuple | list) or len(captured) != 2:  # noqa: PLR2004 # a pair has two
        raise refusing("captured")("captured: expected a pair of outcome and result; pass both or None")
    outcome, result = captured
    return {
        "captured_outcome": parse_choice(outcome, "captured", CAPTURED_OUTCOMES),
        "captured_json": parse_object(result, "captured"),
    }


def _stale() -> Exception:
    return STALE_GENERATION.error(
        f"expected an unknown turn under this generation, found another end; {STALE_GENERATION.remedy}"
    )
