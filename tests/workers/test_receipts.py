"""Receipts: one operation a number, its answer kept, and what a retry gets."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import storage
from fsm import workers
from fsm.errors import RuntimeStoreError
from fsm.observers import Transition, observe, unobserve
from storage import Database, Transaction
from tests import bad_input as bad
from tests.workers.support import SECRET, Works


def writing(answer: Any) -> Callable[..., Any]:
    """Return a handler that writes one row and answers this."""

    def handler(_: Database, tx: Transaction, session_id: str, payload: dict[str, Any]) -> Any:
        tx.execute(
            "INSERT INTO state_meta (key, value) VALUES (:key, :value)",
            {"key": f"own.{session_id}", "value": json.dumps(payload)},
        )
        return answer

    return handler


def reading(answer: Any) -> Callable[..., Any]:
    """Return a handler that writes nothing and answers this."""
    return lambda _db, _tx, _session, _payload: answer


def test_the_first_answer_is_the_round_trip_that_its_retry_gets(works: Works) -> None:
    """The first answer of a receipt is the JSON round trip, as its replay is."""
    works.register()
    answer = {"pair": (1, 2), "b": 1.0, "a": {"z": None, "y": [True]}}
    first = works.apply(reading(answer), 1)
    assert first == {"pair": [1, 2], "b": 1.0, "a": {"z": None, "y": [True]}}
    assert isinstance(first["pair"], list)
    second = works.apply(reading({"another": "answer"}), 1)
    assert json.dumps(second) == json.dumps(first)


def test_a_receipt_answers_for_the_executions_own_generation_alone(works: Works) -> None:
    """A receipt replays for the execution's own generation alone, though the session's has moved on."""
    works.register()
    first = works.append("hello")
    works.owner.execute("UPDATE sessions SET runtime_generation = 9 WHERE id = 's'")
    with works.changes_nothing():
        assert works.append("hello", sequence=1) == first
    for generation in (1, 9, -1):
        with works.refuses("stale_generation"):
            works.append("hello", sequence=1, generation=generation)
    with works.refuses("stale_generation"):
        works.append("new")


@pytest.mark.parametrize("answer", [{"n": bad.NAN}, {"n": [bad.INFINITY]}, {1: 2}, {"x": object()}, None, [], "x", 1])
def test_an_answer_that_is_no_json_object_is_refused(works: Works, answer: Any) -> None:
    """NaN in a handler's result and keys that are no text are invalid_params."""
    works.register()
    with works.refuses("invalid_params"):
        works.apply(writing(answer))
    assert works.state() == "registered"


def test_the_order_of_keys_in_a_request_does_not_matter(works: Works) -> None:
    """A digest is that of the JSON value: another order of keys is the same request, another value is not."""
    works.register()
    works.do("turn.acquire", {"holder": "h", "ttl_seconds": 5}, 1)
    with works.changes_nothing():
        assert works.do("turn.acquire", {"ttl_seconds": 5, "holder": "h"}, 1) == {"value": True}
    for operation, payload in (("turn.renew", {"holder": "h", "ttl_seconds": 5}), ("turn.acquire", {"holder": "h"})):
        with works.refuses("admission_conflict"):
            works.do(operation, payload, 1)


def test_the_digest_is_the_fingerprint_of_operation_and_payload(works: Works) -> None:
    """The stored digest is that of {payload: {operation, payload}, target}, as a gateway computes it."""
    from fsm.runtime.keys import admission_fingerprint  # noqa: PLC0415 # the formula of the format itself

    works.register()
    payload = {"messages": [{"role": "user", "content": "é \N{SNOWMAN} \"'"}]}
    works.do("transcript.append", payload)
    expected = admission_fingerprint(
        canonical_target="s", payload={"operation": "transcript.append", "payload": payload}
    )
    assert works.receipts()[0]["payload_digest"] == expected


def test_a_read_leaves_the_revision_and_a_write_moves_it_once(works: Works) -> None:
    """A receipt moves the session's revision by one where its operation wrote, however much, and else not at all."""
    works.register()
    before = works.revision()
    works.apply(reading({}))
    for name in ("session.context", "session.tail_role"):
        works.do(name)
    works.do("session.row_role", {"row_id": 1})
    assert works.revision() == before
    works.append("one", "two", "three")
    assert works.revision() == before + 1
    works.apply(writing({}))
    assert works.revision() == before + 2
    works.finish()
    assert works.revision() == before + 3


def test_numbers_have_no_gap_whatever_is_refused(works: Works) -> None:
    """What is refused takes no number, and each that is taken stands under its own."""
    works.register()
    for text in ("one", "two", "three"):
        with pytest.raises(RuntimeStoreError):
            works.apply(reading(None))
        works.append(text)
    assert [row["sequence"] for row in works.receipts()] == [1, 2, 3]
    for sequence in (5, 2**63 - 1):
        with works.refuses("invalid_params"):
            works.append("x", sequence=sequence)


# --- handlers


@pytest.mark.parametrize("failure", [RuntimeStoreError("session_busy"), KeyError("x"), TypeError("y"), RuntimeError()])
def test_a_handler_that_raises_leaves_no_trace(works: Works, failure: Exception) -> None:
    """What a handler raises reaches the caller as it is, and neither its rows nor its number are kept."""

    def handler(*arguments: Any) -> Any:
        writing({})(*arguments)
        raise failure

    works.register()
    with works.changes_nothing(), pytest.raises(type(failure)) as raised:
        works.apply(handler)
    assert raised.value is failure
    works.apply(writing({}), 1)


def test_a_handler_gets_the_handle_the_transaction_the_session_and_a_payload_of_its_own(works: Works) -> None:
    """A handler is `(db, tx, session_id, payload)`; what it does to the payload reaches neither caller nor digest."""
    seen: list[Any] = []

    def handler(db: Database, tx: Transaction, session_id: str, payload: dict[str, Any]) -> dict[str, Any]:
        seen.append((db, isinstance(tx, Transaction), session_id, dict(payload)))
        payload.clear()
        return {"ok": True}

    works.register()
    given = {"n": [1]}
    assert works.do("own", given, 1, handlers={"own": handler}) == {"ok": True}
    with works.changes_nothing():
        assert works.do("own", given, 1, handlers={"own": handler}) == {"ok": True}
    assert seen == [(works.db, True, "s", {"n": [1]})]
    assert given == {"n": [1]}


def test_a_handler_that_runs_again_leaves_one_trace(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an engine runs the body again, the handler runs on a fresh payload, and what it did is stored once."""
    payloads: list[dict[str, Any]] = []

    def handler(db: Database, tx: Transaction, session_id: str, payload: dict[str, Any]) -> Any:
        payloads.append(dict(payload))
        payload["spoilt"] = True
        return writing({"run": len(payloads)})(db, tx, session_id, payload)

    works.register()
    run_again(works.db, monkeypatch)
    assert works.do("own", {"n": 1}, 1, handlers={"own": handler}) == {"run": 2}
    assert payloads == [{"n": 1}, {"n": 1}]
    assert len(works.receipts()) == 1
    assert works.revision() == 1


def run_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every body run twice, the first time rolled back, as after a serialization failure."""
    write = db.write

    class Failed(Exception):  # noqa: N818 # what an engine would catch
        """Rolls the first run back."""

    def twice(body: Callable[[Transaction], Any]) -> Any:
        def first(tx: Transaction) -> None:
            body(tx)
            raise Failed

        with pytest.raises(Failed):
            write(first)
        return write(body)

    monkeypatch.setattr(db, "write", twice)


def test_handlers_come_beside_the_closed_set(works: Works) -> None:
    """A caller's handler cannot take the place of an operation, and an operation unknown to both is refused."""
    works.register()
    for name in ("transcript.append", "execution.finish", "session.context"):
        with works.refuses("invalid_params"):
            works.do("own", handlers={"own": reading({}), name: reading({})})
    for name in ("own.other", "transcript.Append", "execution.finish ", "adopt"):
        with works.refuses("invalid_params"):
            works.do(name, handlers={"own": reading({})})
    with works.refuses("invalid_params"):
        works.do("own")


def test_apply_knows_only_the_handlers_it_is_handed(works: Works) -> None:
    """`apply_worker_receipt` runs its own handlers alone, also one under a name of the closed set."""
    works.register()
    request = {"epoch": 1, "execution_id": "w", "session_id": "s", "generation": 0, "payload": {}, "sequence": 1}
    with works.refuses("invalid_params"):
        workers.apply_worker_receipt(works.db, **request, operation="session.context", handlers={"own": reading({})})
    answer = workers.apply_worker_receipt(
        works.db, **request, operation="session.context", handlers={"session.context": reading({"mine": 1})}
    )
    assert answer == {"mine": 1}


@pytest.mark.engines("sqlite")
def test_apply_refuses_as_the_closed_set_does(works: Works) -> None:
    """Each refusal of an operation is one of `apply_worker_receipt` too."""
    refusals: dict[str, dict[str, Any]] = {
        "not_found": {"worker": "nobody"},
        "permission_denied": {"session_id": "other"},
        "stale_epoch": {"epoch": 9},
        "stale_generation": {"generation": 9},
        "invalid_params": {"sequence": 3},
        "admission_conflict": {"sequence": 1},
    }
    works.owner.open("other")
    works.register()
    works.append("hello")
    for reason, given in refusals.items():
        with works.refuses(reason):
            works.apply(reading({}), **given)
    works.apply(reading({}), 2)
    works.owner.execute("UPDATE worker_receipts SET result_json = '{'")
    with works.refuses("storage_unavailable"):
        works.apply(reading({}), 2)


def test_finish_is_the_one_operation_that_ends_an_execution(works: Works) -> None:
    """Whatever carries it out, `execution.finish` ends the execution, and no other name does."""
    works.register()
    works.do("execution.end", handlers={"execution.end": writing({})})
    assert works.state() == "running"
    request = {"epoch": 1, "execution_id": "w", "session_id": "s", "generation": 0, "payload": {"any": 1}}
    finish = {"operation": "execution.finish", "sequence": 2, "handlers": {"execution.finish": reading({"bye": 1})}}
    assert workers.apply_worker_receipt(works.db, **request, **finish) == {"bye": 1}
    assert works.state() == "terminal"
    assert works.revision() == 2


# --- what had only been read


def test_read_copies_shrink_when_the_execution_ends(works: Works) -> None:
    """A result with `messages` or `session` shrinks to {"retired": true}; its retry is stale_generation."""
    works.register()
    works.append("hello")
    context = works.do("session.context")
    works.apply(reading({"messages": []}))
    works.apply(reading({"session": None}))
    works.apply(reading({"inner": {"messages": [1]}, "text": '"session":'}))
    with works.changes_nothing():
        assert works.do("session.context", sequence=2) == context
    finished = works.finish()
    kept = [json.loads(str(row["result_json"])) for row in works.receipts()]
    retired = {"retired": True}
    assert kept[1:4] == [retired] * 3
    assert kept[4] == {"inner": {"messages": [1]}, "text": '"session":'}
    assert kept[5] == finished == {"status": "terminal"}
    with works.refuses("stale_generation"):
        works.do("session.context", sequence=2)
    with works.refuses("admission_conflict"):
        works.do("session.tail_role", sequence=2)
    with works.changes_nothing():
        assert works.append("hello", sequence=1) == kept[0]
        assert works.finish(sequence=6) == finished


@pytest.mark.parametrize("ending", ["settled", "resolved", "lost as a child"])
def test_read_copies_shrink_however_the_execution_ends(works: Works, ending: str) -> None:
    """An execution that never reported its end gives up what it had read all the same."""
    owner = works.owner
    turn = owner.start() if ending != "lost as a child" else None
    generation = 1 if turn else 0
    works.register(generation=generation, kind="cron" if turn else "child")
    works.do("session.context", generation=generation)
    if ending == "settled":
        owner.settle(turn)
    else:
        successor = owner.succeed()
        successor.recover()
        if turn:
            successor.resolve({**turn, "owner_epoch": 1})
    assert works.state() == "terminal"
    assert [row["result_json"] for row in works.receipts()] == ['{"retired":true}']


def test_a_living_execution_may_answer_what_looks_like_the_mark(works: Works) -> None:
    """{"retired": true} is an answer like any other, until the execution has ended."""
    works.register()
    works.apply(reading({"retired": True}), 1)
    with works.changes_nothing():
        assert works.apply(reading({}), 1) == {"retired": True}


@pytest.mark.parametrize("spelling", ['{"retired":true}', '{"retired": true}'])
def test_a_gateways_own_mark_is_recognised(works: Works, spelling: str) -> None:
    """An existing database may spell the mark with a blank."""
    works.register()
    works.do("session.tail_role")
    works.finish()
    works.owner.execute("UPDATE worker_receipts SET result_json = :r WHERE sequence = 1", r=spelling)
    with works.refuses("stale_generation"):
        works.do("session.tail_role", sequence=1)


# --- damage


@pytest.mark.parametrize("stored", ["", "{", "[1]", "1", '{"messages": NaN}', "[" * 3000, '"messages":'])
def test_a_damaged_receipt_stops_nothing_else(works: Works, stored: str) -> None:
    """A receipt that does not decode is storage_unavailable on its retry, and stays as it is when the work ends."""
    works.register()
    works.append("hello")
    works.do("session.context")
    works.owner.execute("UPDATE worker_receipts SET result_json = :r WHERE sequence = 1", r=stored)
    with works.refuses("storage_unavailable"):
        works.append("hello", sequence=1)
    works.finish()
    assert [row["result_json"] for row in works.receipts()][:2] == [stored, '{"retired":true}']


# --- what watchers see


def test_observers_see_each_transition_once_and_no_retry(works: Works) -> None:
    """The execution's and the turn's transitions are told after the commit; a retry and a refusal are not."""
    seen: list[tuple[str, str, str]] = []

    def watch(transition: Transition) -> None:
        seen.append((transition.lifecycle, transition.trigger, transition.dest))

    observe(works.db, watch)
    try:
        works.register()
        works.do("turn.acquire", {"holder": "h"})
        works.do("turn.acquire", {"holder": "h"}, sequence=1)
        works.do("turn.release", {"holder": "h"})
        works.finish()
        with pytest.raises(RuntimeStoreError):
            works.append("late")
    finally:
        unobserve(works.db, watch)
    assert seen == [
        ("worker_execution", "register", "registered"),
        ("session_turn_lease", "acquire", "held"),
        ("worker_execution", "apply", "running"),
        ("session_turn_lease", "release", "free"),
        ("worker_execution", "apply", "running"),
        ("worker_execution", "finish", "terminal"),
    ]


def test_a_payload_of_four_mebibytes_is_the_largest(works: Works) -> None:
    """The limit is 4 MiB of the payload's canonical JSON, in UTF-8 bytes."""
    works.register()
    room = 4 * 1024 * 1024 - len('{"text":""}')
    works.do("own", {"text": "é" * (room // 2)}, handlers={"own": reading({})})
    with works.refuses("invalid_params"):
        works.do("own", {"text": "é" * (room // 2 + 1)}, handlers={"own": reading({})})


def test_calls_take_a_location(tmp_path: Any) -> None:
    """A path given instead of a handle is opened once a process and reused."""
    path = tmp_path / "state.db"
    with pytest.raises(RuntimeStoreError) as refusal:
        workers.register_worker_execution(
            path, epoch=1, execution_id="w", session_id="s", generation=0, kind="cron", adoption_secret=SECRET
        )
    assert refusal.value.reason == "stale_epoch"
    storage.resolve(path, error=AssertionError).close()
