"""What the steps of a declaration must hold: names, columns, found values, types and order, one property a function."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, get_args

from fsm.errors import DefinitionError
from fsm.lifecycle.steps import Authority, Decline, Do, Fence, Load, Look, Refusal, Replay, Secret, Source, Step, Write
from fsm.lifecycle.structure import (
    Greater,
    Plus,
    Trigger,
    Writes,
    answered_columns,
    edge_operands,
    step_operands,
    trigger_operands,
)
from fsm.lifecycle.terms import NOW, Arg, Column, Conditions, Not, Of, Operand, Term, conjunction, operands
from storage import Column as TableColumn
from storage import Table, Value

if TYPE_CHECKING:
    from fsm.lifecycle.declaration import Lifecycle

__all__ = ["check_steps", "refusal"]

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"new", "gone", "record", "joined", "now"})
_COMPARING = (Authority, Load, Replay, Fence, Source, Look, Secret)
_COUNT = Table("the count", (TableColumn("count", "INTEGER"),), primary_key=("count",))
_Place = tuple[str, Table, Conditions]


def check_steps(lifecycle: "Lifecycle") -> None:
    """Refuse a lifecycle whose steps contradict its tables or each other; raises DefinitionError."""
    _names_are_plain_and_unique(lifecycle)
    _keys_are_plain(lifecycle)
    _refusals_can_be_raised(lifecycle)
    _readers_fire_nothing(lifecycle)
    _steps_are_in_order(lifecycle)
    _found_values_were_found(lifecycle)
    _columns_exist(lifecycle)
    _constants_fit_their_columns(lifecycle)
    _states_are_judged_by_the_row(lifecycle)
    _sources_are_its_states(lifecycle)
    _conflicts_are_refused(lifecycle)
    _hooks_answer_nothing(lifecycle)


def refusal(lifecycle: "Lifecycle", place: str, problem: str, remedy: str) -> DefinitionError:
    """Return the error that names lifecycle, place, problem and remedy."""
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
            if not _NAME.fullmatch(str(name)):
                raise refusal(lifecycle, f"{kind} {name!r}", "not lower_case words", "rename it, such as 'not_started'")
            if name in _RESERVED:
                raise refusal(lifecycle, f"{kind} {name!r}", "the word has a meaning of its own here", "rename it")
            if times > 1:
                raise refusal(lifecycle, f"{kind} {name!r}", f"declared {times} times", "keep one of them or rename")


def _step_names(trigger: Trigger) -> tuple[str, ...]:
    return tuple(step.name for step in trigger.steps if isinstance(step, Authority | Look | Do))


def _keys_are_plain(lifecycle: "Lifecycle") -> None:
    if lifecycle.key not in (lifecycle.table.primary_key, *lifecycle.table.unique):
        problem = f"its key ({', '.join(lifecycle.key)}) is no key of the table {lifecycle.table.name}"
        raise refusal(lifecycle, "key", problem, "name the primary key or one of the table's unique keys")
    for column in lifecycle.key:
        if not _PARAMETER.fullmatch(column):
            remedy = "name it with letters, digits and underscores, for it becomes an argument"
            raise refusal(lifecycle, f"key {column!r}", "no argument can have this name", remedy)
    if lifecycle.joined is not None:
        _need(lifecycle, "joined table", lifecycle.joined, lifecycle.key)


def _refusals_can_be_raised(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for step in trigger.steps:
            for otherwise in _otherwise(step):
                usable = isinstance(otherwise, Decline) or (isinstance(otherwise, Refusal) and _makes_errors(otherwise))
                if not usable:
                    problem = f"the {type(step).__name__} has nothing that it could raise"
                    raise refusal(lifecycle, f"trigger {trigger.name}", problem, "give it a Refusal of an error class")


def _otherwise(step: Step) -> Iterator[object]:
    if isinstance(step, Authority | Load | Look):
        yield from (check.refuse for check in step.checks)
    if isinstance(step, Authority) or (isinstance(step, Load) and step.missing is not None):
        yield step.missing
    if isinstance(step, Fence | Source | Secret) or (isinstance(step, Replay) and step.refuse is not None):
        yield step.refuse
    if isinstance(step, Source):
        yield from step.per.values()
    if isinstance(step, Write):
        yield from (step.stale, step.unmatched)


def _makes_errors(refuse: Refusal) -> bool:
    error: object = refuse.error
    return callable(error) and (not isinstance(error, type) or issubclass(error, Exception))


# --- order


def _readers_fire_nothing(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for step in trigger.dos():
            if step.reads_only and (step.fires or step.hook):
                problem = f"step {step.name} is declared to read only, and to fire triggers or run a caller's code"
                raise refusal(lifecycle, f"trigger {trigger.name}", problem, "take reads_only away, or the rest")


def _steps_are_in_order(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for problem, remedy in _order_problems(trigger):
            raise refusal(lifecycle, f"trigger {trigger.name}", problem, remedy)


def _order_problems(trigger: Trigger) -> Iterator[tuple[str, str]]:
    kinds = [type(step) for step in trigger.steps]
    if not trigger.edges:
        yield "it has no edge", "say from which state to which it leads"
    if trigger.kind == "time" and (kinds or any(edge.writes for edge in trigger.edges)):
        yield "the clock checks and writes nothing", "remove its steps and writes, or make it a fired trigger"
    if trigger.kind == "sweep" and not set(kinds) <= {Authority, Look}:
        yield "a sweep has only Authority and Look steps", "put its terms in 'over' and in the guards of its edges"
    if trigger.kind == "fire":
        yield from _fired_order_problems(trigger, kinds)


def _fired_order_problems(trigger: Trigger, kinds: list[type[Step]]) -> Iterator[tuple[str, str]]:
    if kinds.count(Load) != 1 or kinds.count(Write) != 1:
        yield "a fired trigger has one Load and one Write", "add the missing step or remove the second"
        return
    write, load = kinds.index(Write), kinds.index(Load)
    if any(kind in _COMPARING for kind in kinds[write:]):
        yield "a step compares after the write", "move it ahead of the Write, where it can still refuse"
    early = [kind.__name__ for kind, step in zip(kinds, trigger.steps, strict=True) if _reads_record(step)]
    if any(_reads_record(step) for step in trigger.steps[:load]):
        yield f"{early[0]} reads the record before the Load", "move the Load ahead of it"
    if trigger.creates and isinstance(found := trigger.steps[load], Load) and found.by is not None:
        yield "a new record cannot be loaded by what a Look found", "load it by its own key"


def _reads_record(step: Step) -> bool:
    return isinstance(step, Fence | Source | Secret) or (isinstance(step, Replay) and step.on is None)


# --- found values


def _found_values_were_found(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        place = f"trigger {trigger.name}"
        answers: dict[str, frozenset[str] | None] = {}
        for step in trigger.steps:
            if isinstance(step, Authority | Look):
                # A check of the step itself may name what it has just answered.
                answers[step.name] = _answer(step)
            _need_values(lifecycle, place, (*step_operands(step), *_edge_operands(trigger, step)), answers)
            if isinstance(step, Do):
                answers[step.name] = None
            if isinstance(step, Load):
                _need_look(lifecycle, trigger, step, answers)
                answers["record"] = _names(lifecycle.table)
                answers |= {"joined": _names(lifecycle.joined)} if lifecycle.joined is not None else {}
            if isinstance(step, Replay) and step.on is not None and answers.get(step.on) is None:
                problem = f"no Look or joined row {step.on} stands before the replay"
                raise refusal(lifecycle, place, problem, "put the Look first")
        if trigger.kind != "fire":
            _need_values(lifecycle, place, (*operands(trigger.over), *_all_edge_operands(trigger)), answers)


def _answer(step: Authority | Look) -> frozenset[str]:
    counted = isinstance(step, Look) and step.count
    return frozenset({"count"}) if counted else _names(step.table)


def _names(table: Table) -> frozenset[str]:
    return frozenset(column.name for column in table.columns)


def _edge_operands(trigger: Trigger, step: Step) -> Iterator[Operand]:
    return _all_edge_operands(trigger) if isinstance(step, Write) else iter(())


def _all_edge_operands(trigger: Trigger) -> Iterator[Operand]:
    return (operand for edge in trigger.edges for operand in edge_operands(edge))


def _need_values(
    lifecycle: "Lifecycle", place: str, named: Iterable[Operand], answers: dict[str, frozenset[str] | None]
) -> None:
    for operand in named:
        if isinstance(operand, Arg) and not _NAME.fullmatch(operand.name):
            raise refusal(lifecycle, place, f"argument {operand.name!r} is not lower_case words", "rename it")
        if not isinstance(operand, Of):
            continue
        if operand.step not in answers:
            remedy = "name an Authority, Look or Do that stands earlier in the trigger"
            raise refusal(lifecycle, place, f"no step {operand.step} has answered before its use", remedy)
        known = answers[operand.step]
        if not _PARAMETER.fullmatch(operand.column) or (known is not None and operand.column not in known):
            remedy = (
                f"name one of {', '.join(sorted(known or ()))}" if known else "name it with letters and underscores"
            )
            raise refusal(lifecycle, place, f"{operand.step} does not answer {operand.column!r}", remedy)


def _need_look(lifecycle: "Lifecycle", trigger: Trigger, load: Load, answers: dict[str, frozenset[str] | None]) -> None:
    looks = [step for step in trigger.steps if isinstance(step, Look) and step.name == load.by]
    usable = looks and load.by in answers and not looks[0].count and looks[0].table is lifecycle.table
    if load.by is not None and not usable:
        problem = f"{load.by} is no earlier Look at the record's own table"
        raise refusal(
            lifecycle, f"trigger {trigger.name}", problem, "put such a Look first, or load by the caller's key"
        )


# --- columns


def _columns_exist(lifecycle: "Lifecycle") -> None:
    for place, table, conditions in _places(lifecycle):
        _need(lifecycle, place, table, _columns(conditions))
    for trigger in lifecycle.triggers:
        place = f"trigger {trigger.name}"
        for edge in trigger.edges:
            _need(lifecycle, place, lifecycle.table, (*edge.writes, *_written_columns(edge.writes)))
        for step in trigger.steps:
            _need(lifecycle, place, *_other_columns(lifecycle, trigger, step))


def _places(lifecycle: "Lifecycle") -> Iterator[_Place]:
    own = lifecycle.table
    for state in lifecycle.states:
        yield f"state {state.name}", own if state.row else lifecycle.joined or own, state.terms
        yield f"state {state.name}", own, state.requires
    for trigger in lifecycle.triggers:
        place = f"trigger {trigger.name}"
        yield place, own, trigger.over
        yield from ((place, own, edge.guard) for edge in trigger.edges)
        for step in trigger.steps:
            yield from ((place, table, terms) for table, terms in _step_terms(lifecycle, trigger, step))


def _step_terms(lifecycle: "Lifecycle", trigger: Trigger, step: Step) -> Iterator[tuple[Table, Conditions]]:
    if isinstance(step, Authority | Look | Load):
        table = lifecycle.table if isinstance(step, Load) else _answering(step)
        yield from ((table, check.terms) for check in step.checks)
    if isinstance(step, Look):
        yield step.table, step.where
    if isinstance(step, Fence):
        yield lifecycle.table, step.terms
    if isinstance(step, Replay):
        yield _judged(lifecycle, trigger, step), conjunction(step.terms, step.conflict or ())


def _answering(step: Authority | Look) -> Table:
    return _COUNT if isinstance(step, Look) and step.count else step.table


def _judged(lifecycle: "Lifecycle", trigger: Trigger, step: Replay) -> Table:
    named = {each.name: _answering(each) for each in trigger.steps if isinstance(each, Authority | Look)}
    if lifecycle.joined is not None:
        named["joined"] = lifecycle.joined
    return lifecycle.table if step.on is None else named[step.on]


def _other_columns(lifecycle: "Lifecycle", trigger: Trigger, step: Step) -> tuple[Table, Iterable[str]]:
    if isinstance(step, Authority):
        return step.table, (*step.key, *answered_columns(trigger, step))
    if isinstance(step, Look):
        return step.table, step.order
    return lifecycle.table, (step.column,) if isinstance(step, Secret) else ()


def _written_columns(writes: Writes) -> Iterator[str]:
    return (value.column for value in writes.values() if isinstance(value, Plus | Greater))


def _need(lifecycle: "Lifecycle", place: str, table: Table, columns: Iterable[str]) -> None:
    known = _names(table)
    for column in columns:
        if column not in known:
            remedy = f"name one of {', '.join(sorted(known))}"
            raise refusal(lifecycle, place, f"{column!r} is no column of {table.name}", remedy)


def _columns(conditions: Conditions) -> Iterator[str]:
    return (operand.name for operand in operands(conditions) if isinstance(operand, Column))


# --- types


def _constants_fit_their_columns(lifecycle: "Lifecycle") -> None:
    for place, table, conditions in _places(lifecycle):
        for term in _terms(conditions):
            if isinstance(term.left, Column) and not isinstance(term.right, Arg | Of):
                listed = term.right if isinstance(term.right, tuple) else (term.right,)
                _need_fitting(lifecycle, place, table, term.left.name, (each for each in listed if each is not None))
    for trigger in lifecycle.triggers:
        for edge in trigger.edges:
            for column, value in edge.writes.items():
                if isinstance(value, get_args(Value)):
                    _need_fitting(lifecycle, f"trigger {trigger.name}", lifecycle.table, column, (value,))


def _terms(conditions: Conditions) -> Iterator[Term]:
    for condition in conditions:
        if isinstance(condition, Not):
            yield from _terms(condition.conditions)
        else:
            yield condition


def _need_fitting(lifecycle: "Lifecycle", place: str, table: Table, name: str, values: Iterable[Value]) -> None:
    column = next(each for each in table.columns if each.name == name)
    for value in values:
        fits = column.nullable if value is None else isinstance(value, str) == (column.type == "TEXT")
        if not fits:
            problem = f"a constant of type {type(value).__name__} does not fit the {column.type} column {name!r}"
            raise refusal(lifecycle, place, problem, "write it in the column's own type")


# --- the rest


def _states_are_judged_by_the_row(lifecycle: "Lifecycle") -> None:
    for state in lifecycle.states:
        for operand in operands(conjunction(state.terms, state.requires)):
            if isinstance(operand, Arg | Of) and operand != NOW:
                problem = "its terms name an argument or a found value"
                raise refusal(lifecycle, f"state {state.name}", problem, "compare columns with constants or NOW")


def _sources_are_its_states(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        left = {edge.source for edge in trigger.edges}
        for step in trigger.steps:
            for state in step.per if isinstance(step, Source) else ():
                if state not in lifecycle.states or state in left:
                    problem = f"Source refuses {state.name}, which is unknown or left by an edge"
                    raise refusal(lifecycle, f"trigger {trigger.name}", problem, "remove it from 'per'")


def _conflicts_are_refused(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        for step in trigger.steps:
            if isinstance(step, Replay) and (step.conflict is None) != (step.refuse is None):
                problem = "a replay has a conflict without a refusal, or a refusal without a conflict"
                raise refusal(lifecycle, f"trigger {trigger.name}", problem, "give it both or neither")


def _hooks_answer_nothing(lifecycle: "Lifecycle") -> None:
    for trigger in lifecycle.triggers:
        hooks = {step.name for step in trigger.dos() if step.hook}
        for operand in trigger_operands(trigger):
            if isinstance(operand, Of) and operand.step in hooks:
                problem = f"it uses what the hook {operand.step} answers, which may not have run"
                raise refusal(lifecycle, f"trigger {trigger.name}", problem, "let a step of its own answer that")
