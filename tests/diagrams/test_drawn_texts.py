"""DOT and PlantUML: whatever a declaration holds, both texts say that and nothing else."""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest
from attrs import astuple, evolve
from hypothesis import given as drawn

from diagrams import BEGINNING, END, Diagram, DiagramState, describe, dot, plantuml
from fsm.lifecycle import Lifecycle, Term
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK, LIFECYCLES
from tests.diagrams.declared import declared_ways
from tests.diagrams.reading import Way
from tests.diagrams.reading_dot import read_dot
from tests.diagrams.reading_labels import UNDECLARED, Drawn
from tests.diagrams.reading_plantuml import read_plantuml
from tests.diagrams.toys import HOSTILE, TOY, UNSHOWABLE, grown, hostile, lifecycles

Renderer = Callable[..., str]
Reader = Callable[[str], Drawn]

_SIGNS: Final = str.maketrans({"\t": "\u2409", "\n": "\u240a", "\r": "\u240d"})
PATH: Final = [
    ("vacant", "acquire", "held"),
    ("held", "renew", "held"),
    ("held", "renew", "held"),
    ("held", "expire", "expired"),
]


@pytest.fixture(params=[(dot, read_dot), (plantuml, read_plantuml)], ids=["dot", "plantuml"])
def drawing(request: pytest.FixtureRequest) -> Callable[..., Drawn]:
    """Return what draws a model in one of the formats and reads that back."""
    return _reading(*request.param)


def _reading(renderer: Renderer, reader: Reader) -> Callable[..., Drawn]:
    return lambda model, **overlay: reader(renderer(model, **overlay))


def _signed(text: str) -> str:
    """Return a text as it is shown on one line."""
    return text.translate(_SIGNS)


def _shown(ways: list[Way]) -> list[tuple[object, ...]]:
    return sorted(astuple(evolve(way, guard=_signed(way.guard))) for way in ways)


def _says_the_declaration(found: Drawn, lifecycle: Lifecycle) -> None:
    assert sorted(found.states) == sorted(state.name for state in lifecycle.states)
    assert _shown(found.ways) == _shown(declared_ways(lifecycle))
    assert sorted(found.final) == sorted(state.name for state in lifecycle.final)
    begun = {way.dest for way in found.ways if way.source == BEGINNING and way.kind != "import"}
    assert begun | set(found.initial) == {state.name for state in lifecycle.initial}


@drawn(lifecycles())
def test_any_declaration_is_read_back_from_dot(lifecycle: Lifecycle) -> None:
    """The states, edges, kinds, guards and fences that the DOT text says are those of the declaration"""
    _says_the_declaration(read_dot(dot(describe(lifecycle))), lifecycle)


@drawn(lifecycles())
def test_any_declaration_is_read_back_from_plantuml(lifecycle: Lifecycle) -> None:
    """The states, edges, kinds, guards and fences that the PlantUML text says are those of the declaration"""
    _says_the_declaration(read_plantuml(plantuml(describe(lifecycle))), lifecycle)


@drawn(lifecycles())
def test_states_that_share_a_stored_status_stand_in_one_box(lifecycle: Lifecycle) -> None:
    """States are in one box exactly when one stored text is theirs in common and another status exists"""
    stored: dict[str, list[str]] = {}
    for state in lifecycle.states:
        term = state.terms[0]
        assert isinstance(term, Term)
        stored.setdefault(str(term.right), []).append(state.name)
    shared = [names for names in stored.values() if len(names) > 1] if len(stored) > 1 else []
    for found in (read_dot(dot(describe(lifecycle))), read_plantuml(plantuml(describe(lifecycle)))):
        together: dict[str, list[str]] = {}
        for name, group in found.groups.items():
            together.setdefault(group, []).append(name)
        assert sorted(together.values()) == sorted(shared)


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_each_lifecycle_of_the_gateway_is_read_back(drawing: Callable[..., Drawn], lifecycle: Lifecycle) -> None:
    """What a reviewer sees of a real lifecycle is the whole of its states and edges"""
    _says_the_declaration(drawing(describe(lifecycle)), lifecycle)


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_an_overview_names_every_trigger_between_two_places(
    drawing: Callable[..., Drawn], lifecycle: Lifecycle
) -> None:
    """Each trigger is named once between two places, and no guard or fence is"""
    model = describe(lifecycle)
    full, found = drawing(model), drawing(model, overview=True)
    assert sorted((way.source, way.trigger, way.dest) for way in found.ways) == sorted(
        {(way.source, way.trigger, way.dest) for way in full.ways}
    )
    assert not any(way.guard or way.fence for way in found.ways)
    assert found.states == full.states


@pytest.mark.parametrize("overview", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_wherever_it_stands(drawing: Callable[..., Drawn], name: str, *, overview: bool) -> None:
    """A text that means something in the format is shown as that text: no line takes another form through it"""
    found = drawing(hostile("plain", name, "last"), present=name, overview=overview)
    visible = _signed(name) or "(no name)"
    assert found.states == ["plain", visible, "last"]
    assert found.told("now") == [visible]
    ways = {(way.source, way.dest): way for way in found.ways}
    assert list(ways) == [(BEGINNING, "plain"), ("plain", visible), (visible, "last"), ("last", END)]
    assert ways["plain", visible].trigger == visible
    expected = ("", "") if overview else (_signed(name), _signed(name))
    assert (ways["plain", visible].guard, ways["plain", visible].fence) == expected


def test_all_hostile_names_fit_into_one_diagram(drawing: Callable[..., Drawn]) -> None:
    """Names that share characters stay apart: each state has an id of its own"""
    assert drawing(hostile(*HOSTILE)).states == [_signed(name) or "(no name)" for name in HOSTILE]


@pytest.mark.parametrize("name", [*UNSHOWABLE, "no \ufffe character"])
def test_what_no_document_may_hold_is_replaced(drawing: Callable[..., Drawn], name: str) -> None:
    """Control characters and lone surrogates become the replacement character, and turns of direction are spelt out"""
    (found,) = set(drawing(hostile("first", name, "last")).states) - {"first", "last"}
    assert "\N{REPLACEMENT CHARACTER}" in found or "\\u20" in found
    found.encode()


def test_long_labels_are_folded_and_read_back_whole(drawing: Callable[..., Drawn]) -> None:
    """However long a guard, a fence or a name is, its lines together say it"""
    long = " and ".join(f"column_{index} = given.column_{index}" for index in range(30))
    (way, *_) = drawing(hostile(long, "last")).ways
    assert (way.trigger, way.dest, way.guard, way.fence) == (long, long, long, long)


def test_the_same_model_gives_the_same_text() -> None:
    """A renderer is a function of the model alone"""
    for renderer in (dot, plantuml):
        assert renderer(describe(DRIVER_TASK)) == renderer(describe(DRIVER_TASK))


def test_sweeps_and_the_clock_have_lines_of_their_own(drawing: Callable[..., Drawn]) -> None:
    """A move that no caller names is told from a fired one by its line and by its label"""
    found = drawing(describe(DRIVER_LEASE))
    looks = {(way.kind, dash) for way, dash in zip(found.ways, found.dashes, strict=True)}
    assert looks == {("fire", ""), ("sweep", "dashed"), ("time", "dotted")}
    assert "import" in {way.kind for way in drawing(describe(TOY)).ways}


def test_a_state_or_edge_more_is_shown(drawing: Callable[..., Drawn]) -> None:
    """Whatever is added to a declaration is added to its diagram"""
    before, after = drawing(describe(TOY)), drawing(describe(grown()))
    assert set(after.states) - set(before.states) == {"lent"}
    assert {way.trigger for way in after.ways} - {way.trigger for way in before.ways} == {"lend", "fetch"}


@pytest.mark.parametrize("overview", [False, True])
def test_a_path_is_numbered_and_the_present_state_says_so(drawing: Callable[..., Drawn], *, overview: bool) -> None:
    """Each step of a path numbers its edge, a repeated one with all its numbers; `now` stands where the record is"""
    found = drawing(describe(DRIVER_LEASE), taken=PATH, present="expired")
    numbered = {(way.trigger, way.source): way.numbers for way in found.ways if way.numbers}
    assert numbered == {("acquire", "vacant"): "1", ("renew", "held"): "2, 3", ("expire", "held"): "4"}
    assert drawing(describe(DRIVER_LEASE), taken=PATH, present="expired", overview=overview).told("now") == ["expired"]


@pytest.mark.parametrize("name", ["elsewhere", *HOSTILE])
def test_a_present_state_that_is_not_declared_is_shown_as_such(drawing: Callable[..., Drawn], name: str) -> None:
    """A state that the declaration lacks stands in the diagram, marked as current and as not declared"""
    found = drawing(describe(DRIVER_LEASE), present=name)
    assert found.told("now") == found.told(UNDECLARED) == [_signed(name) or "(no name)"]


def test_a_record_that_is_gone_is_shown_as_such(drawing: Callable[..., Drawn]) -> None:
    """A boundary mark is no state, but a record can be there, and it is not called undeclared"""
    found = drawing(describe(DRIVER_TASK), taken=[("settled", "prune", END)], present=END)
    assert found.told("now") == found.told("here no record exists") == [END]
    assert found.told(UNDECLARED) == []
    assert [(way.source, way.dest) for way in found.ways if way.numbers] == [("settled", END)]


def test_a_way_that_is_not_declared_is_drawn_and_says_so(drawing: Callable[..., Drawn]) -> None:
    """A step of a path that no edge allows is shown between its places, even where one of them is unknown"""
    path = [("held", "teleport", "vacant"), ("held", "acquire", "</script>"), ("x", "y", "x"), ("x", "y", END)]
    for overview in (False, True):
        found = drawing(describe(DRIVER_LEASE), taken=path, overview=overview)
        strange = {way.numbers: (way.source, way.dest, way.trigger) for way in found.ways if way.undeclared}
        assert strange == {
            "1": ("held", "vacant", "teleport"),
            "2": ("held", "</script>", "acquire"),
            "3": ("x", "x", "y"),
            "4": ("x", END, "y"),
        }


def test_a_state_without_a_row_is_dashed(drawing: Callable[..., Drawn]) -> None:
    """A state that no row stands for is told from the others by its border, and a final one is marked as final"""
    model = Diagram(
        "x", "x", "t", ("k",), (DiagramState("a", "", row=False, initial=True), DiagramState("b", "", final=True))
    )
    found = drawing(model)
    assert [found.places[alias].name for alias, looks in found.looks.items() if "dashed" in looks] == ["a"]
    assert (found.initial, found.final) == (["a"], ["b"])


def test_a_loop_of_each_length_is_drawn(drawing: Callable[..., Drawn]) -> None:
    """However far back a line leads, it is read from its source to its dest"""
    names = [f"state_{index}" for index in range(2000)]
    model = hostile(*names)
    back = [(names[-1], "back", names[0]), (names[1], "back", names[0])]
    ways = {(way.source, way.dest) for way in drawing(model, taken=back).ways}
    assert ways == {(BEGINNING, names[0]), *pairwise(names), (names[-1], END), *((step[0], step[2]) for step in back)}
