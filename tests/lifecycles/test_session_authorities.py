"""The errors of sessions and workers: a reason that is compared, and an explanation that may be logged."""

import copy
import pickle

import pytest

from fsm.errors import REASONS, LifecycleError, RuntimeStoreError
from fsm.lifecycles.session_authorities import STALE_EPOCH, because


@pytest.mark.parametrize("reason", REASONS)
def test_a_hook_may_raise_the_reason_alone(reason: str) -> None:
    """An error of a bare reason says just that, and is one of the library's errors."""
    error = RuntimeStoreError(reason)  # type: ignore[arg-type] # every one of them
    assert (error.reason, error.field, error.detail, str(error)) == (reason, None, None, reason)
    assert isinstance(error, LifecycleError)
    assert isinstance(error, ValueError)


def test_field_and_detail_are_one_printable_line() -> None:
    """Whatever text they are made of, they forge no log line and stay within 80 and 160 characters."""
    error = RuntimeStoreError("not_found", field="a\n\tb\x1b[31m" + "x" * 99, detail="one\r\n two\0 \u202e" + "é" * 200)
    assert error.field == ("a b[31m" + "x" * 99)[:80]
    assert error.detail == ("one two " + "é" * 200)[:160]
    assert RuntimeStoreError("not_found", field="\n \0", detail="").field is None


def test_the_text_names_reason_and_explanation() -> None:
    """str() says the reason first and then the whole explanation, however long."""
    assert str(RuntimeStoreError("queue_full", detail="x" * 500)) == "queue_full: " + "x" * 500


@pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301 # its own
def test_an_error_survives_being_copied(twin: object) -> None:
    """A process that is sent the error reads the same reason, field, detail and text."""
    error = RuntimeStoreError("session_busy", field="status", detail="wait " * 50)
    error.trigger = "delete"
    same = twin(error)  # type: ignore[operator] # one of the two functions above
    assert type(same) is RuntimeStoreError
    assert (same.reason, same.field, same.detail, same.trigger) == ("session_busy", "status", error.detail, "delete")
    assert str(same) == str(error)


def test_a_refusal_names_its_reason() -> None:
    """Diagrams and tables show the reason with the class, and the error carries it with the field that was compared."""
    refusal = because("queue_full", "wait", field="status")
    assert refusal.name == "RuntimeStoreError(queue_full)"
    error = refusal.error("expected less, found more; wait")
    assert isinstance(error, RuntimeStoreError)
    assert (error.reason, error.field, error.detail) == ("queue_full", "status", "expected less, found more; wait")
    assert STALE_EPOCH.name == "RuntimeStoreError(stale_epoch)"
