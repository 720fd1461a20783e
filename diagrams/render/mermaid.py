"""Mermaid: a state diagram as text, which many viewers draw by themselves."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from diagrams.model import BEGINNING, END, Diagram, DiagramEdge, DiagramState
from diagrams.render.escape import mermaid_text

__all__ = ["Step", "mermaid"]

Step = tuple[str, str, str]
"""One step of a path that was taken: source, trigger, dest."""

_INDENT: Final = "    "
_BREAK: Final = "<br/>"
_MARKS: Final = frozenset({BEGINNING, END})
_STYLES: Final = {
    "final": "stroke-width:3px",
    "rowless": "stroke-dasharray:5 4",
    "taken": "fill:#dbeafe,stroke:#1d4ed8,color:#172554",
    "present": "fill:#bbf7d0,stroke:#15803d,stroke-width:4px,color:#052e16",
    "undeclared": "fill:#fee2e2,stroke:#b91c1c,stroke-dasharray:2 3,color:#450a0a",
}
"""How each class of state looks; `taken` and `present` come late, so that they win over what a state always is."""


@frozen
class _Overlay:
    """What is shown above the declaration: the path by edge, the places it went through, where the record is now."""

    taken: tuple[Step, ...]
    present: str | None

    @property
    def places(self) -> tuple[str, ...]:
        """Every place of the overlay, each once."""
        path = (place for source, _, dest in self.taken for place in (source, dest))
        return tuple(dict.fromkeys((*path, *((self.present,) if self.present is not None else ()))))

    def numbers(self, source: str, trigger: str, dest: str) -> str:
        """Return the positions at which the path takes this way, from 1, as an edge begins with them."""
        at = [str(index) for index, step in enumerate(self.taken, 1) if step == (source, trigger, dest)]
        return f"({', '.join(at)}) " if at else ""


def mermaid(model: Diagram, *, taken: Iterable[Step] = (), present: str | None = None, overview: bool = False) -> str:
    """Return the lifecycle as a Mermaid state diagram.

    An `overview` draws one line for all the triggers between two places, and leaves guards and fences to the page.

    `taken` is a path to show above it, step by step; `present` the state to mark as the current one. What the
    declaration does not have is drawn too and says so. The path does not tell guards apart: where two edges share
    source, trigger and dest, both carry the number.
    """
    overlay = _Overlay(tuple(taken), present)
    aliases = _aliases(model, overlay)
    lines_of = _joint_edges if overview else _edges
    lines = (
        "stateDiagram-v2",
        f"{_INDENT}direction LR",
        f"{_INDENT}accTitle: {mermaid_text(model.name) or 'lifecycle'}",
        f"{_INDENT}accDescr: {mermaid_text(model.meaning) or 'a lifecycle'}",
        *(f"{_INDENT}{line}" for line in _states(model, overlay, aliases)),
        *(f"{_INDENT}{line}" for line in lines_of(model, overlay, aliases)),
        *(f"{_INDENT}{line}" for line in _classes(model, overlay, aliases)),
    )
    return "\n".join(lines) + "\n"


def _aliases(model: Diagram, overlay: _Overlay) -> dict[str, str]:
    """Name every place by its position: a state's own name may be a word of the format, or hold anything."""
    aliases = {name: f"s{index}" for index, name in enumerate(model.state_names)}
    for index, place in enumerate(_strangers(model, overlay)):
        aliases[place] = f"x{index}"
    return aliases


def _strangers(model: Diagram, overlay: _Overlay) -> tuple[str, ...]:
    """Return the places of the overlay that are no states: undeclared ones, and a mark where the record is now."""
    known = {*model.state_names, *_MARKS}
    return tuple(place for place in overlay.places if place not in known or place in _MARKS & {overlay.present})


def _states(model: Diagram, overlay: _Overlay, aliases: Mapping[str, str]) -> Iterator[str]:
    for index, (group, states) in enumerate(model.groups()):
        if group is None:
            yield from (_state(mermaid_text(state.name), aliases[state.name]) for state in states)
        else:
            yield from _group(f"g{index}", group, states, aliases)
    for place in _strangers(model, overlay):
        yield _state(_stranger(place), aliases[place])


def _group(alias: str, label: str, states: Iterable[DiagramState], aliases: Mapping[str, str]) -> Iterator[str]:
    yield f"{_state(mermaid_text(label), alias)} {{"
    yield f"{_INDENT}direction LR"
    yield from (_INDENT + _state(mermaid_text(state.name), aliases[state.name]) for state in states)
    yield "}"


def _state(label: str, alias: str) -> str:
    # A state needs some text: an empty one would show its alias, which means nothing to a reader.
    return f'state "{label or mermaid_text("(no name)")}" as {alias}'


def _stranger(place: str) -> str:
    said = "here no record exists" if place in _MARKS else "not in the declaration"
    return f"{mermaid_text(place)}{_BREAK}{said}"


def _edges(model: Diagram, overlay: _Overlay, aliases: Mapping[str, str]) -> Iterator[str]:
    places = {**aliases, BEGINNING: "[*]", END: "[*]"}
    yield from (f"[*] --> {aliases[state.name]}" for state in model.states if _begins_unlabelled(model, state))
    for edge in model.edges:
        numbers = overlay.numbers(edge.source, edge.trigger, edge.dest)
        yield f"{places[edge.source]} --> {places[edge.dest]}: {numbers}{_label(edge)}"
    yield from _unknown_edges(model, overlay, places)
    yield from (f"{aliases[state.name]} --> [*]" for state in model.states if state.final)


def _joint_edges(model: Diagram, overlay: _Overlay, aliases: Mapping[str, str]) -> Iterator[str]:
    places = {**aliases, BEGINNING: "[*]", END: "[*]"}
    joint: dict[tuple[str, str], dict[str, None]] = {}
    for edge in model.edges:
        label = overlay.numbers(edge.source, edge.trigger, edge.dest) + _trigger(edge)
        joint.setdefault((edge.source, edge.dest), {})[label] = None
    yield from (f"[*] --> {aliases[state.name]}" for state in model.states if _begins_unlabelled(model, state))
    for (source, dest), labels in joint.items():
        yield f"{places[source]} --> {places[dest]}: {_BREAK.join(labels)}"
    yield from _unknown_edges(model, overlay, places)
    ended = {source for source, dest in joint if dest == END}
    yield from (f"{aliases[state.name]} --> [*]" for state in model.states if state.final and state.name not in ended)


def _unknown_edges(model: Diagram, overlay: _Overlay, places: Mapping[str, str]) -> Iterator[str]:
    for source, trigger, dest in _ways_unknown(model, overlay):
        numbers = overlay.numbers(source, trigger, dest)
        label = f"{numbers}{mermaid_text(trigger)}{_BREAK}not in the declaration"
        yield f"{places[source]} --> {places[dest]}: {label}"


def _begins_unlabelled(model: Diagram, state: DiagramState) -> bool:
    """Say whether no edge from the beginning shows already that the state is an initial one."""
    return state.initial and not any(edge.source == BEGINNING and edge.dest == state.name for edge in model.edges)


def _ways_unknown(model: Diagram, overlay: _Overlay) -> tuple[Step, ...]:
    known = {(edge.source, edge.trigger, edge.dest) for edge in model.edges}
    return tuple(dict.fromkeys(step for step in overlay.taken if step not in known))


def _trigger(edge: DiagramEdge) -> str:
    # The clock and sweeps move records that no caller named: that must be seen without any colour.
    kind = "" if edge.kind == "fire" else f"«{edge.kind}» "
    return kind + (mermaid_text(edge.trigger) or mermaid_text("(no name)"))


def _label(edge: DiagramEdge) -> str:
    guard = f"{_BREAK}[{mermaid_text(edge.guard)}]" if edge.guard else ""
    fence = f"{_BREAK}{{{mermaid_text(', '.join(edge.fence_columns))}}}" if edge.fence_columns else ""
    return _trigger(edge) + guard + fence


def _classes(model: Diagram, overlay: _Overlay, aliases: Mapping[str, str]) -> Iterator[str]:
    visited = {place for step in overlay.taken for place in (step[0], step[2])}
    strangers = _strangers(model, overlay)
    members = {
        "final": [state.name for state in model.states if state.final],
        "rowless": [state.name for state in model.states if not state.row],
        "taken": [name for name in aliases if name in visited],
        "present": [name for name in aliases if name == overlay.present],
        "undeclared": [name for name in strangers if name not in _MARKS],
    }
    for name, places in members.items():
        if places:
            yield f"classDef {name} {_STYLES[name]}"
            yield f"class {','.join(aliases[place] for place in places)} {name}"
