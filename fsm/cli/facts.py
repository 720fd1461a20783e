"""What is stored, made fit to be read: a stored text may hold anything, also what would move a terminal's cursor."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence

from fsm.cli.output import say, shown_time
from fsm.jsonable import to_json

__all__ = ["Facts", "fact_lines", "printable", "say_facts", "say_one_by_one", "say_stored", "shown_instant"]

Facts = Iterable[tuple[str, object]]
"""Labels with what is stored; None stands for what is not there."""

_LABEL_WIDTH = 15
_INDENT = "  "


def printable(value: object) -> str:
    """Return a value as text without control characters; what the terminal cannot show is spelt as an escape."""
    text = "" if value is None else str(value)
    plain = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
    encoding = sys.stdout.encoding or "utf-8"
    return plain.encode(encoding, "backslashreplace").decode(encoding)


def shown_instant(instant: object) -> str:
    """Return an instant as UTC, and whatever else a damaged row holds in its place as it is."""
    return shown_time(instant) if isinstance(instant, float | int) else printable(instant)


def fact_lines(facts: Facts) -> Iterator[str]:
    """Yield a line for each fact that is there; a text of several lines follows on its label, indented."""
    for label, value in facts:
        if value is None or value == "":
            continue
        lines = [printable(line) for line in str(value).splitlines()] or [""]
        if len(lines) == 1:
            yield f"{label:<{_LABEL_WIDTH}} {lines[0]}"
        else:
            yield label
            yield from (f"{_INDENT}{line}".rstrip() for line in lines)


def say_one_by_one(labels: Sequence[str], records: Iterable[Sequence[object]]) -> None:
    """Write records below each other, for a terminal too narrow for a table of them."""
    for position, cells in enumerate(records):
        if position:
            say("")
        say_facts(zip(labels, cells, strict=True))


def say_facts(facts: Facts) -> None:
    """Write the facts as lines of an answer."""
    for line in fact_lines(facts):
        say(line)


def say_stored(answer: object) -> None:
    """Write an answer as one JSON document, also where a damaged row holds what JSON does not have."""
    say(json.dumps(to_json(answer), default=repr))
