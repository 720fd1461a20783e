"""A trigger, compiled: what runs before the engine is fired, what the engine is to call, what a sweep executes."""

from collections.abc import Mapping
from typing import Any

from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.steps import DECLINE, Do, Load, Source, Step, Write
from fsm.lifecycle.structure import Edge, State, Trigger, trigger_operands
from fsm.lifecycle.terms import Arg, Of, operands, predicate
from fsm.machine import statements
from fsm.machine.locks import Locks
from fsm.machine.projection import Projection
from fsm.machine.record import Action
from fsm.machine.steps import Compiler

__all__ = ["Plan", "Sweep"]


class Plan:
    """One trigger, compiled: what runs before the engine is fired, and what the engine is to call."""

    def __init__(self, projection: Projection, trigger: Trigger, actions: Mapping[str, Action]) -> None:
        found = frozenset(operand for operand in trigger_operands(trigger) if isinstance(operand, Of))
        lifecycle = projection.lifecycle
        self.trigger = trigger
        self.name = f"{lifecycle.name}.{trigger.name}"
        self.compiler = Compiler(projection, trigger, actions, found)
        self.locks = Locks(lifecycle, trigger)
        self.required, self.never_null = _required(lifecycle, trigger), _never_null(trigger)
        self.sources = frozenset(edge.source.name for edge in trigger.edges)
        self.write = next((step for step in trigger.steps if isinstance(step, Write)), Write())
        self.source = next((step.refuse for step in trigger.steps if isinstance(step, Source)), self.write.unmatched)
        first, inside, last = _split(trigger)
        self.comparing = first
        self.unjudged = tuple(step for step in inside if isinstance(step, Do))
        self.may_decline = DECLINE in (self.write.stale, self.write.unmatched) and any(
            isinstance(step, Do) and not step.reads_only for step in inside
        )
        self.first, self.inside, self.last = (tuple(map(self.compiler.compile, part)) for part in (first, inside, last))
        self._hooks = frozenset(step.name for step in first if isinstance(step, Do) and step.hook)
        self._is_tentative = any(map(_may_write, first)) or self.may_decline
        self.swept = tuple(Sweep(lifecycle, trigger, edge) for edge in trigger.edges if trigger.kind == "sweep")

    def tentative(self, context: Mapping[str, Any]) -> bool:
        """Say whether something may be written before the call is known to move its record."""
        return self._is_tentative or not self._hooks.isdisjoint(context)


class Sweep:
    """One edge of a sweep, compiled."""

    def __init__(self, lifecycle: Lifecycle, trigger: Trigger, edge: Edge) -> None:
        self.edge = edge
        self.statement = statements.sweep_statement(lifecycle, trigger, edge)
        self.arrived = predicate(edge.dest.terms) if isinstance(edge.dest, State) and edge.dest.row else None


def _split(trigger: Trigger) -> tuple[tuple[Step, ...], tuple[Step, ...], tuple[Step, ...]]:
    """Divide the steps: up to the last that compares; what stands between it and the write; what follows the write."""
    steps = trigger.steps
    at = next((index for index, step in enumerate(steps) if isinstance(step, Write)), len(steps))
    guarded = {each.step for edge in trigger.edges for each in operands(edge.guard) if isinstance(each, Of)}
    ahead = (index + 1 for index, step in enumerate(steps[:at]) if not isinstance(step, Do) or step.name in guarded)
    compared = max(ahead, default=0)
    return steps[:compared], steps[compared:at], steps[at + 1 :]


def _may_write(step: Step) -> bool:
    return isinstance(step, Do) and not step.reads_only and not step.hook


def _required(lifecycle: Lifecycle, trigger: Trigger) -> frozenset[str]:
    named = {operand.name for operand in trigger_operands(trigger) if isinstance(operand, Arg)}
    if any(isinstance(step, Load) and step.by is None for step in trigger.steps):
        named |= set(lifecycle.key)
    return frozenset(named | {"now"})


def _never_null(trigger: Trigger) -> frozenset[str]:
    arguments = {operand for operand in trigger_operands(trigger) if isinstance(operand, Arg)}
    nullable = {argument.name for argument in arguments if argument.nullable}
    return frozenset(argument.name for argument in arguments if argument.name not in nullable)
