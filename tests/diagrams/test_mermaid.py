"""The Mermaid text: whatever a declaration holds, it says that and nothing else."""

import pytest
from hypothesis import given as drawn

from diagrams import BEGINNING, END, Diagram, DiagramState, describe, mermaid
from diagrams.render.escape import mermaid_text
from fsm.lifecycle import Lifecycle, Term
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK, LIFECYCLES
from tests.diagrams.declared import declared_ways
from tests.diagrams.reading import read, shown
from tests.diagrams.toys import HOSTILE, TOY, UNSHOWABLE, grown, hostile, lifecycles


def _says_the_declaration(lifecycle: Lifecycle) -> None:
    found = read(mermaid(describe(lifecycle)))
    assert sorted(found.states.values()) == sorted(state.name for state in lifecycle.states)
    assert found.ways == declared_ways(lifecycle)
    assert found.final == [state.name for state in lifecycle.final]
    begun = {way.dest for way in found.ways if way.source == BEGINNING and way.kind != "import"}
    assert begun | set(found.initial) == {state.name for state in lifecycle.initial}


@drawn(lifecycles())
def test_any_declaration_is_read_back_as_it_was_drawn(lifecycle: Lifecycle) -> None:
    """The states, edges, kinds, guards and fences that the text says are those of the declaration, in their order"""
    _says_the_declaration(lifecycle)


@drawn(lifecycles())
def test_states_that_share_a_stored_status_stand_together(lifecycle: Lifecycle) -> None:
    """States are in one composite exactly when one stored text is theirs in common and another status exists"""
    found = read(mermaid(describe(lifecycle)))
    stored: dict[str, list[str]] = {}
    for state in lifecycle.states:
        term = state.terms[0]
        assert isinstance(term, Term)
        stored.setdefault(str(term.right), []).append(state.name)
    shared = [names for names in stored.values() if len(names) > 1] if len(stored) > 1 else []
    together: dict[str, list[str]] = {}
    for alias, group in found.groups.items():
        together.setdefault(group, []).append(found.states[alias])
    assert sorted(together.values()) == sorted(shared)


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_each_lifecycle_of_the_gateway_is_read_back(lifecycle: Lifecycle) -> None:
    """What a reviewer sees of a real lifecycle is the whole of its states and edges"""
    _says_the_declaration(lifecycle)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_wherever_it_stands(name: str) -> None:
    """A text that means something in the format is shown as that text: no line takes another form through it"""
    model = hostile("plain", name, "last") if name not in {"plain", "last"} else hostile(name)
    found = read(mermaid(model, present=name))
    visible = name or "(no name)"
    assert list(found.states.values()) == ["plain", visible, "last"]
    assert [(way.source, way.dest) for way in found.ways] == [
        (BEGINNING, "plain"),
        ("plain", visible),
        (visible, "last"),
        ("last", END),
    ]
    assert found.ways[1].trigger == visible
    assert (found.ways[1].guard, found.ways[1].fence) == (name, name)
    assert found.classes["present"] == [visible]


def test_all_hostile_names_fit_into_one_diagram() -> None:
    """Names that share characters stay apart: each state has an alias of its own"""
    found = read(mermaid(hostile(*HOSTILE)))
    assert list(found.states.values()) == [name or "(no name)" for name in HOSTILE]


@pytest.mark.parametrize("name", UNSHOWABLE)
def test_what_no_document_may_hold_is_replaced(name: str) -> None:
    """Control characters and lone surrogates become the replacement character, and turns of direction are spelt out"""
    text = mermaid(hostile("first", name, "last"))
    (found,) = (each for each in read(text).states.values() if each not in {"first", "last"})
    assert text.encode().isascii() or "«" in text
    assert "\N{REPLACEMENT CHARACTER}" in found or "\\u20" in found


def test_labels_are_plain_where_nothing_needs_an_escape() -> None:
    """Names, columns and equalities stay legible in the source"""
    said = "lease_generation = given.lease_generation and (a, 'b')"
    assert mermaid_text(said) == said
    assert shown(mermaid_text("a <= b")) == "a <= b"


def test_the_same_model_gives_the_same_text() -> None:
    """A renderer is a function of the model alone"""
    assert mermaid(describe(DRIVER_TASK)) == mermaid(describe(DRIVER_TASK))


def test_sweeps_the_clock_and_imports_are_marked_in_text() -> None:
    """A move that no caller names is told from a fired one without any colour"""
    assert "«time» expire" in mermaid(describe(DRIVER_LEASE))
    text = mermaid(describe(TOY))
    assert "«sweep» sweep_up" in text
    assert "«import» adopt" in text
    assert "«fire»" not in text


def test_a_state_or_edge_more_is_shown() -> None:
    """Whatever is added to a declaration is added to its diagram"""
    before, after = read(mermaid(describe(TOY))), read(mermaid(describe(grown())))
    assert set(after.states.values()) - set(before.states.values()) == {"lent"}
    assert {way.trigger for way in after.ways} - {way.trigger for way in before.ways} == {"lend", "fetch"}


def test_a_path_is_numbered_and_its_states_are_marked() -> None:
    """Each step of a path numbers its edge, a repeated one with all its numbers, and the places it saw have a class"""
    path = [
        ("vacant", "acquire", "held"),
        ("held", "renew", "held"),
        ("held", "renew", "held"),
        ("held", "expire", "expired"),
    ]
    found = read(mermaid(describe(DRIVER_LEASE), taken=path, present="expired"))
    numbered = {(way.trigger, way.source): way.numbers for way in found.ways if way.numbers}
    assert numbered == {("acquire", "vacant"): "1", ("renew", "held"): "2, 3", ("expire", "held"): "4"}
    assert found.classes["taken"] == ["vacant", "held", "expired"]
    assert found.classes["present"] == ["expired"]


@pytest.mark.parametrize("name", ["elsewhere", *HOSTILE])
def test_a_present_state_that_is_not_declared_is_shown_as_such(name: str) -> None:
    """A state that the declaration lacks stands in the diagram, marked as current and as not declared"""
    found = read(mermaid(describe(DRIVER_LEASE), present=name))
    (stranger,) = found.classes["present"]
    assert stranger == f"{name}<br/>not in the declaration"
    assert found.classes["undeclared"] == [stranger]


def test_a_record_that_is_gone_is_marked_as_such() -> None:
    """A boundary mark is no state, but a record can be there, and it is not called undeclared"""
    found = read(mermaid(describe(DRIVER_TASK), taken=[("settled", "prune", END)], present=END))
    assert found.classes["present"] == ["gone<br/>here no record exists"]
    assert "undeclared" not in found.classes
    assert [(way.source, way.dest) for way in found.ways if way.numbers] == [("settled", END)]


def test_a_way_that_is_not_declared_is_drawn_and_says_so() -> None:
    """A step of a path that no edge allows is shown between its places, even where one of them is unknown"""
    path = [("held", "teleport", "vacant"), ("held", "acquire", "</script>")]
    found = read(mermaid(describe(DRIVER_LEASE), taken=path))
    strange = [(way.source, way.dest, way.trigger, way.numbers) for way in found.ways if way.undeclared]
    assert strange == [
        ("held", "vacant", "teleport", "1"),
        ("held", "</script><br/>not in the declaration", "acquire", "2"),
    ]


def test_a_state_without_a_row_and_a_final_state_have_a_class() -> None:
    """What a state always is can be seen beside what an overlay adds"""
    model = Diagram(
        "x", "x", "t", ("k",), (DiagramState("a", "", row=False, initial=True), DiagramState("b", "", final=True))
    )
    found = read(mermaid(model, present="b"))
    assert found.classes == {"rowless": ["a"], "final": ["b"], "present": ["b"]}
    assert (found.initial, found.final) == (["a"], ["b"])
