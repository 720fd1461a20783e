"""From a declaration to the model: everything that a diagram or a page shows is read off the declaration here."""

from collections.abc import Mapping

from diagrams.model import Diagram, DiagramEdge, DiagramKind, DiagramState, DiagramTrigger
from diagrams.steps import describe_step
from diagrams.wording import terms, value
from fsm.lifecycle import Column, Conditions, Edge, Fence, Lifecycle, State, Term, Trigger
from fsm.lifecycle.structure import stands_for_row
from fsm.lifecycle.terms import label, operands
from fsm.machine.statements import all_writes

__all__ = ["describe"]


def describe(lifecycle: Lifecycle) -> Diagram:
    """Return the model of a lifecycle; it raises nothing, since a declaration has been checked already."""
    groups = _groups(lifecycle)
    return Diagram(
        name=lifecycle.name,
        meaning=lifecycle.meaning,
        table=lifecycle.table.name,
        key=lifecycle.key,
        states=tuple(_state(lifecycle, state, groups) for state in lifecycle.states),
        triggers=tuple(_trigger(lifecycle, trigger) for trigger in lifecycle.triggers),
        joined=lifecycle.joined.name if lifecycle.joined else None,
    )


def _state(lifecycle: Lifecycle, state: State, groups: Mapping[State, str]) -> DiagramState:
    return DiagramState(
        name=state.name,
        meaning=state.meaning,
        final=state.final,
        initial=state in lifecycle.initial,
        row=state.row,
        holds=terms(state.terms),
        requires=terms(state.requires),
        group=groups.get(state),
    )


def _groups(lifecycle: Lifecycle) -> dict[State, str]:
    """Find the states that a stored column does not tell apart, by the first column that tells any others apart."""
    for column, texts in lifecycle.stored_values().items():
        sharing = {text: [state for state in lifecycle.states if _stores(state, column, text)] for text in texts}
        grouped = {
            state: label((Term(column, "=", text),))
            for text, states in sharing.items()
            if len(states) > 1
            for state in states
        }
        if grouped and len(texts) > 1:
            return grouped
    return {}


def _stores(state: State, column: str, text: str) -> bool:
    return state.row and Term(column, "=", text) in state.terms


def _trigger(lifecycle: Lifecycle, trigger: Trigger) -> DiagramTrigger:
    return DiagramTrigger(
        name=trigger.name,
        when=trigger.when,
        kind="import" if trigger.imports else trigger.kind,
        over=terms(trigger.over),
        steps=tuple(describe_step(lifecycle, trigger, step) for step in trigger.steps),
        edges=tuple(_edge(trigger, edge) for edge in trigger.edges),
    )


def _edge(trigger: Trigger, edge: Edge) -> DiagramEdge:
    fence = _fence(trigger, edge)
    named = (operand.name for operand in operands(fence) if isinstance(operand, Column))
    return DiagramEdge(
        trigger=trigger.name,
        source=edge.source.name,
        dest=edge.dest.name,
        kind=_kind(trigger, edge),
        guard=terms(edge.guard),
        writes=_writes(trigger, edge),
        fence=tuple(label((each,)) for each in fence),
        fence_columns=tuple(dict.fromkeys(named)),
    )


def _kind(trigger: Trigger, edge: Edge) -> DiagramKind:
    return "import" if trigger.imports and not stands_for_row(edge.source) else trigger.kind


def _fence(trigger: Trigger, edge: Edge) -> Conditions:
    """Return the terms that the write repeats: an INSERT finds no row to compare, and the clock writes nothing."""
    if trigger.kind == "time" or not stands_for_row(edge.source):
        return ()
    fences = (term for step in trigger.steps if isinstance(step, Fence) for term in step.terms)
    return tuple(dict.fromkeys((*trigger.over, *fences)))


def _writes(trigger: Trigger, edge: Edge) -> tuple[tuple[str, str], ...]:
    """Return the settings of the statement: a DELETE has none, and the clock has no statement."""
    if trigger.kind == "time" or not stands_for_row(edge.dest):
        return ()
    return tuple((column, value(written)) for column, written in all_writes(edge).items())
