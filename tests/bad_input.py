"""What no public function takes, by the kind of parameter."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

NAN, INFINITY = float("nan"), float("inf")
BEYOND_FLOAT, BEYOND_64_BITS = 10**400, 2**63


def nested(depth: int) -> Any:
    """Return a list within a list, so many levels deep."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> Any:
    """Return a list that contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


class Claimant(dict[str, Any]):
    """A dict that claims to have every key."""

    def __contains__(self, key: object) -> bool:
        """Say yes."""
        return True


class Pretender(dict[Any, Any]):
    """A dict that looks empty, and hands the encoder what it was made of."""

    def __iter__(self) -> Iterator[str]:
        """Show no key."""
        return iter(())

    def values(self) -> Any:
        """Show no value."""
        return ()


JSON_SCALARS: list[Any] = [NAN, INFINITY, -INFINITY, "a\0b", "\ud800", BEYOND_64_BITS, -(2**63) - 1, 10**5000]
JSON: list[Any] = [
    *JSON_SCALARS,
    *({"key": value} for value in JSON_SCALARS),
    *([value] for value in JSON_SCALARS),
    {1: 2},
    {None: 1},
    {("a",): 1},
    {"\ud800": 1},
    {"a\0b": 1},
    object(),
    {1, 2},
    b"bytes",
    nested(100_000),
    circular(),
    *(Pretender(key=value) for value in JSON_SCALARS),
]
IDENTIFIERS: list[Any] = [
    *(None, 1, 1.5, True, b"x", [], {}, object()),
    *("", "   ", "-x", ".x", "a b", "a/b", "a\nb", "a\0b", "\ud800", "é", "x" * 129),
]
POSITIVE_INTEGERS: list[Any] = [None, "1", 1.0, NAN, True, [], {}, 0, -1, BEYOND_64_BITS, 10**5000]
NON_NEGATIVE_INTEGERS: list[Any] = [None, "1", 1.0, NAN, True, [], {}, -1, BEYOND_64_BITS, 10**5000]
POSITIVE_NUMBERS: list[Any] = [None, " 60 ", True, NAN, INFINITY, -INFINITY, 0, -1, BEYOND_FLOAT, [], {}]
FLAGS: list[Any] = [None, 0, 1, "yes", [], {}]
DATABASES: list[Any] = [None, 5, 1.5, True, b"state.db", "", "a\0b", "\ud800", [], {}, object()]
VALUES: list[Any] = [None, 1, "x", [], {}, (), object()]


def _clock_with_argument(seconds: float) -> float:
    return seconds


def _failing_clock() -> float:
    return float("x")


CLOCKS: list[Any] = [
    *(5, "x", [], {}),
    *(lambda: NAN, lambda: INFINITY, lambda: "1", lambda: True, lambda: None, lambda: BEYOND_FLOAT, list),
    _clock_with_argument,
    _failing_clock,
]
INSTANTS: list[Any] = ["1", " 1 ", True, NAN, INFINITY, -INFINITY, BEYOND_FLOAT, [], {}]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)
"""A value of any kind, such as a program in error may hand over."""
