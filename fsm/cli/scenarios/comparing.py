"""Where a result differs from what a scenario expects of it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from fsm.jsonable import to_json

__all__ = ["Difference", "differences", "plain", "shown"]

MISSING: Final = object()
LONGEST: Final = 120


@frozen
class Difference:
    """One place of a result that is not as expected; `found` is MISSING where the result has no such place."""

    path: str
    expected: Any
    found: Any = field(default=MISSING)

    def facts(self) -> dict[str, object]:
        """Return it for programs."""
        facts = {"path": self.path, "expected": self.expected, "found": self.found}
        return {name: fact for name, fact in facts.items() if fact is not MISSING}

    def __str__(self) -> str:
        found = "nothing" if self.found is MISSING else shown(self.found)
        place = f"{self.path}: " if self.path else ""
        return f"{place}expected {shown(self.expected)}, found {found}"


def plain(value: object) -> Any:
    """Return a value as `--json` writes it; what JSON has no spelling for, such as a path, becomes text."""
    return json.loads(json.dumps(to_json(value), default=str))


def shown(value: object) -> str:
    """Return a value as JSON of bounded length."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def differences(expected: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """Compare two plain values: the fields of an object where they are expected, a list by length and elements."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, each in expected.items():
            place = f"{path}.{key}" if path else key
            if key not in found:
                yield Difference(place, each)
            else:
                yield from differences(each, found[key], place)
    elif isinstance(expected, list) and isinstance(found, list):
        yield from _of_lists(expected, found, path)
    elif not _same(expected, found):
        yield Difference(path, expected, found)


def _of_lists(expected: list[Any], found: list[Any], path: str) -> Iterator[Difference]:
    if len(expected) != len(found):
        yield Difference(f"{path}.length" if path else "length", len(expected), len(found))
        return
    for position, (each, other) in enumerate(zip(expected, found, strict=True)):
        yield from differences(each, other, f"{path}.{position}" if path else str(position))


def _same(expected: object, found: object) -> bool:
    """Say whether two scalars are equal: 1 is 1.0, as in JSON, but neither of them is true."""
    return expected == found and isinstance(expected, bool) == isinstance(found, bool)
