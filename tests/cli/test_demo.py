"""`fsm demo`: a failure and its repair, proven by the demo itself."""

import subprocess

import pytest

from tests.cli.processes import FSM, environment
from tests.engines import Engine

TIMEOUT = 90


@pytest.mark.timeout(2 * TIMEOUT)
def test_the_demo_holds_what_it_claims_twice_in_one_database_and_at_once(engine: Engine) -> None:
    """Each run has a room of its own, so that not even two at the same time disturb each other."""
    command = [*FSM, "demo", "--db", engine.location()]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        for _ in range(2)
    ]
    for run in runs:
        with run:
            told, errors = run.communicate(timeout=TIMEOUT)
        assert (run.returncode, errors) == (0, "")
        assert "indeterminate -> queued (requeue)" in told
        assert "stateDiagram-v2" in told
