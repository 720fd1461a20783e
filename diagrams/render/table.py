"""Markdown: the reference page of one lifecycle, which says in tables everything that its declaration says."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from diagrams.model import (
    BEGINNING,
    END,
    Diagram,
    DiagramEdge,
    DiagramKind,
    DiagramOutcome,
    DiagramState,
    DiagramStep,
    DiagramTrigger,
)
from diagrams.render.escape import markdown_code, markdown_text

__all__ = ["reference"]

_BREAK: Final = "<br>"
_KINDS: Final[Mapping[DiagramKind, str]] = {
    "fire": "it is fired for one record",
    "sweep": "a sweep; it moves every record that it selects",
    "time": "the clock alone moves the record; nothing is written",
    "import": "it is fired for one record, and may bring in one that began elsewhere",
}


def reference(model: Diagram, *, figure: str = "") -> str:
    """Return the reference page; `figure` is Markdown to stand between its head and its tables, such as a diagram."""
    paragraphs = (
        f"# {markdown_text(model.name)}",
        markdown_text(model.meaning),
        figure.rstrip("\n"),
        _record(model),
        "## States",
        _table(("state", "meaning", "a record is in it when", "it then holds", "final"), map(_state, model.states)),
        "## Triggers",
        *(paragraph for trigger in model.triggers for paragraph in _trigger(trigger)),
    )
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _record(model: Diagram) -> str:
    beside = f", beside it the row of {markdown_code(model.joined)} with the same key" if model.joined else ""
    return f"Table {markdown_code(model.table)}, key {_codes(model.key, ', ')}{beside}."


def _state(state: DiagramState) -> tuple[str, ...]:
    initial = " (initial)" if state.initial else ""
    holds = _BREAK.join(filter(None, ("" if state.row else "there is no row", markdown_code(state.holds))))
    final = "yes" if state.final else ""
    return _place(state.name) + initial, markdown_text(state.meaning), holds, markdown_code(state.requires), final


def _trigger(trigger: DiagramTrigger) -> Iterator[str]:
    yield f"### {markdown_text(trigger.name)}"
    yield f"When {markdown_text(trigger.when)}."
    yield "\n".join(f"- {fact}" for fact in _facts(trigger))
    yield _table(("from", "to", "guard", "writes"), map(_edge, trigger.edges))
    if trigger.steps:
        numbered = (_step(number, step) for number, step in enumerate(trigger.steps, 1))
        yield _table(("", "step", "what it looks at or does", "how it can end the call"), numbered)


def _facts(trigger: DiagramTrigger) -> Iterator[str]:
    yield f"Kind: {_KINDS[trigger.kind]}."
    if trigger.kind == "sweep":
        yield f"Selects: {markdown_code(trigger.over) or 'every record'}"
    elif trigger.fence:
        yield f"Fence, repeated by the write: {_codes(trigger.fence, ', ')}"
    if trigger.kind in {"fire", "import"}:
        yield f"Exact retry: {_replay(trigger)}"
    if trigger.refusals:
        yield f"Raises: {_codes(trigger.refusals, ', ')}"


def _replay(trigger: DiagramTrigger) -> str:
    if not trigger.replays:
        return "a call like any other."
    rules = (_when(outcome) for step in trigger.steps for outcome in step.outcomes if outcome.result == "replays")
    return f"answered with what is stored, {'; or '.join(rules)}"


def _edge(edge: DiagramEdge) -> tuple[str, ...]:
    writes = _codes((f"{column} = {value}" for column, value in edge.writes), _BREAK)
    return _place(edge.source), _place(edge.dest), markdown_code(edge.guard), writes


def _place(name: str) -> str:
    """Tell the marks from the states: a mark is no state, and is set in italics."""
    return f"*{name}*" if name in {BEGINNING, END} else markdown_code(name)


def _step(number: int, step: DiagramStep) -> tuple[str, ...]:
    return str(number), markdown_text(step.kind), markdown_text(step.text), _BREAK.join(map(_outcome, step.outcomes))


def _outcome(outcome: DiagramOutcome) -> str:
    if outcome.result == "raises":
        return f"{_when(outcome)}: raises {markdown_code(outcome.refusal)}: {markdown_text(outcome.remedy)}"
    return f"{_when(outcome)}: {'declines' if outcome.result == 'declines' else 'answered with what is stored'}"


def _when(outcome: DiagramOutcome) -> str:
    return " ".join(filter(None, (markdown_text(outcome.when), markdown_code(outcome.terms))))


def _codes(texts: Iterable[str], between: str) -> str:
    return between.join(map(markdown_code, texts))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join((_row(head), _row("---" for _ in head), *map(_row, rows)))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
