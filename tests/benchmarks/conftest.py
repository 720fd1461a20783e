"""Benchmarks are not even collected, unless `-m` asks for them: CI shows no skipped test for a figure it cannot use."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out this folder's tests; None lets pytest decide as ever."""
    asked = "benchmark_ratio" in str(config.getoption("markexpr", ""))
    return None if asked or not collection_path.name.startswith("test_") else True
