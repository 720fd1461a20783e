"""DOT: a state diagram as Graphviz draws it, from left to right in the order of a record's life."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from diagrams.model import BEGINNING, END, Diagram, DiagramState
from diagrams.render.escape import dot_text, folded
from diagrams.render.overlay import (
    MARKS,
    UNDECLARED,
    UNNAMED,
    Line,
    Overlay,
    Part,
    Step,
    life_order,
    lines,
    stranger,
)

__all__ = ["dot"]

_INDENT: Final = "    "
_BREAK: Final = "\\n"
_LEFT: Final = "\\l"
_WIDTH: Final = 32
_LOOP_WIDTH: Final = 64
"""Above its state a label has room to the sides, and little in height."""

_TITLE_WIDTH: Final = 110
_FONT: Final = 'fontname="Helvetica,Arial,sans-serif"'
_GRAPH: Final = f"rankdir=LR, bgcolor=white, pad=0.2, nodesep=0.2, {_FONT}, fontsize=12, labelloc=t, labeljust=l"
_NODE: Final = (
    f'shape=box, style="rounded,filled", fillcolor=white, height=0.45, margin="0.14,0.06", {_FONT}, fontsize=14'
)
_EDGE: Final = "arrowsize=0.7"
_RANKSEP: Final = {False: 0.25, True: 0.16}
_SIZES: Final = {False: 10, True: 12}
"""The size of what stands on a line: in an overview there is little of it, and a page shows that small."""

_IDS: Final = {BEGINNING: "new", END: "gone"}
_MARKS: Final = {
    BEGINNING: 'shape=circle, style=filled, fillcolor=black, width=0.16, height=0.16, margin=0, label=""',
    END: 'shape=doublecircle, style=filled, fillcolor=black, width=0.12, height=0.12, margin=0, label=""',
}
_ON_THE_LINE: Final = 'shape=plaintext, style="", margin="0.03,0.02", width=0, height=0'
_BESIDE: Final = 'style="", color=gray60, penwidth=0.6, margin="0.08,0.05", width=0, height=0'
_DASHES: Final = {"sweep": "dashed", "time": "dotted"}
_FADED: Final = "gray45"
_LEGEND: Final = {
    "guard": "[what must hold]",
    "fence": "{what the write compares again}",
    "sweep": "dashed line: a sweep",
    "time": "dotted line: the clock",
    "final": "double border: final",
    "rowless": "dashed border: no row",
    "new": "dot: no record yet",
    "gone": "ringed dot: no record any more",
    "taken": "numbered bold line: the path taken",
    "now": "bold border: where the record is now",
}


@frozen
class _Label:
    """What stands between two places: lines that say something there, all drawn in one way."""

    number: int
    lines: tuple[Line, ...]

    @property
    def source(self) -> str:
        return self.lines[0].source

    @property
    def dest(self) -> str:
        return self.lines[0].dest

    @property
    def text(self) -> str:
        """The label: the parts one under the other, and lines that are joined with room between them."""
        width = _LOOP_WIDTH if self.source == self.dest else _WIDTH
        told = (_BREAK.join(text for part in line.parts for text in _part(part, width)) for line in self.lines)
        return f"{_BREAK}{_BREAK}".join(told)


@frozen
class _Drawing:
    """Everything that the statements are made of."""

    model: Diagram
    overlay: Overlay
    overview: bool
    drawn: tuple[Line, ...]
    ids: Mapping[str, str]
    order: Mapping[str, int]

    @property
    def labels(self) -> tuple[_Label, ...]:
        """Each labelled line with its number; those from a place to itself share a label where they look alike."""
        joined: dict[object, list[Line]] = {}
        for index, line in enumerate(line for line in self.drawn if line.parts):
            loop = (line.source, _dashes(line), line.taken)
            joined.setdefault(loop if line.source == line.dest else index, []).append(line)
        return tuple(_Label(number, tuple(each)) for number, each in enumerate(joined.values()))

    @property
    def used(self) -> frozenset[str]:
        """The places that lines touch or where the record is."""
        return frozenset({*(place for line in self.drawn for place in (line.source, line.dest)), *self.overlay.places})


def dot(model: Diagram, *, taken: Iterable[Step] = (), present: str | None = None, overview: bool = False) -> str:
    """Return the lifecycle as a Graphviz digraph.

    The keywords mean what they mean for `mermaid`: a path to number, the state that is the current one, and an overview
    with one line for two places. A label is a node in the middle of its line, so that nothing ever crosses its text.
    """
    overlay = Overlay(tuple(taken), present)
    drawn = tuple(lines(model, overlay, overview=overview))
    drawing = _Drawing(model, overlay, overview, drawn, _ids(model, overlay), life_order(model, drawn))
    text = (
        "digraph lifecycle {",
        f'{_INDENT}graph [{_GRAPH}, ranksep={_RANKSEP[overview]}, label="{_title(drawing)}"]',
        f"{_INDENT}node [{_NODE}]",
        f"{_INDENT}edge [{_EDGE}]",
        *(_INDENT + line for line in _places(drawing)),
        *(_INDENT + line for line in _final_rank(drawing)),
        *(_INDENT + line for line in _ways(drawing)),
        "}",
    )
    return "\n".join(text) + "\n"


def _ids(model: Diagram, overlay: Overlay) -> dict[str, str]:
    """Name every place by its position: a state's own name may be a word of the format, or hold anything."""
    ids = {name: f"n{index}" for index, name in enumerate(model.state_names)}
    unknown = (place for place in overlay.strangers(model) if place not in MARKS)
    return {**_IDS, **ids, **{place: f"x{index}" for index, place in enumerate(unknown)}}


def _title(drawing: _Drawing) -> str:
    head = f"{drawing.model.name}: {drawing.model.meaning}"
    told = (*folded(head, _TITLE_WIDTH), *folded(", ".join(_legend(drawing)), _TITLE_WIDTH), "", "")
    return _LEFT.join(map(dot_text, told))


def _legend(drawing: _Drawing) -> Iterator[str]:
    """Explain the marks, and only those, that this diagram uses."""
    parts = [part for line in drawing.drawn for part in line.parts]
    marks = {
        *(_IDS[place] for place in drawing.used & MARKS - {drawing.overlay.present}),
        *(dash for line in drawing.drawn if (dash := _dashes(line))),
        *("final" for state in drawing.model.states if state.final),
        *("rowless" for state in drawing.model.states if not state.row),
        *("guard" for part in parts if part.guard),
        *("fence" for part in parts if part.fence),
        *("taken" for part in parts if part.numbers),
        *("now" for _ in drawing.overlay.places if drawing.overlay.present is not None),
    }
    return (text for mark, text in _LEGEND.items() if mark in marks)


# --- places


def _places(drawing: _Drawing) -> Iterator[str]:
    groups = {state.name: state.group for state in drawing.model.states}
    inside = {label.number: groups.get(label.source) for label in drawing.labels if _together(label, groups)}
    yield from (_mark(BEGINNING, drawing) for _ in drawing.used & {BEGINNING})
    for index, (group, states) in enumerate(drawing.model.groups()):
        if group is None:
            yield from (_state(state, drawing) for state in states)
            continue
        yield f"subgraph cluster_{index} {{"
        yield f'{_INDENT}graph [label="{dot_text(group)}", style=rounded, color=gray60, fontsize=11, margin=10]'
        yield from (_INDENT + _state(state, drawing) for state in states)
        within = (label for label in drawing.labels if inside.get(label.number) == group)
        yield from (_INDENT + line for label in within for line in _label(label, drawing))
        yield "}"
    unknown = (place for place in drawing.overlay.strangers(drawing.model) if place not in MARKS)
    yield from (
        _node(place, drawing, said=stranger(place), looks=('color="#b91c1c"',), dash=",dotted") for place in unknown
    )
    yield from (_mark(END, drawing) for _ in drawing.used & {END})
    yield from (line for each in drawing.labels if each.number not in inside for line in _label(each, drawing))


def _together(label: _Label, groups: Mapping[str, str | None]) -> bool:
    """Say whether a label stands inside a box, since both its places do."""
    group = groups.get(label.source)
    return group is not None and group == groups.get(label.dest)


def _state(state: DiagramState, drawing: _Drawing) -> str:
    looks = ("peripheries=2",) if state.final else ()
    return _node(state.name, drawing, looks=looks, dash="" if state.row else ",dashed")


def _mark(place: str, drawing: _Drawing) -> str:
    if drawing.overlay.present == place:
        return _node(place, drawing, said=stranger(place), dash=",dashed")
    return f"{_IDS[place]} [{_MARKS[place]}]"


def _node(name: str, drawing: _Drawing, *, said: str = "", looks: Iterable[str] = (), dash: str) -> str:
    now, visited = name == drawing.overlay.present, name in drawing.overlay.visited
    label = _BREAK.join(filter(None, (*_folded(name or UNNAMED), said, "now" if now else "")))
    attributes = [f'label="{label}"', *looks]
    if dash:
        attributes.append(f'style="rounded,filled{dash}"')
    if now or visited:
        attributes.append('fillcolor="#bbf7d0", penwidth=3.5' if now else 'fillcolor="#dbeafe", penwidth=2')
    return f"{drawing.ids[name]} [{', '.join(attributes)}]"


def _final_rank(drawing: _Drawing) -> Iterator[str]:
    """Align the final states; those in a box stay where the box is."""
    final = [drawing.ids[state.name] for state in drawing.model.states if state.final and state.group is None]
    if len(final) > 1:
        yield f"{{ rank=same; {'; '.join(final)} }}"


# --- lines


def _label(label: _Label, drawing: _Drawing) -> Iterator[str]:
    alone = label.source == label.dest
    faded = f", fontcolor={_FADED}" if _fades(label.lines[0]) else ""
    looks = f"{_BESIDE if alone and len(label.lines) > 1 else _ON_THE_LINE}, fontsize={_SIZES[drawing.overview]}{faded}"
    yield f'e{label.number} [label="{label.text}", {looks}]'


def _ways(drawing: _Drawing) -> Iterator[str]:
    for line in drawing.drawn:
        if not line.parts:
            yield f"{drawing.ids[line.source]} -> {drawing.ids[line.dest]}"
    for label in drawing.labels:
        yield from _way(label, drawing)


def _way(label: _Label, drawing: _Drawing) -> tuple[str, str]:
    """Return the two halves of a line; one that leads back is written from its end, since Graphviz orders by that."""
    source, dest, middle = drawing.ids[label.source], drawing.ids[label.dest], f"e{label.number}"
    line, ahead = label.lines[0], drawing.order[label.dest] - drawing.order[label.source]
    looks = [f"style={_DASHES[dash]}" for dash in (_dashes(line),) if dash]
    looks += ["penwidth=2.5", 'color="#1d4ed8"'] if line.taken else [f"color={_FADED}"] if _fades(line) else []
    looks += ["weight=5"] if ahead == 1 and line.dest != END else []
    if ahead == 0:
        return f"{source} -> {middle}{_listed('dir=none', *looks)}", f"{dest} -> {middle}{_listed('dir=back', *looks)}"
    if ahead < 0:
        return f"{dest} -> {middle}{_listed('dir=back', *looks)}", f"{middle} -> {source}{_listed('dir=none', *looks)}"
    return f"{source} -> {middle}{_listed('dir=none', *looks)}", f"{middle} -> {dest}{_listed(*looks)}"


def _listed(*looks: str) -> str:
    return f" [{', '.join(looks)}]" if looks else ""


def _dashes(line: Line) -> str:
    """Return the kind that all of a line is of, where that kind has dashes of its own."""
    kinds = {part.kind for part in line.parts}
    return next((kind for kind in _DASHES if kinds == {kind}), "")


def _fades(line: Line) -> bool:
    """Say whether a line steps back: a sweep that removes records wherever they are tells little of their life."""
    return line.dest == END and _dashes(line) == "sweep" and not line.taken


def _part(part: Part, width: int) -> Iterator[str]:
    yield dot_text(part.head)
    yield from _folded(f"[{part.guard}]" if part.guard else "", width)
    yield from _folded(f"{{{part.fence}}}" if part.fence else "", width)
    if not part.declared:
        yield UNDECLARED


def _folded(text: str, width: int = _WIDTH) -> tuple[str, ...]:
    return tuple(map(dot_text, folded(text, width))) if text else ()
