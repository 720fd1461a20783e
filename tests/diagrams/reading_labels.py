"""What a DOT or PlantUML label says, once its own reader has taken it apart into the lines that a viewer shows."""

import re
from collections.abc import Sequence
from typing import Final

from attrs import define, field

from tests.diagrams.reading import Way

UNDECLARED: Final = "not in the declaration"
_HEAD: Final = re.compile(r"(?:\((?P<numbers>\d+(?:, \d+)*)\) )?(?:«(?P<kind>sweep|time|import)» )?(?P<trigger>.*)")
_TOLD: Final = ("now", "here no record exists", UNDECLARED, "final")


@define
class Place:
    """A box: its name, and what stands below the name."""

    name: str
    told: list[str]


@define
class Drawn:
    """What a text says: places by id, their boxes, the ways, and the looks of both."""

    places: dict[str, Place] = field(factory=dict)
    looks: dict[str, str] = field(factory=dict)
    groups: dict[str, str] = field(factory=dict)
    ways: list[Way] = field(factory=list)
    dashes: list[str] = field(factory=list)
    initial: list[str] = field(factory=list)
    final: list[str] = field(factory=list)

    @property
    def states(self) -> list[str]:
        """The names of the boxes."""
        return [place.name for place in self.places.values()]

    def told(self, said: str) -> list[str]:
        """Return the names of the boxes that say this."""
        return [place.name for place in self.places.values() if said in place.told]


def place(lines: Sequence[str]) -> Place:
    """Read the label of a box: the name comes first, folded at spaces."""
    end = len(lines)
    while end > 1 and lines[end - 1] in _TOLD:
        end -= 1
    return Place(" ".join(lines[:end]), list(lines[end:]))


def ways(source: str, dest: str, lines: Sequence[str]) -> list[Way]:
    """Read what a line says: one edge with its guard and its fence, or in an overview one trigger after the other."""
    if len(lines) > 1 and lines[1][:1] not in {"[", "{"} and lines[-1] != UNDECLARED:
        return [_way(source, dest, (line,)) for line in lines]
    return [_way(source, dest, lines)]


def _way(source: str, dest: str, lines: Sequence[str]) -> Way:
    """Read what one edge says: its head, then the guard and the fence, each folded at spaces."""
    undeclared = lines[-1] == UNDECLARED
    head, *rest = lines[:-1] if undeclared else lines
    found = _HEAD.fullmatch(head)
    assert found is not None
    guard, fence = "", ""
    if rest and rest[-1].endswith("}"):
        start = max(index for index, line in enumerate(rest) if line.startswith("{"))
        fence, rest = " ".join(rest[start:])[1:-1], rest[:start]
    if rest:
        assert rest[0].startswith("[")
        assert rest[-1].endswith("]")
        guard = " ".join(rest)[1:-1]
    numbers, kind = found["numbers"] or "", found["kind"] or "fire"
    return Way(source, dest, found["trigger"], kind, guard, fence, numbers, undeclared)
