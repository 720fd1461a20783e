"""Usage: what is added, what is set, what is filled in, and what no counter takes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import sessions
from fsm.lifecycles.runtime_tables import COUNTERS
from tests.engines import Engine
from tests.sessions.support import Owner
from tests.workers.support import Works
from tests.world import ManualClock

WHOLE = tuple(name for name in COUNTERS if not name.endswith("_usd"))
COSTS = ("estimated_cost_usd", "actual_cost_usd")
NOTHING: dict[str, Any] = {**dict.fromkeys(WHOLE, 0), **dict.fromkeys(COSTS)}
TEXTS = (
    *("model", "billing_provider", "billing_base_url", "billing_mode"),
    *("cost_status", "cost_source", "pricing_version", "task", "source"),
)


@pytest.fixture
def working(works: Works) -> Works:
    """A registered worker."""
    works.register()
    return works


def main(works: Works, **payload: Any) -> None:
    """Report a turn's usage."""
    assert works.do("usage.main", payload) == {"value": None}


def auxiliary(works: Works, **payload: Any) -> None:
    """Report the usage of a task."""
    assert works.do("usage.auxiliary", {"task": "title", **payload}) == {"value": None}


def counted(works: Works, session: str = "s") -> dict[str, Any]:
    """Return the counters of a session."""
    row = works.owner.session(session)
    return {name: row[name] for name in COUNTERS}


def by_model(works: Works) -> list[Any]:
    """Return what is kept by session, task and model."""
    return works.owner.execute("SELECT * FROM session_model_usage ORDER BY session_id, task, model")


def test_main_usage_adds_to_the_session(working: Works) -> None:
    """What a turn used is added to each counter that it names; a cost is unknown until the first is reported."""
    main(working, input_tokens=5, output_tokens=2, api_call_count=1, actual_cost_usd=None)
    assert counted(working) == {**NOTHING, "input_tokens": 5, "output_tokens": 2, "api_call_count": 1}
    main(working, input_tokens=1, reasoning_tokens=9, estimated_cost_usd=0.25)
    main(working, cache_read_tokens=3, cache_write_tokens=4, estimated_cost_usd=1, actual_cost_usd=0)
    assert counted(working) == {
        "input_tokens": 6,
        "output_tokens": 2,
        "cache_read_tokens": 3,
        "cache_write_tokens": 4,
        "reasoning_tokens": 9,
        "api_call_count": 1,
        "estimated_cost_usd": 1.25,
        "actual_cost_usd": 0.0,
    }
    assert by_model(working) == []


def test_absolute_usage_sets_what_it_names(working: Works) -> None:
    """With `absolute` the counters that are given are set, and the others stay; without it they are added to."""
    main(working, input_tokens=5, output_tokens=5, estimated_cost_usd=1.0)
    main(working, absolute=True, input_tokens=3, actual_cost_usd=2, estimated_cost_usd=None)
    main(working, absolute=False, input_tokens=1)
    expected = {"input_tokens": 4, "output_tokens": 5, "estimated_cost_usd": 1.0, "actual_cost_usd": 2.0}
    assert counted(working) == {**NOTHING, **expected}


def test_the_model_is_filled_in_and_never_replaced(working: Works) -> None:
    """The session takes the first model that is reported; an empty or missing one says nothing."""
    for model, expected in ((None, None), ("", None), ("m1", "m1"), ("m2", "m1"), (None, "m1")):
        main(working, model=model)
        assert working.owner.session()["model"] == expected


def test_auxiliary_usage_is_kept_by_session_task_and_model(working: Works) -> None:
    """Auxiliary adds to session_model_usage(session, task, model); an unnamed model is the empty text."""
    auxiliary(working, input_tokens=5, model="m")
    auxiliary(working, input_tokens=7, model="m", api_call_count=3, estimated_cost_usd=0.5)
    auxiliary(working, model=None, api_call_count=0)
    auxiliary(working, model="", task="search")
    expected: list[dict[str, Any]] = [
        {"task": "search", "model": "", "api_call_count": 1},
        {"task": "title", "model": ""},
        {"task": "title", "model": "m", "input_tokens": 12, "api_call_count": 4, "estimated_cost_usd": 0.5},
    ]
    assert by_model(working) == [NOTHING | {"session_id": "s"} | row for row in expected]
    assert counted(working) == NOTHING


@pytest.mark.parametrize("operation", ["usage.main", "usage.auxiliary"])
def test_a_retry_counts_nothing_twice(working: Works, operation: str) -> None:
    """The exact retry of a report is answered and added nowhere."""
    payload = {"input_tokens": 5, "task": "title"}
    working.do(operation, payload, 1)
    with working.changes_nothing():
        working.do(operation, payload, 1)


# --- where a session was created


@pytest.mark.parametrize(
    ("stored", "source", "expected"),
    [
        (None, "gui", "desktop"),
        ("", "telegram", "telegram"),
        ("unknown", "cli", "cli"),
        ("cli", "gui", "cli"),
        (None, "", None),
        (None, "unknown", None),
        ("unknown", None, "unknown"),
    ],
)
def test_only_an_unset_source_is_filled_in(
    working: Works, stored: str | None, source: str | None, expected: str | None
) -> None:
    """`gui` is stored as `desktop`; empty or `unknown` counts as unset, and only unset is filled."""
    working.owner.execute("UPDATE sessions SET created_source = :stored", stored=stored)
    main(working, source=source)
    assert working.owner.session()["created_source"] == expected


@pytest.mark.parametrize(("own", "expected"), [(None, "desktop"), ("cli", "cli")])
def test_compression_ancestors_are_filled_along(works: Works, own: str | None, expected: str) -> None:
    """Compression ancestors are filled along, with what the session itself says, and where unset alone."""
    owner = works.owner
    for parent, child in (("s", "s2"), ("s2", "s3"), ("s3", "s4")):
        sessions.end_session(owner.db, parent, reason="compression")
        owner.open(child, parent_session_id=parent)
    owner.execute("UPDATE sessions SET created_source = NULL WHERE id IN ('s', 's4')")
    owner.execute("UPDATE sessions SET created_source = :own WHERE id = 's3'", own=own)
    owner.execute("UPDATE sessions SET created_source = 'telegram' WHERE id = 's2'")
    works.register(session_id="s3")
    works.do("usage.main", {"source": "gui"}, session_id="s3")
    found = {name: owner.session(name)["created_source"] for name in ("s", "s2", "s3", "s4")}
    assert found == {"s": expected, "s2": "telegram", "s3": expected, "s4": None}


# --- what no counter takes


NO_COUNTS: list[Any] = [None, "1", 1.0, True, -1, 2**53 + 1, [], {}]
NO_COSTS: list[Any] = ["1", True, -0.01, 1.0000001e12, [], {}]
NO_TEXTS: list[Any] = [1, True, [], {}, "x" * 4097]
NO_FLAGS: list[Any] = [None, 0, 1, "yes"]
NO_TASKS: list[Any] = [None, "", 1, []]
BAD: list[dict[str, Any]] = [
    *({name: value} for name in WHOLE for value in NO_COUNTS),
    *({"estimated_cost_usd": value} for value in NO_COSTS),
    *({name: value} for name in ("model", "billing_provider") for value in NO_TEXTS),
    {"colour": "red"},
]


@pytest.mark.parametrize("payload", BAD)
@pytest.mark.parametrize("operation", ["usage.main", "usage.auxiliary"])
def test_bad_payloads_are_refused(working: Works, operation: str, payload: dict[str, Any]) -> None:
    """Counters are integers of 0 to 2**53, costs null or 0 to 1e12 dollars, texts have at most 4096 characters."""
    task = {"task": "title"} if operation == "usage.auxiliary" else {}
    with working.refuses("invalid_params"):
        working.do(operation, {**task, **payload})


@pytest.mark.parametrize(
    ("operation", "payload"),
    [
        *(("usage.main", {name: value}) for name in TEXTS for value in NO_TEXTS),
        *(("usage.main", {"absolute": value}) for value in NO_FLAGS),
        *(("usage.main", {"actual_cost_usd": value}) for value in NO_COSTS),
        *(("usage.auxiliary", {"task": value}) for value in NO_TASKS),
        ("usage.auxiliary", {}),
        *(
            ("usage.auxiliary", {"task": "title", name: value})
            for name, value in (
                ("billing_mode", "x"),
                ("cost_status", "x"),
                ("cost_source", "x"),
                ("pricing_version", "x"),
                ("source", "x"),
                ("actual_cost_usd", 1),
                ("absolute", True),
            )
        ),
    ],
)
def test_each_report_has_fields_of_its_own(working: Works, operation: str, payload: dict[str, Any]) -> None:
    """What belongs to a turn's report alone is refused in a task's, which must name its task."""
    with working.refuses("invalid_params"):
        working.do(operation, payload)


def test_every_field_is_taken(working: Works) -> None:
    """The largest value of each field is taken, and null for what may be unknown."""
    largest = {**dict.fromkeys(WHOLE, 2**53), **dict.fromkeys(COSTS, 1e12), **dict.fromkeys(TEXTS, "é" * 4096)}
    main(working, **largest, absolute=True)
    main(working, **dict.fromkeys((*TEXTS, *COSTS)))
    further = {name: value for name, value in largest.items() if name in {*WHOLE, "estimated_cost_usd", *TEXTS[:3]}}
    auxiliary(working, **further, task="x" * 4096)


@pytest.mark.parametrize("operation", ["usage.main", "usage.auxiliary"])
def test_a_sum_beyond_64_bits_is_refused(working: Works, operation: str) -> None:
    """A counter never turns into an inexact number: the sum that would not fit is refused, one that fits is kept."""
    working.do(operation, {"task": "title", "input_tokens": 1})
    table = "sessions" if operation == "usage.main" else "session_model_usage"
    working.owner.execute(f"UPDATE {table} SET input_tokens = :n", n=2**63 - 1 - 2**53)
    working.do(operation, {"task": "title", "input_tokens": 2**53})
    with working.refuses("invalid_params"):
        working.do(operation, {"task": "title", "input_tokens": 1})
    assert working.owner.execute(f"SELECT input_tokens FROM {table}") == [{"input_tokens": 2**63 - 1}]


@pytest.mark.engines("sqlite")
def test_a_damaged_counter_is_no_raw_error(working: Works) -> None:
    """A counter that holds a text is storage_unavailable, and nothing of the report is stored."""
    working.owner.execute("UPDATE sessions SET output_tokens = 'many'")
    with working.refuses("storage_unavailable"):
        working.do("usage.main", {"input_tokens": 1})


# --- laws


REPORTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(WHOLE, st.integers(0, 2**53)),
            **dict.fromkeys(COSTS, st.none() | st.sampled_from([0.0, 0.5, 2.0, 1e12])),
            "absolute": st.booleans(),
        },
    ),
    max_size=6,
)


@settings(max_examples=60, derandomize=True, database=None)
@given(reports=REPORTS)
def test_the_counters_are_what_the_reports_add_up_to(engine: Engine, reports: list[dict[str, Any]]) -> None:
    """After any reports each counter is the sum since it was last set, and a cost that nobody named is unknown."""
    clock = ManualClock()
    works = Works(Owner.begin(engine.fresh(clock=clock), clock))
    works.register()
    expected = dict(NOTHING)
    for number, report in enumerate(reports, start=1):
        works.do("usage.main", report, number)
        for name in COUNTERS:
            if report.get(name) is not None:
                before = 0 if report.get("absolute") else expected[name] or 0
                expected[name] = before + report[name]
    assert counted(works) == expected
