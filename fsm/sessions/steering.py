"""Steering: a queued input taken along by the turn that runs. Rules: `fsm.lifecycles.session_admission`."""

from collections.abc import Mapping
from typing import Any

from fsm.lifecycles.admission_states import (
    ALREADY_STARTED,
    OUTCOMES,
    STEERED,
    STEERING,
)
from fsm.runtime.admission_steps import deliver_each
from fsm.runtime.machines import ADMISSION_MACHINE
from fsm.runtime.parse import (
    Location,
    call,
    opened_at,
    parse_choice,
    parse_epoch,
    parse_flag,
    parse_generation,
    parse_text,
    parse_transaction,
    refusing,
)
from fsm.runtime.views import AdmissionView
from fsm.sessions.admitting import answer
from storage import Row, Transaction, Value, instance

__all__ = [
    "parse_transfers",
    "revert_steer_input",
    "settle_steer_transfers",
    "steer_replayed",
    "steer_session_input",
]


@call
def steer_session_input(
    db: Location, *, epoch: object, admission_id: object, generation: object
) -> tuple[AdmissionView, bool]:
    """Hand a queued input to the claim that runs on its session under this epoch and generation.

    True where this call did it; an exact retry, also after the claim has ended, returns what is stored and False: its
    text must not be delivered twice. Raises RuntimeStoreError: invalid_params; stale_epoch; stale_generation for no
    integer; not_found; admission_started where it is no longer queued; session_idle where no such claim runs;
    storage_unavailable where what is left of a deleted session's is damaged.
    """
    name = parse_text(admission_id, "admission_id")
    arguments: dict[str, Value] = {"admission_id": name, "epoch": parse_epoch(epoch)}
    arguments["generation"] = parse_generation(generation)
    handle, now = opened_at(db)

    def refused(buried: Row) -> Exception | None:
        return None if steer_replayed(buried) else already_started()

    def steer(tx: Transaction) -> tuple[AdmissionView, bool]:
        outcome = ADMISSION_MACHINE.fire(tx, "steer", now=now, **arguments)
        return answer(tx, outcome, name, refused), not (outcome.replayed or outcome.declined)

    return handle.write(steer)


@call
def steer_replayed(row: object) -> bool:
    """Say whether an admission is a transfer that was made: it steers, or was steered.

    `row` is a view or a row of an admission. Raises RuntimeStoreError(invalid_params) where it lacks status or outcome,
    or holds in them what is neither text nor None.
    """
    parsed: Mapping[str, Any] = instance(row, Mapping, label="row", error=refusing("row"))  # type: ignore[type-abstract]  # isinstance takes it
    if not {"status", "outcome"} <= parsed.keys():
        raise refusing("row")("row: expected the fields status and outcome, which are missing; pass an admission")
    told = {name: parsed[name] for name in ("status", "outcome")}
    if not all(value is None or isinstance(value, str) for value in told.values()):
        raise refusing("row")("row: expected a status and an outcome that are texts or None; pass an admission")
    state = ADMISSION_MACHINE.state_of(told, now=0.0)
    return state in {STEERING.name, STEERED.name}


@call
def settle_steer_transfers(
    tx: Transaction, *, epoch: object, generation: object, transfers: object, outcome: object
) -> None:
    """End what steered towards the claim of this epoch and generation, as `settle_session_input` does for `transfers`.

    For a caller's own transaction; an input that is not bound to that claim stays as it is, so that a retry changes
    nothing. Raises RuntimeStoreError: invalid_params; stale_epoch, stale_generation for no integer.
    """
    delivered, ended = parse_transfers(transfers), parse_choice(outcome, "outcome", OUTCOMES)
    claim: Row = {"owner_epoch": parse_epoch(epoch), "generation": parse_generation(generation)}
    open_tx, now = parse_transaction(tx)

    def fire(**arguments: Value) -> object:
        return ADMISSION_MACHINE.fire(open_tx, "deliver", now=now, **arguments)

    deliver_each(fire, delivered, ended, claim)


@call
def revert_steer_input(db: Location, *, epoch: object, admission_id: object, generation: object) -> bool:
    """Put an input whose text never reached the running claim back in its place in the queue.

    False where it is not bound to the claim of this epoch and generation, as after the claim's end or an earlier call.
    Raises RuntimeStoreError: invalid_params; stale_epoch; stale_generation for no integer.
    """
    arguments: dict[str, Value] = {"admission_id": parse_text(admission_id, "admission_id")}
    arguments["epoch"], arguments["generation"] = parse_epoch(epoch), parse_generation(generation)
    handle, now = opened_at(db)
    return not handle.write(lambda tx: ADMISSION_MACHINE.fire(tx, "revert", now=now, **arguments)).declined


def parse_transfers(transfers: object) -> dict[str, bool]:
    """Return {admission id: delivered}; none where None was handed over."""
    if transfers is None:
        return {}
    given: dict[object, object] = instance(transfers, dict, label="transfers", error=refusing("transfers"))
    return {parse_text(name, "transfers"): parse_flag(delivered, "transfers") for name, delivered in given.items()}


def already_started() -> Exception:
    """Return the refusal of an input that has left the queue."""
    return ALREADY_STARTED.error(f"expected a queued admission, found one that ended; {ALREADY_STARTED.remedy}")
