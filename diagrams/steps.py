"""What each kind of step does, looks at, and ends a call with, in words."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from diagrams.model import DiagramOutcome, DiagramStep
from diagrams.wording import alternatives, keyed, listed, terms, value
from fsm.lifecycle import (
    Authority,
    Check,
    Do,
    Fence,
    Lifecycle,
    Load,
    Look,
    Refusal,
    Replay,
    Secret,
    Source,
    Step,
    Trigger,
    Write,
)
from fsm.lifecycle.steps import Otherwise
from fsm.lifecycle.structure import stands_for_row
from fsm.lifecycle.terms import label

__all__ = ["describe_step"]


def describe_step(lifecycle: Lifecycle, trigger: Trigger, step: Step) -> DiagramStep:
    """Return how one step of the trigger is shown."""
    text, outcomes = _described(lifecycle, trigger, step)
    return DiagramStep(type(step).__name__, text, tuple(outcomes))


_Described = tuple[str, Iterable[DiagramOutcome]]


def _described(lifecycle: Lifecycle, trigger: Trigger, step: Step) -> _Described:  # noqa: PLR0911 # one return a kind
    match step:
        case Authority():
            return _authority(step)
        case Load():
            return _load(lifecycle, step)
        case Replay():
            return _replay(lifecycle, step)
        case Fence():
            return f"{label(step.terms)}; compared here, and again by the write", (
                _outcome("unless it holds", step.refuse),
            )
        case Source():
            return _source(trigger, step)
        case Look():
            return _look(step)
        case Secret():
            return _secret(step)
        case Do():
            return _do(step), ()
        case Write():
            return _write(trigger, step)
        case _:
            assert_never(step)


def _outcome(when: str, otherwise: Otherwise, on: str = "") -> DiagramOutcome:
    if isinstance(otherwise, Refusal):
        return DiagramOutcome(when, "raises", on, otherwise.name, otherwise.remedy)
    return DiagramOutcome(when, "declines", on)


def _unless(check: Check) -> DiagramOutcome:
    return _outcome("unless", check.refuse, label(check.terms))


def _authority(step: Authority) -> _Described:
    text = f"{step.name}: the row of {step.table.name} with {keyed(step.key)}, read under the write lock"
    return text, (_outcome("there is none", step.missing), *map(_unless, step.checks))


def _load(lifecycle: Lifecycle, step: Load) -> _Described:
    by = f"the key that {step.by} found" if step.by else f"the given {listed(lifecycle.key)}"
    joined = f", and the row of {lifecycle.joined.name} with the same key" if lifecycle.joined else ""
    absent = "; there may be none" if step.missing is None else ""
    missing = () if step.missing is None else (_outcome("there is none", step.missing),)
    return f"the record by {by}{joined}{absent}", (*missing, *map(_unless, step.checks))


def _replay(lifecycle: Lifecycle, step: Replay) -> _Described:
    judged = {None: "the record", "joined": f"the row of {lifecycle.joined.name}" if lifecycle.joined else "joined"}
    text = f"an exact retry, judged on {judged.get(step.on, f'the row that {step.on} found')}"
    return text, _replayed(step)


def _replayed(step: Replay) -> Iterator[DiagramOutcome]:
    yield DiagramOutcome("where", "replays", label(step.terms))
    if step.conflict is not None and step.refuse is not None:
        # Without terms of its own a conflict is every row that is there and is not the retry.
        when = "otherwise, where" if step.conflict else "otherwise, where there is a row"
        yield _outcome(when, step.refuse, terms(step.conflict))


def _source(trigger: Trigger, step: Source) -> _Described:
    left = alternatives(edge.source.name for edge in trigger.edges)
    named = tuple(_outcome(f"in {state.name}", otherwise) for state, otherwise in step.per.items())
    return f"the state is {left}", (*named, _outcome("in any other state", step.refuse))


def _look(step: Look) -> _Described:
    where = f" where {label(step.where)}" if step.where else ""
    if step.count:
        text = f"{step.name}: how many rows of {step.table.name}{where}"
    elif step.order:
        text = f"{step.name}: the first row of {step.table.name}{where}, in the order of {listed(step.order)}"
    else:
        text = f"{step.name}: a row of {step.table.name}{where}"
    return text, map(_unless, step.checks)


def _secret(step: Secret) -> _Described:
    text = f"{step.column} is {value(step.argument)}; compared in constant time, and never shown"
    return text, (_outcome("unless it holds", step.refuse),)


def _do(step: Do) -> str:
    fires = f"; fires {listed('.'.join(fired) for fired in step.fires)}" if step.fires else ""
    return f"{step.name}: {step.meaning}{fires}{'; only reads' if step.reads_only else ''}"


def _write(trigger: Trigger, step: Write) -> _Described:
    stale = _outcome("it changes anything but one row", step.stale)
    if not _may_match_nothing(trigger):
        return _statement(trigger), (stale,)
    return _statement(trigger), (_outcome("no edge from this state has a guard that holds", step.unmatched), stale)


def _may_match_nothing(trigger: Trigger) -> bool:
    """Say whether some source has guards on all its edges, so that none of them may hold."""
    sources = {edge.source for edge in trigger.edges}
    return any(all(edge.guard for edge in trigger.edges if edge.source is source) for source in sources)


def _statement(trigger: Trigger) -> str:
    inserts, deletes = "inserts the row", "deletes the row"
    return alternatives(
        inserts if not stands_for_row(edge.source) else "updates the row" if stands_for_row(edge.dest) else deletes
        for edge in trigger.edges
    )
