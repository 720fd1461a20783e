"""Mermaid: a state diagram as text, which many viewers draw by themselves."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from diagrams.model import BEGINNING, END, Diagram, DiagramState
from diagrams.render.escape import mermaid_text
from diagrams.render.overlay import MARKS, UNDECLARED, Line, Overlay, Part, Step, lines, stranger

__all__ = ["mermaid"]

_INDENT: Final = "    "
_BREAK: Final = "<br/>"
_STYLES: Final = {
    "final": "stroke-width:3px",
    "rowless": "stroke-dasharray:5 4",
    "taken": "fill:#dbeafe,stroke:#1d4ed8,color:#172554",
    "present": "fill:#bbf7d0,stroke:#15803d,stroke-width:4px,color:#052e16",
    "undeclared": "fill:#fee2e2,stroke:#b91c1c,stroke-dasharray:2 3,color:#450a0a",
}
"""How each class of state looks; `taken` and `present` come late, so that they win over what a state always is."""


def mermaid(model: Diagram, *, taken: Iterable[Step] = (), present: str | None = None, overview: bool = False) -> str:
    """Return the lifecycle as a Mermaid state diagram.

    An `overview` draws one line for all the triggers between two places, and leaves guards and fences to the page.

    `taken` is a path to show above it, step by step; `present` the state to mark as the current one. What the
    declaration does not have is drawn too and says so. The path does not tell guards apart: where two edges share
    source, trigger and dest, both carry the number.
    """
    overlay = Overlay(tuple(taken), present)
    aliases = _aliases(model, overlay)
    drawn = lines(model, overlay, overview=overview)
    text = (
        "stateDiagram-v2",
        f"{_INDENT}direction LR",
        f"{_INDENT}accTitle: {mermaid_text(model.name) or 'lifecycle'}",
        f"{_INDENT}accDescr: {mermaid_text(model.meaning) or 'a lifecycle'}",
        *(f"{_INDENT}{line}" for line in _states(model, overlay, aliases)),
        *(f"{_INDENT}{line}" for line in _edges(model, drawn, aliases, overview=overview)),
        *(f"{_INDENT}{line}" for line in _classes(model, overlay, aliases)),
    )
    return "\n".join(text) + "\n"


def _aliases(model: Diagram, overlay: Overlay) -> dict[str, str]:
    """Name every place by its position: a state's own name may be a word of the format, or hold anything."""
    aliases = {name: f"s{index}" for index, name in enumerate(model.state_names)}
    for index, place in enumerate(overlay.strangers(model)):
        aliases[place] = f"x{index}"
    return aliases


def _states(model: Diagram, overlay: Overlay, aliases: Mapping[str, str]) -> Iterator[str]:
    for index, (group, states) in enumerate(model.groups()):
        if group is None:
            yield from (_state(mermaid_text(state.name), aliases[state.name]) for state in states)
        else:
            yield from _group(f"g{index}", group, states, aliases)
    for place in overlay.strangers(model):
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
    return f"{mermaid_text(place)}{_BREAK}{stranger(place)}"


def _edges(model: Diagram, drawn: Iterable[Line], aliases: Mapping[str, str], *, overview: bool) -> Iterator[str]:
    places, ended = {**aliases, BEGINNING: "[*]", END: "[*]"}, set()
    for line in drawn:
        label = f": {_BREAK.join(map(_label, line.parts))}" if line.parts else ""
        yield f"{places[line.source]} --> {places[line.dest]}{label}"
        ended |= {line.source} if overview and line.dest == END else set()
    yield from (f"{aliases[state.name]} --> [*]" for state in model.states if state.final and state.name not in ended)


def _label(part: Part) -> str:
    numbers = f"({part.numbers}) " if part.numbers else ""
    # The clock and sweeps move records that no caller named: that must be seen without any colour.
    kind = "" if part.kind == "fire" else f"«{part.kind}» "
    guard = f"{_BREAK}[{mermaid_text(part.guard)}]" if part.guard else ""
    fence = f"{_BREAK}{{{mermaid_text(part.fence)}}}" if part.fence else ""
    strange = "" if part.declared else f"{_BREAK}{UNDECLARED}"
    return f"{numbers}{kind}{mermaid_text(part.trigger) or mermaid_text('(no name)')}{guard}{fence}{strange}"


def _classes(model: Diagram, overlay: Overlay, aliases: Mapping[str, str]) -> Iterator[str]:
    strangers = overlay.strangers(model)
    members = {
        "final": [state.name for state in model.states if state.final],
        "rowless": [state.name for state in model.states if not state.row],
        "taken": [name for name in aliases if name in overlay.visited],
        "present": [name for name in aliases if name == overlay.present],
        "undeclared": [name for name in strangers if name not in MARKS],
    }
    for name, places in members.items():
        if places:
            yield f"classDef {name} {_STYLES[name]}"
            yield f"class {','.join(aliases[place] for place in places)} {name}"
