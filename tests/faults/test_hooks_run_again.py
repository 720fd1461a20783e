"""A hook whose transaction loses a race on a real server is run again with it, and leaves one trace."""

from collections.abc import Callable
from typing import Any, Final

import psycopg
import pytest

from fsm import sessions
from storage import Transaction
from tests.engines import SERVER, Engine
from tests.faults.figures import Figures
from tests.sessions.support import Owner
from tests.workers.support import Works
from tests.world import ManualClock

pytestmark = pytest.mark.engines("postgres", "serializable")

Hook = Callable[[Transaction], Any]

SET: Final = "INSERT INTO state_meta (key, value) VALUES (:key, :value)"
TOUCH: Final = "UPDATE state_meta SET value = 'touched' WHERE key = 'contended'"


def admit(owner: Owner, hook: Hook) -> None:
    """Admit an input that the hook authorizes."""
    owner.admit("r1", authorize_write=hook)


def replay(owner: Owner, hook: Hook) -> None:
    """Admit an input again, which the hook allows to be answered."""
    owner.admit("r1")
    owner.admit("r1", replay_guard=hook)


def claim(owner: Owner, hook: Hook) -> None:
    """Claim an input through the hook's gate."""
    owner.admit("r1")
    assert owner.claim(guard=hook)


def settle(owner: Owner, hook: Hook) -> None:
    """Settle a turn with the hook's own effect."""
    owner.settle(owner.start("r1"), terminal_write=lambda tx, _: hook(tx))


def resolve(owner: Owner, hook: Hook) -> None:
    """Resolve a turn that is unknown with the hook's own effect."""
    turn, successor = owner.start("r1"), owner.succeed()
    successor.recover()
    successor.resolve(turn, terminal_write=lambda tx, _: hook(tx))


def delete(owner: Owner, hook: Hook) -> None:
    """Delete a session, which the hook authorizes."""
    row = owner.session()
    sessions.mutate_runtime_session(
        owner.db,
        epoch=owner.epoch,
        principal_id="p",
        session_id="s",
        request_id="m1",
        expected_revision=row["runtime_revision"],
        expected_generation=row["runtime_generation"],
        operation="delete",
        payload={},
        live_guard=lambda _: None,
        authorize_write=hook,
    )


def report(owner: Owner, hook: Hook) -> None:
    """Report an operation that the hook carries out."""
    works = Works(owner)
    works.register()
    assert works.apply(lambda _, tx, __, ___: {"run": bool(hook(tx) or True)}) == {"run": True}


CALLS: Final = (admit, replay, claim, settle, resolve, delete, report)


def play(owner: Owner, call: Callable[[Owner, Hook], None], lose: Callable[[Transaction, int], None]) -> list[int]:
    """Make the call; its hook writes a row of its own and then may lose a race. Return the hook's runs."""
    runs: list[int] = []
    owner.execute(SET, key="contended", value="")

    def hook(tx: Transaction) -> None:
        runs.append(len(runs) + 1)
        tx.execute(SET, {"key": "left by the hook", "value": "once"})
        lose(tx, len(runs))
        tx.execute(TOUCH)

    call(owner, hook)
    return runs


@pytest.mark.parametrize("call", CALLS)
def test_a_hook_that_is_run_again_leaves_one_trace(
    engine: Engine, call: Callable[[Owner, Hook], None], report_faults: Callable[[Figures], None]
) -> None:
    """What is stored is what a run without a rival stores: of the run that was lost there is no trace."""
    calm = Owner.begin(engine.open(engine.empty(), clock=ManualClock(), new_id=lambda: "a1"), ManualClock())
    assert play(calm, call, lambda _, __: None) == [1]

    location = engine.empty()
    raced = Owner.begin(
        engine.open(f"{location}&lock_timeout=50ms", clock=ManualClock(), new_id=lambda: "a1"), ManualClock()
    )
    schema = location.partition("search_path=")[2].partition("&")[0]
    with psycopg.connect(SERVER, options=f"-c search_path={schema}") as rival:

        def lose(_: Transaction, run: int) -> None:
            if run == 1:
                rival.execute(TOUCH.encode())
            else:
                rival.rollback()

        assert play(raced, call, lose) == [1, 2]
    assert raced.everything() == calm.everything()
    report_faults(Figures(injected=1))
