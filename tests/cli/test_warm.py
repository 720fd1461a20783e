"""A command that is forked from a warm process is the one that would have been started."""

from pathlib import Path

import pytest

from tests.cli.processes import run_fsm, run_started


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["--version"], None),
        (["table", "nothing"], None),
        (["rooms", "missing.db"], None),
        (["run", "-", ":memory:"], "{"),
        (["run", "here.jsonl", ":memory:"], None),
    ],
)
def test_a_forked_command_does_what_a_started_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], given: str | None
) -> None:
    """Its output, its errors, its code, its input and its working directory are the same."""
    monkeypatch.chdir(tmp_path)
    if "here.jsonl" in arguments:
        Path("here.jsonl").write_text("{", encoding="utf-8")
    started = run_started(*arguments, given=given)
    forked = run_fsm(*arguments, given=given)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
