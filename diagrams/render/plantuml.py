"""PlantUML: a state diagram as text, which PlantUML draws."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from diagrams.model import BEGINNING, END, Diagram, DiagramState
from diagrams.render.escape import folded, plantuml_text
from diagrams.render.overlay import UNDECLARED, UNNAMED, Line, Overlay, Part, Step, lines, stranger

__all__ = ["plantuml"]

_INDENT: Final = "    "
_BREAK: Final = "\\n"
_WIDTH: Final = 40
_MARK: Final = "[*]"
_DASHES: Final = {"sweep": "dashed", "time": "dotted"}


def plantuml(model: Diagram, *, taken: Iterable[Step] = (), present: str | None = None, overview: bool = False) -> str:
    """Return the lifecycle as a PlantUML state diagram; the keywords mean what they mean for `mermaid`."""
    overlay = Overlay(tuple(taken), present)
    drawn = tuple(lines(model, overlay, overview=overview))
    ids = _ids(model, overlay)
    text = (
        "@startuml",
        "left to right direction",
        "hide empty description",
        f"title {_BREAK.join(_folded(f'{model.name}: {model.meaning}', 2 * _WIDTH))}",
        *_states(model, overlay, ids),
        *(_line(line, ids) for line in drawn),
        *(f"{ids[name]} --> {_MARK}" for name in _ends_unlabelled(model, drawn)),
        "@enduml",
    )
    return "\n".join(text) + "\n"


def _ids(model: Diagram, overlay: Overlay) -> dict[str, str]:
    """Name every place by its position: a state's own name may be a word of the format, or hold anything."""
    ids = {name: f"n{index}" for index, name in enumerate(model.state_names)}
    marks = {BEGINNING: _MARK, END: _MARK}
    return {**marks, **ids, **{place: f"x{index}" for index, place in enumerate(overlay.strangers(model))}}


def _ends_unlabelled(model: Diagram, drawn: Iterable[Line]) -> Iterator[str]:
    """Yield the final states that no line to the end shows as such already."""
    ended = {line.source for line in drawn if line.dest == END}
    return (state.name for state in model.states if state.final and state.name not in ended)


def _states(model: Diagram, overlay: Overlay, ids: Mapping[str, str]) -> Iterator[str]:
    for index, (group, states) in enumerate(model.groups()):
        if group is None:
            yield from (_declared(state, overlay, ids) for state in states)
        else:
            yield f'state "{_BREAK.join(_folded(group))}" as g{index} {{'
            yield from (_INDENT + _declared(state, overlay, ids) for state in states)
            yield "}"
    for place in overlay.strangers(model):
        yield _state(place, ids[place], overlay, (stranger(place),), "dotted")


def _declared(state: DiagramState, overlay: Overlay, ids: Mapping[str, str]) -> str:
    told = ("final",) if state.final else ()
    return _state(state.name, ids[state.name], overlay, told, "" if state.row else "dashed")


def _state(name: str, alias: str, overlay: Overlay, told: Iterable[str], dash: str) -> str:
    now = name == overlay.present
    fill = "#bbf7d0" if now else "#dbeafe" if name in overlay.visited else ""
    # Of the two ways to draw a border one wins: where the record is matters more than whether it has a row.
    border = "##[bold]" if now else f"##[{dash}]" if dash else "##[bold]" if name in overlay.visited else ""
    label = _BREAK.join((*_folded(name or UNNAMED), *told, *(("now",) if now else ())))
    return " ".join(filter(None, (f'state "{label}" as {alias}', fill, border)))


def _line(line: Line, ids: Mapping[str, str]) -> str:
    kinds = {part.kind for part in line.parts}
    looks = [_DASHES[kind] for kind in _DASHES if kinds == {kind}]
    looks += ["#1d4ed8", "thickness=3"] if line.taken else []
    arrow = f"-[{','.join(looks)}]->" if looks else "-->"
    label = _BREAK.join(text for part in line.parts for text in _part(part))
    return f"{ids[line.source]} {arrow} {ids[line.dest]}" + (f" : {label}" if label else "")


def _part(part: Part) -> Iterator[str]:
    yield plantuml_text(part.head)
    yield from _enclosed("[", part.guard, "]")
    yield from _enclosed("{", part.fence, "}")
    if not part.declared:
        yield UNDECLARED


def _enclosed(opens: str, text: str, closes: str) -> Iterator[str]:
    """Yield the lines of a text between marks, which stay legible; whatever stands inside them is escaped."""
    if not text:
        return
    folds = folded(f"{opens}{text}{closes}", _WIDTH)
    for number, line in enumerate(folds, 1):
        before, after = opens if number == 1 else "", closes if number == len(folds) else ""
        yield f"{before}{plantuml_text(line.removeprefix(before).removesuffix(after))}{after}"


def _folded(text: str, width: int = _WIDTH) -> tuple[str, ...]:
    return tuple(map(plantuml_text, folded(text, width))) if text else ()
