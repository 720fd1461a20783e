"""Figures that a test is run for, printed at the end of the run: from whichever process has run the test."""

from collections.abc import Callable

import pytest

__all__ = ["pytest_terminal_summary", "report"]

_PROPERTY = "reported"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Let the end of the run show a line."""
    return lambda line: record_property(_PROPERTY, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines, under the names of their tests."""
    # What a test records hangs on the report of its teardown too.
    reports = [each for group in terminalreporter.stats.values() for each in group if _is_call(each)]
    found = [(each.nodeid, line) for each in reports for name, line in each.user_properties if name == _PROPERTY]
    if found:
        terminalreporter.section("figures")
        for test, line in found:
            terminalreporter.write_line(f"{test.rpartition('::')[2]}: {line}")


def _is_call(each: object) -> bool:
    return isinstance(each, pytest.TestReport) and each.when == "call"
