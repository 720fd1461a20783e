"""What came of the faults that the tests inject: counted by each test, printed once at the end of all of them."""

from collections.abc import Iterable
from typing import Final, Self

from attrs import asdict, astuple, frozen

__all__ = ["PROPERTY", "Figures", "summary"]

PROPERTY: Final = "faults"
"""The property of a test's report that holds its figures: a report travels from the process that ran the test."""


@frozen
class Figures:
    """How many faults were injected, and of the calls that they hit: how many ended with an unknown outcome, which then
    proved stored or not stored; how many were acknowledged and are not there; how many have their effect twice.
    """

    injected: int = 0
    unknown_stored: int = 0
    unknown_not_stored: int = 0
    lost: int = 0
    doubled: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*(left + right for left, right in zip(astuple(self), astuple(other), strict=True)))

    def as_property(self) -> dict[str, int]:
        """Return the figures as a report can carry them."""
        return asdict(self)

    def __str__(self) -> str:
        unknown = self.unknown_stored + self.unknown_not_stored
        return (
            f"injected {self.injected}, unknown outcomes {unknown} ({self.unknown_stored} of them stored), "
            f"lost {self.lost}, doubled {self.doubled}"
        )


def summary(properties: Iterable[tuple[str, object]]) -> str | None:
    """Return one line on all figures among the properties of reports, None where there are none."""
    found = [Figures(**value) for name, value in properties if name == PROPERTY and isinstance(value, dict)]
    return str(sum(found, Figures())) if found else None
