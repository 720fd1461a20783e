"""What a declaration must hold as a graph: its states, its edges, and what they write.

Each property is one function; what fails is refused with its place and the remedy. What its steps must hold stands in
`step_checks`.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from fsm.errors import DefinitionError
from fsm.lifecycle.step_checks import check_steps, refusal
from fsm.lifecycle.structure import GONE, NEW, Edge, Greater, Mark, Plus, State, Trigger, stands_for_row
from fsm.lifecycle.terms import contradict, pinned

if TYPE_CHECKING:
    from fsm.lifecycle.declaration import Lifecycle

__all__ = ["check"]


def check(lifecycle: "Lifecycle") -> None:
    """Refuse a lifecycle that contradicts itself; raises DefinitionError for the first property that fails."""
    _is_made_of_states_and_triggers(lifecycle)
    check_steps(lifecycle)
    _edges_name_known_states(lifecycle)
    _edges_keep_the_boundary(lifecycle)
    _one_trigger_creates(lifecycle)
    _states_exclude_each_other(lifecycle)
    _edges_exclude_each_other(lifecycle)
    _sweeps_move_each_record_once(lifecycle)
    _states_alone_write_states(lifecycle)
    _records_keep_their_key(lifecycle)
    _new_rows_are_complete(lifecycle)
    _states_are_reached(lifecycle)
    _states_are_left(lifecycle)
    _final_states_stay(lifecycle)


def _is_made_of_states_and_triggers(lifecycle: "Lifecycle") -> None:
    for kind, members in ((State, lifecycle.states), (Trigger, lifecycle.triggers)):
        if not members or not all(isinstance(member, kind) for member in members):
            raise DefinitionError(
                f"lifecycle {lifecycle.name}: it needs a tuple of {kind.__name__}s, and nothing else in it"
            )


def _edges_name_known_states(lifecycle: "Lifecycle") -> None:
    for trigger, edge in _edges(lifecycle):
        for place in (edge.source, edge.dest):
            if isinstance(place, State) and place not in lifecycle.states:
                raise refusal(
                    lifecycle,
                    f"trigger {trigger.name}",
                    f"state {place.name} is unknown",
                    "add it to the lifecycle's states",
                )


def _edges_keep_the_boundary(lifecycle: "Lifecycle") -> None:
    rowless = [state.name for state in lifecycle.states if not state.row]
    for trigger, edge in _edges(lifecycle):
        place = f"trigger {trigger.name}"
        if edge.source is GONE or edge.dest is NEW:
            raise refusal(lifecycle, place, "an edge leaves gone or enters new", "turn it round")
        if edge.source is NEW and rowless:
            problem = f"it leaves new, while {rowless[0]} stands for a record without a row"
            raise refusal(lifecycle, place, problem, "leave that state instead")
        if not stands_for_row(edge.source) and not stands_for_row(edge.dest):
            raise refusal(lifecycle, place, "an edge joins two places without a row", "let it make or delete one")
        if not stands_for_row(edge.source) and trigger.kind != "fire":
            problem = f"a {trigger.kind} cannot make records, for it finds them by their rows"
            raise refusal(lifecycle, place, problem, "leave a state that has a row, or fire the trigger")
        if edge.writes and not stands_for_row(edge.dest):
            raise refusal(lifecycle, place, f"an edge to {edge.dest.name} writes", "remove its writes: the row goes")


def _one_trigger_creates(lifecycle: "Lifecycle") -> None:
    creating = [trigger.name for trigger in lifecycle.triggers if trigger.creates]
    if len(creating) != 1:
        found = ", ".join(creating) or "none"
        remedy = "leave 'new' or a row-less state in exactly one trigger and mark the others imports=True"
        raise refusal(lifecycle, "triggers", f"one trigger must create records, found {found}", remedy)


def _states_exclude_each_other(lifecycle: "Lifecycle") -> None:
    for first, second in combinations(lifecycle.states, 2):
        if first.row == second.row and not contradict(first.terms, second.terms):
            raise refusal(
                lifecycle,
                f"states {first.name} and {second.name}",
                "a record could be in both",
                "give them terms that contradict each other, such as other constants in one column",
            )


def _edges_exclude_each_other(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for first, second in combinations(trigger.edges, 2):
            if first.source is second.source and not contradict(first.guard, second.guard):
                raise refusal(
                    lifecycle,
                    f"trigger {trigger.name}",
                    f"two edges from {first.source.name} could both be taken",
                    "give them guards that contradict each other",
                )


def _sweeps_move_each_record_once(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for first, second in combinations(trigger.edges if trigger.kind == "sweep" else (), 2):
            if first.dest is second.source:
                problem = f"a record that reaches {first.dest.name} would be moved on by the same sweep"
                raise refusal(lifecycle, f"trigger {trigger.name}", problem, "put the later edge first")


def _states_alone_write_states(lifecycle: "Lifecycle") -> None:
    for trigger, edge in _edges(lifecycle):
        if not isinstance(edge.dest, State):
            continue
        for column in pinned(edge.dest.terms).keys() & edge.writes.keys():
            raise refusal(
                lifecycle,
                f"trigger {trigger.name}",
                f"it writes {column!r}, which the state {edge.dest.name} itself writes",
                "remove it from the edge's writes",
            )


def _records_keep_their_key(lifecycle: "Lifecycle") -> None:
    for trigger, edge in _edges(lifecycle):
        for column in edge.writes.keys() & set(lifecycle.key):
            raise refusal(
                lifecycle,
                f"trigger {trigger.name}",
                f"it writes {column!r}, which names the record",
                "pass it as an argument",
            )


def _new_rows_are_complete(lifecycle: "Lifecycle") -> None:
    table = lifecycle.table
    numbered = table.primary_key if table.autoincrement else ()
    needed = {each.name for each in table.columns if not each.nullable and each.default is None} - set(numbered)
    for trigger, edge in _edges(lifecycle):
        if stands_for_row(edge.source) or not isinstance(edge.dest, State):
            continue
        place = f"trigger {trigger.name}"
        computed = [column for column, value in edge.writes.items() if isinstance(value, Plus | Greater)]
        if computed:
            problem = f"it computes {computed[0]!r} from a row that is not there yet"
            raise refusal(lifecycle, place, problem, "write a constant or an argument instead")
        missing = needed - edge.writes.keys() - pinned(edge.dest.terms).keys() - set(lifecycle.key)
        if missing:
            problem = f"a new row lacks {', '.join(sorted(missing))}"
            raise refusal(lifecycle, place, problem, "write them, or give the columns a default")


def _states_are_reached(lifecycle: "Lifecycle") -> None:
    reached: set[State | Mark] = {NEW, *(state for state in lifecycle.initial)}
    while grown := {edge.dest for _, edge in _edges(lifecycle) if edge.source in reached} - reached:
        reached |= grown
    for state in lifecycle.states:
        if state not in reached:
            raise refusal(lifecycle, f"state {state.name}", "it cannot be reached", "add an edge that leads to it")


def _states_are_left(lifecycle: "Lifecycle") -> None:
    for state in lifecycle.states:
        if not state.final and not any(edge.dest is not state for edge in _leaving(lifecycle, state)):
            raise refusal(lifecycle, f"state {state.name}", "it has no way out", "add an edge, or declare it final")


def _final_states_stay(lifecycle: "Lifecycle") -> None:
    for state in lifecycle.states:
        for edge in _leaving(lifecycle, state):
            if state.final and edge.dest is not GONE:
                raise refusal(
                    lifecycle,
                    f"state {state.name}",
                    f"it is final but leads to {edge.dest.name}",
                    "remove the edge or 'final'",
                )


def _leaving(lifecycle: "Lifecycle", state: State) -> Iterator[Edge]:
    return (edge for _, edge in _edges(lifecycle) if edge.source is state)


def _edges(lifecycle: "Lifecycle") -> Iterator[tuple[Trigger, Edge]]:
    return ((trigger, edge) for trigger in lifecycle.triggers for edge in trigger.edges)
