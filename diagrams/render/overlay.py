"""What the diagram renderers share: the lines to draw, and what is shown above the declaration."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

from diagrams.model import BEGINNING, END, Diagram, DiagramEdge, DiagramKind, DiagramState

__all__ = ["MARKS", "UNDECLARED", "UNNAMED", "Line", "Overlay", "Part", "Step", "life_order", "lines", "stranger"]

Step = tuple[str, str, str]
"""One step of a path that was taken: source, trigger, dest."""

MARKS: Final = frozenset({BEGINNING, END})
"""The places that are no states."""

UNDECLARED: Final = "not in the declaration"
"""What is said of a place or a way that only the overlay has."""

UNNAMED: Final = "(no name)"
"""What stands for an empty name."""

_NO_RECORD: Final = "here no record exists"


@frozen
class Overlay:
    """What is shown above the declaration: the path by edge, the places it went through, where the record is now."""

    taken: tuple[Step, ...]
    present: str | None

    @property
    def places(self) -> tuple[str, ...]:
        """Every place of the overlay, each once."""
        return tuple(dict.fromkeys((*self._path(), *((self.present,) if self.present is not None else ()))))

    @property
    def visited(self) -> frozenset[str]:
        """Every place that the path went through."""
        return frozenset(self._path())

    def strangers(self, model: Diagram) -> tuple[str, ...]:
        """Return the places that are no states: undeclared ones, and a mark where the record is now."""
        known = {*model.state_names, *MARKS}
        return tuple(place for place in self.places if place not in known or place in MARKS & {self.present})

    def numbers(self, source: str, trigger: str, dest: str) -> str:
        """Return the positions at which the path takes this way, from 1, parted by commas; empty where it does not."""
        return ", ".join(str(at) for at, step in enumerate(self.taken, 1) if step == (source, trigger, dest))

    def unknown_ways(self, model: Diagram) -> tuple[Step, ...]:
        """Return the steps that no edge of the declaration allows, each once."""
        known = {(edge.source, edge.trigger, edge.dest) for edge in model.edges}
        return tuple(dict.fromkeys(step for step in self.taken if step not in known))

    def _path(self) -> Iterator[str]:
        return (place for source, _, dest in self.taken for place in (source, dest))


@frozen
class Part:
    """What one trigger says on a line: the steps of the path that took it, its kind, guard and fence columns."""

    trigger: str
    numbers: str = ""
    kind: DiagramKind = "fire"
    guard: str = ""
    fence: str = ""
    declared: bool = True

    @property
    def head(self) -> str:
        """What it is called on the line: its positions on the path, its kind where none fired it, and its name."""
        numbers = f"({self.numbers}) " if self.numbers else ""
        return f"{numbers}{'' if self.kind == 'fire' else f'«{self.kind}» '}{self.trigger or UNNAMED}"


@frozen
class Line:
    """One line between two places, and what stands on it; no part at all marks an initial state."""

    source: str
    dest: str
    parts: tuple[Part, ...] = ()

    @property
    def taken(self) -> bool:
        """Whether the path took this line."""
        return any(part.numbers for part in self.parts)


def lines(model: Diagram, overlay: Overlay, *, overview: bool) -> Iterator[Line]:
    """Yield the lines in their order: into initial states, along the edges, and then what only the path has.

    An overview has one line for two places, which says each trigger once and neither guards nor fences.
    """
    yield from (Line(BEGINNING, state.name) for state in model.states if _begins_unlabelled(model, state))
    yield from _joint(model, overlay) if overview else (_line(edge, _part(edge, overlay)) for edge in model.edges)
    for source, trigger, dest in overlay.unknown_ways(model):
        part = Part(trigger, overlay.numbers(source, trigger, dest), declared=False)
        yield Line(source, dest, (part,))


def _begins_unlabelled(model: Diagram, state: DiagramState) -> bool:
    """Say whether no edge from the beginning shows already that the state is an initial one."""
    return state.initial and not any(edge.source == BEGINNING and edge.dest == state.name for edge in model.edges)


def life_order(model: Diagram, drawn: Sequence[Line]) -> dict[str, int]:
    """Return the position of each place in a record's life: a line leads ahead unless it closes a circle.

    What only the path has does not count, except that its places come last.
    """
    follows: dict[str, list[str]] = {}
    for line in drawn:
        if all(part.declared for part in line.parts):
            follows.setdefault(line.source, []).append(line.dest)
    initial_first = sorted(model.states, key=lambda state: not state.initial)
    roots = (BEGINNING, *(state.name for state in initial_first), *(place for line in drawn for place in _ends(line)))
    ordered: dict[str, None] = {}
    for root in roots:
        ordered |= dict.fromkeys(reversed(_finished(root, follows, ordered)))
    ordered.pop(END, None)
    return {place: index for index, place in enumerate((*ordered, END))}


def _ends(line: Line) -> tuple[str, str]:
    return line.source, line.dest


def _finished(root: str, follows: Mapping[str, Iterable[str]], known: Container[str]) -> tuple[str, ...]:
    """Return what is reached from a place and not known yet, each after all that follows it, by depth-first search."""
    if root in known:
        return ()
    done: dict[str, None] = {}
    entered, path = {root}, [(root, iter(follows.get(root, ())))]
    while path:
        place, after = path[-1]
        step = next((each for each in after if each not in entered and each not in known), None)
        if step is None:
            done[place] = None
            path.pop()
        else:
            entered.add(step)
            path.append((step, iter(follows.get(step, ()))))
    return tuple(done)


def stranger(place: str) -> str:
    """Return what is said of a place that is no state."""
    return _NO_RECORD if place in MARKS else UNDECLARED


def _joint(model: Diagram, overlay: Overlay) -> Iterator[Line]:
    joint: dict[tuple[str, str], dict[Part, None]] = {}
    for edge in model.edges:
        part = Part(edge.trigger, overlay.numbers(edge.source, edge.trigger, edge.dest), edge.kind)
        joint.setdefault((edge.source, edge.dest), {})[part] = None
    return (Line(source, dest, tuple(parts)) for (source, dest), parts in joint.items())


def _part(edge: DiagramEdge, overlay: Overlay) -> Part:
    numbers = overlay.numbers(edge.source, edge.trigger, edge.dest)
    return Part(edge.trigger, numbers, edge.kind, edge.guard, ", ".join(edge.fence_columns))


def _line(edge: DiagramEdge, part: Part) -> Line:
    return Line(edge.source, edge.dest, (part,))
