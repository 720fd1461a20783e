"""What a declaration must hold, one property a function; what fails is refused with its place and the remedy."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from fsm.errors import DefinitionError
from fsm.lifecycle.steps import Authority, Do, Fence, Load, Look, Replay, Secret, Source, Step, Write
from fsm.lifecycle.structure import GONE, NEW, Edge, Greater, Mark, Plus, State, Trigger, stands_for_row, step_operands
from fsm.lifecycle.terms import Arg, Column, Conditions, Of, Operand, conjunction, contradict, operands, pinned
from storage import Table

if TYPE_CHECKING:
    from fsm.lifecycle.declaration import Lifecycle

__all__ = ["check"]

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_RESERVED = frozenset({"new", "gone", "record", "joined", "now"})
_COMPARING = (Authority, Load, Replay, Fence, Source, Look, Secret)


def check(lifecycle: "Lifecycle") -> None:
    """Refuse a lifecycle that contradicts itself; raises DefinitionError for the first property that fails."""
    _names_are_plain_and_unique(lifecycle)
    _edges_name_known_states(lifecycle)
    _one_trigger_creates(lifecycle)
    _columns_exist(lifecycle)
    _found_values_were_found(lifecycle)
    _steps_are_in_order(lifecycle)
    _states_exclude_each_other(lifecycle)
    _edges_exclude_each_other(lifecycle)
    _states_alone_write_states(lifecycle)
    _new_rows_compute_nothing(lifecycle)
    _conflicts_are_refused(lifecycle)
    _states_are_reached(lifecycle)
    _states_are_left(lifecycle)
    _final_states_stay(lifecycle)


def _refuse(lifecycle: "Lifecycle", place: str, problem: str, remedy: str) -> DefinitionError:
    return DefinitionError(f"lifecycle {lifecycle.name}, {place}: {problem}; {remedy}")


def _names_are_plain_and_unique(lifecycle: "Lifecycle") -> None:
    named: tuple[tuple[str, Iterable[str]], ...] = (
        ("lifecycle", (lifecycle.name,)),
        ("state", (state.name for state in lifecycle.states)),
        ("trigger", (trigger.name for trigger in lifecycle.triggers)),
        *((f"step of trigger {trigger.name}", _step_names(trigger)) for trigger in lifecycle.triggers),
    )
    for kind, names in named:
        for name, times in Counter(names).items():
            if not _NAME.fullmatch(name):
                raise _refuse(lifecycle, f"{kind} {name!r}", "not lower_case words", "rename it, such as 'not_started'")
            if name in _RESERVED:
                raise _refuse(lifecycle, f"{kind} {name!r}", "the word has a meaning of its own here", "rename it")
            if times > 1:
                raise _refuse(lifecycle, f"{kind} {name!r}", f"declared {times} times", "keep one of them or rename")


def _step_names(trigger: Trigger) -> tuple[str, ...]:
    return tuple(step.name for step in trigger.steps if isinstance(step, Authority | Look | Do))


def _edges_name_known_states(lifecycle: "Lifecycle") -> None:
    for trigger, edge in _edges(lifecycle):
        for place in (edge.source, edge.dest):
            if isinstance(place, State) and place not in lifecycle.states:
                raise _refuse(
                    lifecycle,
                    f"trigger {trigger.name}",
                    f"state {place.name} is unknown",
                    "add it to the lifecycle's states",
                )
        if edge.source is GONE or edge.dest is NEW:
            raise _refuse(lifecycle, f"trigger {trigger.name}", "an edge leaves gone or enters new", "turn it round")


def _one_trigger_creates(lifecycle: "Lifecycle") -> None:
    creating = [trigger.name for trigger in lifecycle.triggers if trigger.creates]
    if len(creating) != 1:
        found = ", ".join(creating) or "none"
        remedy = "leave 'new' or a row-less state in exactly one trigger and mark the others imports=True"
        raise _refuse(lifecycle, "triggers", f"one trigger must create records, found {found}", remedy)


def _columns_exist(lifecycle: "Lifecycle") -> None:
    own = lifecycle.table
    for state in lifecycle.states:
        table = own if state.row else lifecycle.joined or own
        _need(lifecycle, f"state {state.name}", table, _columns(state.terms))
        _need(lifecycle, f"state {state.name}", own, _columns(state.requires))
    for trigger in lifecycle.triggers:
        place = f"trigger {trigger.name}"
        _need(lifecycle, place, own, _columns(trigger.over))
        for edge in trigger.edges:
            written = (
                *edge.writes,
                *(each.column for each in edge.writes.values() if isinstance(each, Plus | Greater)),
            )
            _need(lifecycle, place, own, (*written, *_columns(edge.guard)))
        for step in trigger.steps:
            for table, columns in _step_columns(lifecycle, trigger, step):
                _need(lifecycle, place, table, columns)


def _step_columns(lifecycle: "Lifecycle", trigger: Trigger, step: Step) -> Iterator[tuple[Table, Iterable[str]]]:
    own = lifecycle.table
    if isinstance(step, Authority | Look | Load):
        table = own if isinstance(step, Load) else step.table
        yield table, (column for each in step.checks for column in _columns(each.terms) if column != "count")
    if isinstance(step, Authority):
        yield step.table, step.key
    if isinstance(step, Look):
        yield step.table, (*_columns(step.where), *step.order)
    if isinstance(step, Load) and step.key is not None:
        yield own, step.key
    if isinstance(step, Secret):
        yield own, (step.column,)
    if isinstance(step, Fence):
        yield own, _columns(step.terms)
    if isinstance(step, Replay):
        look = next((each for each in trigger.steps if isinstance(each, Look) and each.name == step.on), None)
        judged = look.table if look else lifecycle.joined if step.on == "joined" else own
        yield judged or own, _columns(conjunction(step.terms, step.conflict or ()))


def _need(lifecycle: "Lifecycle", place: str, table: Table, columns: Iterable[str]) -> None:
    known = {column.name for column in table.columns}
    for column in columns:
        if column not in known:
            raise _refuse(
                lifecycle, place, f"{column!r} is no column of {table.name}", f"name one of {', '.join(sorted(known))}"
            )


def _columns(conditions: Conditions) -> Iterator[str]:
    return (operand.name for operand in operands(conditions) if isinstance(operand, Column))


def _found_values_were_found(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        found: set[str] = set()
        for step in trigger.steps:
            for operand in step_operands(trigger, step):
                _known_value(lifecycle, trigger, operand, found)
            if isinstance(step, Authority | Look | Do):
                found.add(step.name)
            if isinstance(step, Load):
                found |= {"record", "joined"}
            if isinstance(step, Replay) and step.on is not None and step.on not in found:
                raise _refuse(
                    lifecycle,
                    f"trigger {trigger.name}",
                    f"no step {step.on} stands before the replay",
                    "put the Look first",
                )


def _known_value(lifecycle: "Lifecycle", trigger: Trigger, operand: Operand, found: set[str]) -> None:
    if isinstance(operand, Of) and operand.step not in found:
        remedy = "name an Authority, Look or Do that stands earlier in the trigger"
        raise _refuse(
            lifecycle, f"trigger {trigger.name}", f"no step {operand.step} has answered before its use", remedy
        )
    if isinstance(operand, Arg) and not _NAME.fullmatch(operand.name):
        raise _refuse(
            lifecycle, f"trigger {trigger.name}", f"argument {operand.name!r} is not lower_case words", "rename it"
        )


def _steps_are_in_order(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for problem, remedy in _order_problems(trigger):
            raise _refuse(lifecycle, f"trigger {trigger.name}", problem, remedy)


def _order_problems(trigger: Trigger) -> Iterator[tuple[str, str]]:
    kinds = [type(step) for step in trigger.steps]
    if not trigger.edges:
        yield "it has no edge", "say from which state to which it leads"
    if trigger.kind == "time" and (kinds or any(edge.writes for edge in trigger.edges)):
        yield "the clock checks and writes nothing", "remove its steps and writes, or make it a fired trigger"
    if trigger.kind == "sweep" and not set(kinds) <= {Authority, Look}:
        yield "a sweep has only Authority and Look steps", "put its terms in 'over' and in the guards of its edges"
    if trigger.kind != "fire":
        return
    if kinds.count(Load) != 1 or kinds.count(Write) != 1:
        yield "a fired trigger has one Load and one Write", "add the missing step or remove the second"
        return
    write, load = kinds.index(Write), kinds.index(Load)
    if any(kind in _COMPARING for kind in kinds[write:]):
        yield "a step compares after the write", "move it ahead of the Write, where it can still refuse"
    on_record = [kind for kind, step in zip(kinds, trigger.steps, strict=True) if _reads_record(step)]
    if any(_reads_record(step) for step in trigger.steps[:load]):
        yield f"{on_record[0].__name__} reads the record before the Load", "move the Load ahead of it"


def _reads_record(step: Step) -> bool:
    return isinstance(step, Fence | Source | Secret) or (isinstance(step, Replay) and step.on is None)


def _states_exclude_each_other(lifecycle: "Lifecycle") -> None:
    for first, second in combinations(lifecycle.states, 2):
        if first.row == second.row and not contradict(first.terms, second.terms):
            raise _refuse(
                lifecycle,
                f"states {first.name} and {second.name}",
                "a record could be in both",
                "give them terms that contradict each other, such as other constants in one column",
            )


def _edges_exclude_each_other(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for first, second in combinations(trigger.edges, 2):
            if first.source is second.source and not contradict(first.guard, second.guard):
                raise _refuse(
                    lifecycle,
                    f"trigger {trigger.name}",
                    f"two edges from {first.source.name} could both be taken",
                    "give them guards that contradict each other",
                )


def _states_alone_write_states(lifecycle: "Lifecycle") -> None:
    for trigger, edge in _edges(lifecycle):
        if not isinstance(edge.dest, State):
            if edge.writes:
                raise _refuse(lifecycle, f"trigger {trigger.name}", "an edge to gone writes", "remove its writes")
            continue
        for column in pinned(edge.dest.terms).keys() & edge.writes.keys():
            raise _refuse(
                lifecycle,
                f"trigger {trigger.name}",
                f"it writes {column!r}, which the state {edge.dest.name} itself writes",
                "remove it from the edge's writes",
            )


def _new_rows_compute_nothing(lifecycle: "Lifecycle") -> None:
    for trigger, edge in _edges(lifecycle):
        computed = [column for column, value in edge.writes.items() if isinstance(value, Plus | Greater)]
        if computed and not stands_for_row(edge.source):
            problem = f"it computes {computed[0]!r} from a row that is not there yet"
            raise _refuse(lifecycle, f"trigger {trigger.name}", problem, "write a constant or an argument instead")


def _conflicts_are_refused(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for step in trigger.steps:
            if isinstance(step, Replay) and (step.conflict is None) != (step.refuse is None):
                problem = "a replay has a conflict without a refusal, or a refusal without a conflict"
                raise _refuse(lifecycle, f"trigger {trigger.name}", problem, "give it both or neither")


def _states_are_reached(lifecycle: "Lifecycle") -> None:
    reached: set[State | Mark] = {NEW, *(state for state in lifecycle.initial)}
    while grown := {edge.dest for _, edge in _edges(lifecycle) if edge.source in reached} - reached:
        reached |= grown
    for state in lifecycle.states:
        if state not in reached:
            raise _refuse(lifecycle, f"state {state.name}", "it cannot be reached", "add an edge that leads to it")


def _states_are_left(lifecycle: "Lifecycle") -> None:
    for state in lifecycle.states:
        if not state.final and not any(edge.dest is not state for edge in _leaving(lifecycle, state)):
            raise _refuse(lifecycle, f"state {state.name}", "it has no way out", "add an edge, or declare it final")


def _final_states_stay(lifecycle: "Lifecycle") -> None:
    for state in lifecycle.states:
        for edge in _leaving(lifecycle, state):
            if state.final and edge.dest is not GONE:
                raise _refuse(
                    lifecycle,
                    f"state {state.name}",
                    f"it is final but leads to {edge.dest.name}",
                    "remove the edge or 'final'",
                )


def _leaving(lifecycle: "Lifecycle", state: State) -> Iterator[Edge]:
    return (edge for _, edge in _edges(lifecycle) if edge.source is state)


def _edges(lifecycle: "Lifecycle") -> Iterator[tuple[Trigger, Edge]]:
    return ((trigger, edge) for trigger in lifecycle.triggers for edge in trigger.edges)
