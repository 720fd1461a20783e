"""A value of a subclass is judged by what is stored of it, whatever it shows to whoever looks."""

import math
from typing import Any

import pytest

from storage import canonical_json, number
from tests import bad_input as bad


class CallerError(ValueError):
    """The error class that an operation hands down."""


def encoded(value: Any) -> str:
    """Return the value as JSON of at most a kilobyte."""
    return canonical_json(value, label="x", error=CallerError, maximum_bytes=1024, ascii_only=False)


@pytest.mark.parametrize("answer", ["x", math.nan])
@pytest.mark.parametrize("kind", [int, float])
def test_a_number_is_judged_by_its_own_value(kind: type, answer: object) -> None:
    """A subclass that turns itself into another float, or into none, counts for what it is."""
    turncoat = type("Turncoat", (kind,), {"__float__": lambda _: answer})(2)
    assert number(turncoat, label="x", error=CallerError) == 2.0


def test_what_a_subclass_hides_is_refused() -> None:
    """JSON is checked as the encoder will see it, whatever an object or an integer pretends to be."""
    giant = type("Giant", (int,), {"__le__": lambda *_: True, "__ge__": lambda *_: True})(2**70)
    for value in (giant, *(bad.Pretender(key=each) for each in bad.JSON_SCALARS), bad.Pretender({1: 2})):
        with pytest.raises(CallerError):
            encoded(value)
    assert encoded(bad.Pretender(key=1)) == '{"key":1}'
