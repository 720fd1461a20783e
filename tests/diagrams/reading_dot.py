"""A reader of the DOT text that the renderer writes; it refuses every line that has no known form."""

import re
from typing import Final

from diagrams import BEGINNING, END
from tests.diagrams.reading import form_of
from tests.diagrams.reading_labels import Drawn, place, ways

_TEXT: Final = r'"(?:[^"\\\n]|\\["\\nl])*"'
_LOOK: Final = rf"[a-z]+=(?:{_TEXT}|[a-zA-Z0-9.]+)"
_LOOKS: Final = rf"\[(?P<looks>{_LOOK}(?:, {_LOOK})*)\]"
_PLACE: Final = r"(?:n\d+|x\d+|e\d+|new|gone)"
_FORMS: Final = {
    "node": re.compile(rf"(?P<id>{_PLACE}) {_LOOKS}"),
    "edge": re.compile(rf"(?P<tail>{_PLACE}) -> (?P<head>{_PLACE})(?: {_LOOKS})?"),
    "opens": re.compile(r"subgraph cluster_\d+ \{"),
    "graph": re.compile(rf"graph {_LOOKS}"),
    "closes": re.compile(r"\}"),
    "other": re.compile(rf"digraph lifecycle \{{|(?:node|edge) {_LOOKS}|\{{ rank=same(?:; n\d+)+ \}}"),
}
_MARKS: Final = {"new": BEGINNING, "gone": END}
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "&amp;": "&"}


def lines_of(label: str) -> list[str]:
    """Return the lines that Graphviz shows for a quoted label."""
    assert "&" not in label.replace("&amp;", "")
    parts = re.split(r"(\\.|&amp;)", label)
    told = "".join("\n" if part in {"\\n", "\\l"} else _ESCAPES.get(part, part) for part in parts)
    return told.split("\n")


def looks_of(text: str | None) -> dict[str, str]:
    """Return the attributes of a statement, without the quotes."""
    found = re.findall(r'([a-z]+)=(?:"((?:[^"\\]|\\.)*)"|([\w.]+))', text or "")
    return {name: quoted or plain for name, quoted, plain in found}


def read_dot(text: str) -> Drawn:
    """Read a digraph; raises AssertionError for a line that is none of the renderer's own."""
    assert text.endswith("}\n")
    result, group, halves = Drawn(), None, list[tuple[str, str, dict[str, str]]]()
    labels: dict[str, list[str]] = {}
    opened = False
    for line in text.removesuffix("\n").split("\n"):
        kind, found = form_of(_FORMS, line.strip(" "))
        looks = looks_of(found["looks"]) if kind in {"node", "edge", "graph"} else {}
        if kind == "opens":
            opened = True
        elif kind == "closes":
            opened, group = False, None
        elif kind == "graph" and opened:
            group = lines_of(looks["label"])[0]
        elif kind == "node" and found["id"].startswith("e"):
            labels[found["id"]] = lines_of(looks["label"])
        elif kind == "node":
            _read_place(result, found["id"], looks, group)
        elif kind == "edge":
            halves.append((found["tail"], found["head"], looks))
    _read_ways(result, labels, halves)
    return result


def _read_place(result: Drawn, alias: str, looks: dict[str, str], group: str | None) -> None:
    if not looks["label"]:
        assert alias in _MARKS
        return
    result.places[alias] = place(lines_of(looks["label"]))
    result.looks[alias] = looks.get("style", "")
    name = result.places[alias].name
    if looks.get("peripheries") == "2":
        result.final.append(name)
    if group is not None:
        result.groups[name] = group


def _read_ways(result: Drawn, labels: dict[str, list[str]], halves: list[tuple[str, str, dict[str, str]]]) -> None:
    names = {**{alias: box.name for alias, box in result.places.items()}, **_MARKS}
    for tail, head, _ in halves:
        if "e" not in {tail[0], head[0]}:
            assert tail == "new"
            result.initial.append(names[head])
    for middle, lines in labels.items():
        (source, dest), (dash, other) = _ends(middle, halves)
        assert dash == other
        for block in "\n".join(lines).split("\n\n"):
            found = ways(names[source], names[dest], block.split("\n"))
            result.ways.extend(found)
            result.dashes.extend(dash for _ in found)


def _ends(middle: str, halves: list[tuple[str, str, dict[str, str]]]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the source and dest of a label: the half with an arrow is the one at the dest."""
    mine = [half for half in halves if middle in half[:2]]
    (plain,) = (half for half in mine if half[2].get("dir") == "none")
    (arrow,) = (half for half in mine if half[2].get("dir") != "none")
    assert arrow[0 if arrow[2].get("dir") == "back" else 1] != middle
    ends = tuple(next(place for place in half[:2] if place != middle) for half in (plain, arrow))
    return (ends[0], ends[1]), (plain[2].get("style", ""), arrow[2].get("style", ""))
