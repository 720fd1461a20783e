"""What firing a trigger would come to, step by step, without firing it."""

from collections.abc import Iterator
from typing import Literal

from attrs import frozen

from fsm.errors import DefinitionError
from fsm.lifecycle.steps import Authority, Do, Look, Step
from fsm.lifecycle.terms import label, predicate
from fsm.machine.plan import Plan
from fsm.machine.record import NO_ROW, Record
from fsm.machine.steps import DECLINED, REPLAYED, Ran
from storage import StorageError

__all__ = ["Finding", "explain"]

Verdict = Literal["holds", "refuses", "replays", "declines", "not judged"]


@frozen
class Finding:
    """One step and what it would do; `said` is a refusal's message, `error` the name of its class."""

    step: str
    verdict: Verdict
    said: str = ""
    error: str = ""


def explain(plan: Plan, record: Record) -> Iterator[Finding]:
    """Yield what each step would do, up to the first that ends the call; nothing is written.

    A Do is the operation's own code and may write, so that it is not judged, nor is what depends on its answer.
    """
    for step, run in zip(plan.comparing, plan.first, strict=True):
        finding = _skipped(step) if isinstance(step, Do) else _tried(step, run, record)
        yield finding
        if finding.verdict not in {"holds", "not judged"}:
            return
    yield from map(_skipped, plan.unjudged)
    yield _edge(plan, record)


def _named(step: Step) -> str:
    kind = type(step).__name__
    return f"{kind} {step.name}" if isinstance(step, Authority | Look | Do) else kind


def _skipped(step: Do) -> Finding:
    return Finding(_named(step), "not judged", step.meaning)


def _tried(step: Step, run: Ran, record: Record) -> Finding:
    if isinstance(step, Authority | Look) and not record.tx.table_exists(step.table.name):
        absent = f"the database has no table {step.table.name}, so that nothing is found there"
        return Finding(_named(step), "refuses", absent)
    try:
        ended = run(record)
    except KeyError:
        return Finding(_named(step), "not judged", "it depends on what an earlier step would answer")
    except (DefinitionError, StorageError):
        raise
    except Exception as refusal:  # noqa: BLE001 # a declaration may refuse with any class of its own
        return Finding(_named(step), "refuses", str(refusal), type(refusal).__name__)
    ends: dict[str | None, Verdict] = {REPLAYED: "replays", DECLINED: "declines"}
    return Finding(_named(step), ends.get(ended, "holds"))


def _edge(plan: Plan, record: Record) -> Finding:
    """Say which edge would be taken; guards that wait for an answer are named and not judged."""
    leaving = [edge for edge in plan.trigger.edges if edge.source.name == record.state]
    for edge in leaving:
        try:
            taken = not edge.guard or predicate(edge.guard)(record.row or NO_ROW, record.values)
        except KeyError:
            return Finding("Write", "not judged", f"to {edge.dest.name} where {label(edge.guard)}")
        if taken:
            return Finding("Write", "holds", f"{edge.source.name} -> {edge.dest.name}")
    guards = " or ".join(label(edge.guard) for edge in leaving) or f"a state that {plan.name} leaves"
    return Finding("Write", "refuses", f"expected {guards}, found state {record.state}")
