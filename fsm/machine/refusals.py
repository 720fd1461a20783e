"""The one place where a step that does not hold becomes the error its declaration names."""

from collections.abc import Mapping

from fsm.errors import LifecycleError
from fsm.lifecycle.steps import Refusal
from fsm.lifecycle.terms import Column, Conditions, label, operands, predicate
from storage import Value

__all__ = ["found_in", "refused"]


def refused(lifecycle: str, trigger: str, step: str, state: str | None, refusal: Refusal, said: str) -> Exception:
    """Return the declared error; its message says what was expected and found, then what to do."""
    error = refusal.error(f"{lifecycle}.{trigger} refused at {step}: {said}; {refusal.remedy}")
    if isinstance(error, LifecycleError):
        error.lifecycle, error.trigger, error.step, error.state = lifecycle, trigger, step, state
    return error


def found_in(row: Mapping[str, Value], values: Mapping[str, Value], conditions: Conditions) -> str:
    """Say which terms failed and what the row holds there; texts are named, never shown: they are a user's."""
    failed = tuple(each for each in conditions if not predicate((each,))(row, values))
    columns = dict.fromkeys(operand.name for operand in operands(failed) if isinstance(operand, Column))
    found = ", ".join(_shown(column, row[column]) for column in columns) or "other values"
    return f"expected {label(failed)}, found {found}"


def _shown(column: str, value: Value) -> str:
    if isinstance(value, str):
        return f"another {column}"
    return f"{column} {'null' if value is None else value}"
