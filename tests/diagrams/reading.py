"""A reader of the Mermaid text that the renderer writes; it refuses every line that has no known form."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import define, field

from diagrams import BEGINNING, END

_ENTITY = re.compile(r"#(\d+);")
_LABEL: Final = r"(?:[A-Za-z0-9 =,()'_.]|#\d+;|<br/>)*"
_EDGE_LABEL: Final = (
    rf"(?:\(\d+(?:, \d+)*\) )?(?:«(?:sweep|time|import)» )?{_LABEL}(?:<br/>\[{_LABEL}\])?(?:<br/>\{{{_LABEL}\}})?"
)
_FORMS: Final = {
    "state": re.compile(rf'state "(?P<label>{_LABEL})" as (?P<alias>[sxg]\d+)(?P<opens> \{{)?'),
    "closes": re.compile(r"\}"),
    "edge": re.compile(rf"(?P<source>\[\*\]|[sx]\d+) --> (?P<dest>\[\*\]|[sx]\d+)(?:: (?P<label>{_EDGE_LABEL}))?"),
    "class": re.compile(r"class (?P<members>[sx]\d+(?:,[sx]\d+)*) (?P<name>[a-z]+)"),
    "other": re.compile(rf"stateDiagram-v2|direction LR|classDef [a-z]+ [a-z0-9:#, -]+|acc(?:Title|Descr): {_LABEL}"),
}
_PARTS: Final = re.compile(
    r"(?:\((?P<numbers>[\d, ]+)\) )?(?:«(?P<kind>\w+)» )?(?P<trigger>.*?)"
    r"(?:<br/>\[(?P<guard>.*?)\])?(?:<br/>\{(?P<fence>.*?)\})?(?P<undeclared><br/>not#?.*)?"
)


@define
class Way:
    """A labelled edge."""

    source: str
    dest: str
    trigger: str
    kind: str
    guard: str
    fence: str
    numbers: str
    undeclared: bool


@define
class Read:
    """What a text says."""

    states: dict[str, str] = field(factory=dict)
    groups: dict[str, str] = field(factory=dict)
    ways: list[Way] = field(factory=list)
    initial: list[str] = field(factory=list)
    final: list[str] = field(factory=list)
    classes: dict[str, list[str]] = field(factory=dict)


def shown(label: str) -> str:
    """Return the text that a viewer shows for a label."""
    return _ENTITY.sub(lambda found: chr(int(found[1])), label)


def read(text: str) -> Read:
    """Read a diagram; raises AssertionError for a line that is none of the renderer's own."""
    result, group = Read(), None
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        kind, found = form_of(_FORMS, line.strip(" "))
        if kind == "state" and found["opens"]:
            group = shown(found["label"])
        elif kind == "state":
            result.states[found["alias"]] = shown(found["label"])
            if group is not None:
                result.groups[found["alias"]] = group
        elif kind == "closes":
            group = None
        elif kind == "edge":
            _read_edge(result, found)
        elif kind == "class":
            result.classes[found["name"]] = [result.states[alias] for alias in found["members"].split(",")]
    assert group is None
    return result


def form_of(forms: Mapping[str, re.Pattern[str]], line: str) -> tuple[str, re.Match[str]]:
    """Return which of a renderer's forms the whole line has; raises AssertionError where it has none."""
    for kind, form in forms.items():
        if found := form.fullmatch(line):
            return kind, found
    raise AssertionError(f"no form has the line {line!r}")


def _read_edge(result: Read, found: re.Match[str]) -> None:
    source = BEGINNING if found["source"] == "[*]" else result.states[found["source"]]
    dest = END if found["dest"] == "[*]" else result.states[found["dest"]]
    if found["label"] is None:
        assert (source == BEGINNING) != (dest == END)
        (result.initial if source == BEGINNING else result.final).append(dest if source == BEGINNING else source)
        return
    parts = _PARTS.fullmatch(found["label"])
    assert parts is not None
    trigger, guard, fence = (shown(parts[name] or "") for name in ("trigger", "guard", "fence"))
    kind, undeclared = parts["kind"] or "fire", parts["undeclared"] is not None
    result.ways.append(Way(source, dest, trigger, kind, guard, fence, parts["numbers"] or "", undeclared))
