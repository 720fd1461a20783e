"""What a declaration says, in the words in which a diagram shows it, found without the diagrams' own model."""

from fsm.lifecycle import Column, Edge, Fence, Lifecycle, Trigger
from fsm.lifecycle.structure import stands_for_row
from fsm.lifecycle.terms import label, operands
from tests.diagrams.reading import Way

__all__ = ["declared_ways"]


def _fence(trigger: Trigger, edge: Edge) -> str:
    fenced = tuple(term for step in trigger.steps if isinstance(step, Fence) for term in step.terms)
    columns = [each.name for each in operands((*trigger.over, *fenced)) if isinstance(each, Column)]
    return ", ".join(dict.fromkeys(columns)) if stands_for_row(edge.source) and trigger.kind != "time" else ""


def declared_ways(lifecycle: Lifecycle) -> list[Way]:
    """Return every edge in the order of the declaration."""
    return [
        Way(
            edge.source.name,
            edge.dest.name,
            trigger.name,
            "import" if trigger.imports else trigger.kind,
            label(edge.guard) if edge.guard else "",
            _fence(trigger, edge),
            "",
            undeclared=False,
        )
        for trigger in lifecycle.triggers
        for edge in trigger.edges
    ]
