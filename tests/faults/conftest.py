"""Fixtures of the fault tests."""

from collections.abc import Callable

import pytest

from tests.faults.figures import PROPERTY, Figures


@pytest.fixture
def report_faults(record_property: Callable[[str, object], None]) -> Callable[[Figures], None]:
    """Add figures to those that are printed at the end of the run."""
    return lambda figures: record_property(PROPERTY, figures.as_property())
