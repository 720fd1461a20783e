"""The model: everything that a declaration says, and nothing that it does not."""

from attrs import asdict, evolve

from diagrams import DiagramOutcome, DiagramStep, DiagramTrigger, describe
from fsm.lifecycle import NEW, Fence, Load, Trigger, Write, edges, given
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK, HOSTED_ROOM
from tests.diagrams.toys import PLAY, READY, TOY, grown


def _trigger(name: str) -> DiagramTrigger:
    return next(trigger for trigger in describe(TOY).triggers if trigger.name == name)


def _step(kind: str) -> DiagramStep:
    return next(step for step in _trigger("play").steps if step.kind == kind)


def test_states_carry_what_the_declaration_says_of_them() -> None:
    """A state's terms, what it requires, its kind and what it shares with others are labels in the model"""
    ready, won, lost = describe(TOY).states
    assert (ready.initial, ready.final, ready.row, ready.holds) == (True, False, True, "status = 'ready'")
    assert (ready.requires, ready.group) == ("outcome is null", None)
    assert won.group == lost.group == "status = 'over'"
    assert (won.final, won.initial) == (True, False)


def test_row_less_states_are_known() -> None:
    """A state that no row stands for says so, and is initial where the creating trigger leaves it"""
    states = {state.name: state for state in describe(HOSTED_ROOM).states}
    assert [name for name, state in states.items() if not state.row] == ["absent", "retired"]
    assert [name for name, state in states.items() if state.initial] == ["absent"]
    assert all(state.group is None for state in states.values())


def test_steps_keep_their_order_and_kind() -> None:
    """The order of refusals is part of the contract, so the model has the steps one for one"""
    assert [step.kind for step in _trigger("play").steps] == [type(step).__name__ for step in PLAY.steps]


def test_an_authority_shows_its_table_and_each_refusal() -> None:
    """A reviewer sees which row stands above the record, and each way in which it refuses"""
    step = _step("Authority")
    assert "box: the row of boxes with box_id = given.box_id" in step.text
    assert [(each.terms, each.refusal) for each in step.outcomes] == [("", "BoxError"), ("size > 3", "ExhibitError")]


def test_a_replay_shows_the_exact_retry_and_its_conflict() -> None:
    """An exact retry is answered with what is stored, a near miss is refused"""
    same, conflict = _step("Replay").outcomes
    assert same == DiagramOutcome("where", "replays", "payload = given.payload")
    assert (conflict.terms, conflict.refusal) == ("payload is not null", "OtherPayloadError")
    assert _trigger("play").replays
    assert not _trigger("make").replays


def test_a_source_shows_the_refusals_of_single_states_first() -> None:
    """Where a state has a refusal of its own, it stands before that of all others"""
    assert [(each.when, each.refusal) for each in _step("Source").outcomes] == [
        ("in lost", "BoxError"),
        ("in any other state", "ExhibitError"),
    ]


def test_a_look_shows_what_it_selects_and_in_which_order() -> None:
    """A Look's table, terms and order decide which row is judged"""
    assert (
        _step("Look").text == "first: the first row of boxes where box_id = given.box_id, in the order of size, box_id"
    )
    assert [each.terms for each in _step("Look").outcomes] == ["size < 9"]


def test_a_do_shows_its_name_meaning_and_what_it_fires() -> None:
    """Code that the vocabulary cannot say is at least visible by its name"""
    assert _step("Do").text == "wind_up: the spring is wound; fires toy.sweep_up"


def test_a_do_that_only_reads_says_so() -> None:
    """Whether code of an operation may write is part of what a reader must know of it"""
    start = next(trigger for trigger in describe(DRIVER_TASK).triggers if trigger.name == "start")
    shown = next(step.text for step in start.steps if step.kind == "Do")
    assert shown.startswith("read_payload: ")
    assert shown.endswith("; only reads")


def test_a_secret_names_its_column_and_argument_only() -> None:
    """No value of a secret is in the model"""
    assert _step("Secret").text == "token is given.token; compared in constant time, and never shown"


def test_a_write_shows_an_unmatched_guard_only_where_one_can_fail() -> None:
    """Every source of `play` guards all its edges; `release` has an edge that is always taken"""
    assert [each.when for each in _step("Write").outcomes] == [
        "no edge from this state has a guard that holds",
        "it changes anything but one row",
    ]
    release = next(trigger for trigger in describe(DRIVER_LEASE).triggers if trigger.name == "release")
    assert [each.when for each in release.steps[-1].outcomes] == ["it changes anything but one row"]


def test_an_edge_carries_what_the_statement_writes_and_repeats() -> None:
    """Its writes include what entering the state writes; its fence is what the WHERE repeats"""
    settle = next(edge for edge in describe(DRIVER_TASK).edges if edge.trigger == "settle" and edge.dest == "settled")
    assert settle.writes[0] == ("status", "'settled'")
    assert ("terminal_at", "now") in settle.writes
    assert settle.fence_columns[:2] == ("execution_generation", "cancel_generation")
    assert settle.guard == "given.status = 'settled'"
    start = next(edge for edge in describe(DRIVER_TASK).edges if edge.trigger == "start")
    assert ("execution_generation", "execution_generation + 1") in start.writes


def test_what_inserts_deletes_or_waits_for_the_clock_has_no_more_than_it_does() -> None:
    """An INSERT repeats no fence, a DELETE writes no column, the clock does neither"""
    by_name = {(edge.trigger, edge.source): edge for edge in describe(DRIVER_LEASE).edges}
    assert by_name["acquire", "vacant"].fence == ()
    assert by_name["purge", "held"].writes == ()
    assert by_name["purge", "held"].fence == ("room_id = given.room_id",)
    assert (by_name["expire", "held"].writes, by_name["expire", "held"].fence) == ((), ())
    make = Trigger("make", "a toy is made", Load(), Fence(given("generation")), Write(), edges=edges(NEW, READY))
    fenced = describe(evolve(TOY, triggers=(make, *TOY.triggers[1:]))).triggers[0]
    assert (fenced.fence, fenced.steps[1].outcomes[0].refusal) == ((), "LostFenceError")


def test_kinds_are_those_of_the_declaration() -> None:
    """Fired, swept, timed and importing triggers are told apart"""
    assert {trigger.name: trigger.kind for trigger in describe(TOY).triggers} == {
        "make": "fire",
        "adopt": "import",
        "play": "fire",
        "sweep_up": "sweep",
    }


def test_a_declaration_that_grows_changes_its_model() -> None:
    """A state, a trigger and an edge more are in the model, and what was there stays"""
    before, after = describe(TOY), describe(grown())
    assert after.states[:-1] == before.states
    assert after.triggers[:-2] == before.triggers


def test_the_model_holds_plain_values_only() -> None:
    """Nothing of the vocabulary reaches a renderer, and a model compares and prints by its values"""
    pending: list[object] = list(asdict(describe(TOY)).values())
    while pending:
        value = pending.pop()
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        assert value is None or isinstance(value, str | bool | dict | list | tuple)
    assert describe(TOY) == describe(TOY)


def test_decline_has_no_error() -> None:
    """A step that declines names no error class"""
    adopt = next(trigger for trigger in describe(HOSTED_ROOM).triggers if trigger.name == "adopt")
    assert [each.result for each in adopt.steps[0].outcomes] == ["declines"]
    assert adopt.steps[0].outcomes[0].refusal == ""
