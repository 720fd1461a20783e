"""A reader of the PlantUML text that the renderer writes; it refuses every line that has no known form."""

import re
from typing import Final

from diagrams import BEGINNING, END
from tests.diagrams.reading import form_of
from tests.diagrams.reading_labels import Drawn, place, ways

_LABEL: Final = r"(?:[A-Za-z0-9 =,()_.]|<U\+[0-9A-F]{4,6}>|\\n(?:[\[{])?|[\]}](?=\\n|$))*"
_PLACE: Final = r"(?:\[\*\]|[nx]\d+)"
_BORDER: Final = r"(?: #[0-9a-f]{6})?(?: ##\[(?P<border>bold|dashed|dotted)\])?"
_FORMS: Final = {
    "group": re.compile(rf'state "(?P<label>{_LABEL})" as g\d+ \{{'),
    "state": re.compile(rf'state "(?P<label>{_LABEL})" as (?P<id>[nx]\d+){_BORDER}'),
    "edge": re.compile(
        rf"(?P<source>{_PLACE}) (?:-->|-\[(?P<looks>[a-z0-9#,=]+)\]->) (?P<dest>{_PLACE})(?: : (?P<label>{_LABEL}))?"
    ),
    "closes": re.compile(r"\}"),
    "other": re.compile(rf"@startuml|@enduml|left to right direction|hide empty description|title {_LABEL}"),
}


def lines_of(label: str) -> list[str]:
    """Return the lines that PlantUML shows for a label."""
    told = label.replace("\\n", "\n").replace("<U+005C><U+200B>t", "<U+005C>t")
    return re.sub(r"<U\+([0-9A-F]+)>", lambda found: chr(int(found[1], 16)), told).split("\n")


def read_plantuml(text: str) -> Drawn:
    """Read a state diagram; raises AssertionError for a line that is none of the renderer's own."""
    assert text.startswith("@startuml\n")
    assert text.endswith("\n@enduml\n")
    assert text.count("@") == 2
    result, group = Drawn(), None
    for line in text.removesuffix("\n").split("\n"):
        kind, found = form_of(_FORMS, line.strip(" "))
        if kind == "group":
            group = lines_of(found["label"])[0]
        elif kind == "closes":
            group = None
        elif kind == "state":
            box = place(lines_of(found["label"]))
            result.places[found["id"]], result.looks[found["id"]] = box, found["border"] or ""
            if "final" in box.told:
                result.final.append(box.name)
            if group is not None:
                result.groups[box.name] = group
        elif kind == "edge":
            _read_edge(result, found)
    return result


def _read_edge(result: Drawn, found: re.Match[str]) -> None:
    source = BEGINNING if found["source"] == "[*]" else result.places[found["source"]].name
    dest = END if found["dest"] == "[*]" else result.places[found["dest"]].name
    if found["label"] is None:
        assert (source == BEGINNING) != (dest == END)
        if source == BEGINNING:
            result.initial.append(dest)
        return
    read = ways(source, dest, lines_of(found["label"]))
    dash = next((each for each in (found["looks"] or "").split(",") if each in {"dashed", "dotted"}), "")
    result.ways.extend(read)
    result.dashes.extend(dash for _ in read)
