"""What the README shows is what happens."""

import re
from pathlib import Path
from typing import Any

import pytest

import storage

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_an_example_runs(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the README runs as it stands, with its assertions."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(EXAMPLES[index], f"README example {index + 1}", "exec"), names)  # noqa: S102 # the README's own code
    names["db"].close()


def test_the_examples_are_short() -> None:
    """Using the driver or a session takes about 20 lines, declaring a lifecycle of one's own at most 40."""
    driven, turned, declared = (len([line for line in each.splitlines() if line.strip()]) for each in EXAMPLES)
    assert max(driven, turned) <= 22
    assert declared <= 40


def test_the_warning_is_named() -> None:
    """The one warning that opening a database may give is explained under its own name."""
    assert f"storage.{storage.WalResetWarning.__name__}" in README


def test_every_path_that_is_named_exists() -> None:
    """What the README sends a reader to is there."""
    root = Path(__file__).parents[2]
    named = set(re.findall(r"`((?:fsm|storage|diagrams|tests)/[\w/.]*)`", README))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (root / path).exists()] == []
