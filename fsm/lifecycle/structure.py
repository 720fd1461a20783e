"""States, edges and triggers: what a lifecycle is made of."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast, get_args

from attrs import field, frozen

from fsm.errors import DefinitionError
from fsm.lifecycle.steps import Authority, Do, Fence, Kind, Load, Look, Replay, Secret, Step
from fsm.lifecycle.terms import Arg, Column, Condition, Conditions, Of, Operand, Term, conjunction, constant, operands
from storage import Table, Value

__all__ = [
    "GONE",
    "NEW",
    "Edge",
    "Greater",
    "Mark",
    "Plus",
    "Root",
    "State",
    "Trigger",
    "Writes",
    "Written",
    "among",
    "answered_columns",
    "choice",
    "edges",
    "stands_for_row",
    "step_operands",
    "stored",
    "trigger_operands",
]


def _of_kind(value: Any, kinds: tuple[type, ...], what: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kinds):
        named = " or ".join(kind.__name__ for kind in kinds)
        raise DefinitionError(f"{what} must be {named}, not {type(value).__name__}")
    return value


def _terms(value: Condition | Conditions) -> Conditions:
    return conjunction(value)


@frozen(eq=False)
class State:
    """A state: what it means, the terms that say that a record is in it, and what a record in it holds.

    `row` is False where no row stands for it. `requires` documents, and is what tests and checks compare with; it is
    never enforced by the database.
    """

    name: str
    meaning: str
    terms: Conditions = field(default=(), converter=_terms)
    final: bool = False
    requires: Conditions = field(default=(), converter=_terms)
    row: bool = True


@frozen(eq=False)
class Root:
    """The row that every trigger of a lifecycle locks first, so that what its steps count and look at holds still.

    Its key is made of arguments, or of columns of the record itself: `Of("record", ...)`.
    """

    table: Table
    key: Mapping[str, Operand]


@frozen(eq=False)
class Mark:
    """A boundary of the diagram: a record that does not exist yet, or no longer."""

    name: str
    meaning: str


NEW: Final = Mark("new", "a record that does not exist yet")
GONE: Final = Mark("gone", "a record that no longer exists")


def stored(
    column: str, name: str, meaning: str, *, final: bool = False, requires: Condition | Conditions = ()
) -> State:
    """Return the state whose name is what `column` stores."""
    return State(name, meaning, Term(column, "=", name), final=final, requires=requires)


def among(*states: State) -> Term:
    """Return the term by which a record is in one of these states; they must be told apart by one column alone."""
    terms = [each.terms[0] for each in states if len(each.terms) == 1]
    values = tuple(term.right for term in terms if isinstance(term, Term) and isinstance(term.right, str))
    columns = {term.left for term in terms if isinstance(term, Term)}
    if len(columns) != 1 or len(values) != len(states):
        raise DefinitionError(
            f"states {', '.join(each.name for each in states)}: one column alone must tell them apart"
        )
    return Term(columns.pop(), "in", values)


def _added(by: int | Arg | Of) -> int | Arg | Of:
    return cast("int | Arg | Of", _of_kind(by, (int, Arg, Of), "what Plus adds"))


def _argument(argument: Arg) -> Arg:
    return cast("Arg", _of_kind(argument, (Arg,), "what Greater compares with"))


@frozen
class Plus:
    """A column's own value plus a constant, an argument or a found value."""

    column: str
    by: int | Arg | Of = field(converter=_added)


@frozen
class Greater:
    """The greater of a column's own value and an argument: what must never go back."""

    column: str
    argument: Arg = field(converter=_argument)


Written = Value | Arg | Of | Plus | Greater
Writes = Mapping[str, Written]


def _written(writes: Writes) -> Writes:
    return {
        column: value if isinstance(value, Arg | Of | Plus | Greater) else constant(value)
        for column, value in writes.items()
    }


@frozen(eq=False)
class Edge:
    """One way from a state to a state: when it is taken, and what it writes besides the state itself."""

    source: State | Mark
    dest: State | Mark
    guard: Conditions = field(default=(), converter=_terms)
    writes: Writes = field(factory=dict, converter=_written)


def edges(
    sources: State | Mark | Iterable[State | Mark],
    dest: State | Mark,
    guard: Condition | Conditions = (),
    writes: Writes | None = None,
) -> tuple[Edge, ...]:
    """Return one edge from each source to the same dest."""
    listed = (sources,) if isinstance(sources, State | Mark) else tuple(sources)
    return tuple(Edge(source, dest, guard, writes or {}) for source in listed)


def choice(
    argument: Arg, source: State | Mark, dests: Iterable[State], writes: Writes | None = None
) -> tuple[Edge, ...]:
    """Return one edge to each dest, taken where the argument is the dest's name."""
    return tuple(Edge(source, dest, Term(argument, "=", dest.name), writes or {}) for dest in dests)


def _flat(entries: Iterable[Edge | tuple[Edge, ...]]) -> tuple[Edge, ...]:
    return tuple(edge for entry in entries for edge in (entry if isinstance(entry, tuple) else (entry,)))


@frozen(eq=False, init=False)
class Trigger:
    """What moves a record: when it is fired, its steps in order, and its edges.

    Kind `fire` moves one record through the machine. Kind `sweep` moves every row that satisfies `over` in one
    statement per edge. Kind `time` writes nothing: the clock alone moves the record. A trigger that `imports` makes
    records too, of which another trigger is the ordinary origin.
    """

    name: str
    when: str
    steps: tuple[Step, ...]
    edges: tuple[Edge, ...]
    kind: Kind
    over: Conditions
    imports: bool

    def __init__(
        self,
        name: str,
        when: str,
        *steps: Step,
        edges: Iterable[Edge | tuple[Edge, ...]] = (),
        kind: Kind = "fire",
        over: Condition | Conditions = (),
        imports: bool = False,
    ) -> None:
        if kind not in get_args(Kind):
            raise DefinitionError(f"trigger {name}: its kind is {' or '.join(get_args(Kind))}, not {kind!r}")
        for step in steps:
            _of_kind(step, get_args(Step), f"trigger {name}: a step")
        flat = _flat(edges)
        for edge in flat:
            _of_kind(edge, (Edge,), f"trigger {name}: an edge")
        self.__attrs_init__(name, when, steps, flat, kind, conjunction(over), imports)

    @property
    def creates(self) -> bool:
        """Whether records begin with it: an edge of it leaves `new`, or a state that no row stands for."""
        return not self.imports and any(
            not stands_for_row(edge.source) and stands_for_row(edge.dest) for edge in self.edges
        )

    def dos(self) -> Iterator[Do]:
        """Yield the steps that an operation binds."""
        return (step for step in self.steps if isinstance(step, Do))


def step_operands(step: Step) -> Iterator[Operand]:
    """Yield every column, argument, found value and constant that a step names."""
    if isinstance(step, Authority):
        yield from step.key.values()
    if isinstance(step, Look):
        yield from operands(step.where)
    if isinstance(step, Authority | Load | Look):
        yield from (operand for each in step.checks for operand in operands(each.terms))
    if isinstance(step, Fence):
        yield from operands(step.terms)
    if isinstance(step, Replay):
        yield from operands(conjunction(step.terms, step.conflict or ()))
    if isinstance(step, Secret):
        yield step.argument


def edge_operands(edge: Edge) -> Iterator[Operand]:
    """Yield every operand that the edge's guard and writes name."""
    yield from operands(edge.guard)
    for value in edge.writes.values():
        if isinstance(value, Plus):
            yield value.by
        elif isinstance(value, Greater):
            yield value.argument
        else:
            yield value


def trigger_operands(trigger: Trigger) -> Iterator[Operand]:
    """Yield every operand that the trigger names anywhere."""
    yield from operands(trigger.over)
    for edge in trigger.edges:
        yield from edge_operands(edge)
    for step in trigger.steps:
        yield from step_operands(step)


def answered_columns(trigger: Trigger, step: Authority | Look) -> frozenset[str]:
    """Return the columns that the step must answer: what its checks, a replay on it, and later steps name of it."""
    read: list[Operand] = [operand for check in step.checks for operand in operands(check.terms)]
    for other in trigger.steps:
        if isinstance(other, Replay) and other.on == step.name:
            read += step_operands(other)
    found = {each.column for each in trigger_operands(trigger) if isinstance(each, Of) and each.step == step.name}
    return frozenset(found | {each.name for each in read if isinstance(each, Column)})


def stands_for_row(place: State | Mark) -> bool:
    """Say whether a record at this place has a row."""
    return isinstance(place, State) and place.row
