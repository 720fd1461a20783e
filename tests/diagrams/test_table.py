"""The reference page: it says everything, as text."""

import html
import re

import pytest
from attrs import astuple, evolve
from hypothesis import given as drawn

from diagrams import describe, reference
from diagrams.render.escape import markdown_code, markdown_text
from fsm.lifecycle import Lifecycle
from fsm.lifecycle.steps import Refusal
from fsm.lifecycles import LIFECYCLES
from tests.diagrams.declared import declared_ways
from tests.diagrams.reading import Way
from tests.diagrams.toys import HOSTILE, TOY, UNSHOWABLE, grown, hostile, lifecycles

_OWN_TAGS = {"<br>", "<code>", "</code>"}
_INITIAL = " (initial) "
_KIND_WORDS = {
    "it is fired for one record.": "fire",
    "a sweep; it moves every record that it selects.": "sweep",
    "the clock alone moves the record; nothing is written.": "time",
    "it is fired for one record, and may bring in one that began elsewhere.": "import",
}


def _refusals(lifecycle: Lifecycle) -> set[str]:
    return {
        refusal.name
        for trigger in lifecycle.triggers
        for step in trigger.steps
        for refusal in (
            *(getattr(step, name, None) for name in ("missing", "refuse", "stale")),
            *(check.refuse for check in getattr(step, "checks", ())),
            *getattr(step, "per", {}).values(),
        )
        if isinstance(refusal, Refusal)
    }


@pytest.mark.parametrize("lifecycle", [*LIFECYCLES, TOY], ids=lambda each: each.name)
def test_a_page_names_every_state_trigger_and_refusal(lifecycle: Lifecycle) -> None:
    """Whoever reads the page alone knows each state, each trigger and each error that a caller can meet"""
    page = reference(describe(lifecycle))
    for state in lifecycle.states:
        assert f"| `{state.name}`" in page
        assert markdown_text(state.meaning) in page
    for trigger in lifecycle.triggers:
        section = page.partition(f"### {trigger.name}\n")[2].partition("\n### ")[0]
        assert markdown_text(trigger.when) in section
        numbered = re.findall(r"^\| (\d+) \| (\w+) \|", section, re.MULTILINE)
        assert numbered == [(str(n), type(step).__name__) for n, step in enumerate(trigger.steps, 1)]
        for edge in trigger.edges:
            assert re.search(rf"^\| [`*]{edge.source.name}[`*] \| [`*]{edge.dest.name}[`*] \|", section, re.MULTILINE)
    for refusal in _refusals(lifecycle):
        assert f"raises `{refusal}`" in page


def _told(cell: str) -> str:
    """Return the text that a viewer shows for a cell which holds one text."""
    return html.unescape(cell.strip().removeprefix("<code>").removesuffix("</code>").strip("`*"))


def _rows(section: str, head: str) -> list[list[str]]:
    """Return the rows below the head of a table, cell by cell."""
    lines = section[section.index(f"| {head} |") :].partition("\n\n")[0].split("\n")
    return [_cells(line) for line in lines[2:] if line]


def _read_ways(page: str) -> list[Way]:
    ways = []
    for section in page.partition("## Triggers\n\n")[2].split("### ")[1:]:
        (kind,) = re.findall(r"^- Kind: (.*)$", section, re.MULTILINE)
        trigger = html.unescape(section.partition("\n")[0])
        ways += [
            Way(_told(source), _told(dest), trigger, _KIND_WORDS[kind], _told(guard), "", "", undeclared=False)
            for source, dest, guard, _ in _rows(section, "from | to | guard | writes")
        ]
    return ways


@drawn(lifecycles())
def test_any_declaration_is_read_back_from_its_page(lifecycle: Lifecycle) -> None:
    """The states, edges, kinds and guards that the tables say are those of the declaration, in their order"""
    page = reference(describe(lifecycle))
    states = [
        (_told(name.removesuffix(_INITIAL)), name.endswith(_INITIAL), final == " yes ")
        for name, *_, final in _rows(page, "state | meaning | a record is in it when | it then holds | final")
    ]
    assert states == [(each.name, each in lifecycle.initial, each in lifecycle.final) for each in lifecycle.states]
    told, declared = _read_ways(page), [evolve(way, fence="") for way in declared_ways(lifecycle)]
    assert list(map(astuple, told)) == list(map(astuple, declared))


def test_a_page_shows_steps_with_what_they_end_the_call_with() -> None:
    """Refusals, declines and replays stand beside the step that decides on them"""
    page = reference(describe(TOY))
    assert "raises `TokenError`: ask for it" in page
    assert "where `payload = given.payload`: answered with what is stored" in page
    assert "Exact retry: answered with what is stored, where `payload = given.payload`" in page
    assert "Fence, repeated by the write: `generation = given.generation`" in page
    assert "Selects: `expires_at <= now`" in page
    declining = next(each for each in LIFECYCLES if each.name == "hosted_room")
    assert "there is none: declines" in reference(describe(declining))


def test_a_state_or_edge_more_is_on_the_page() -> None:
    """Whatever is added to a declaration is added to its page"""
    before, after = reference(describe(TOY)), reference(describe(grown()))
    for line in ("| `lent` | another child has it |", "### lend", "| `lent` | `ready` |"):
        assert line in after
        assert line not in before


def test_a_figure_stands_between_head_and_tables() -> None:
    """A diagram that a page is given comes before its tables"""
    page = reference(describe(TOY), figure="(figure)\n")
    assert page.index("# toy") < page.index("(figure)") < page.index("## States")


def _cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line)[1:-1]


@pytest.mark.parametrize("name", [*HOSTILE, *UNSHOWABLE])
def test_a_hostile_text_breaks_no_table_and_becomes_no_markup(name: str) -> None:
    """Every row has the cells of its head, and every tag on the page is the renderer's own"""
    page = reference(hostile("first", name, "last"))
    page.encode()
    width = 0
    for line in page.split("\n"):
        assert not line.startswith("|") or line.endswith("|")
        width = len(_cells(line)) if line.startswith("|") and not width else width if line.startswith("|") else 0
        assert not width or len(_cells(line)) == width
    outside = re.sub(r"`[^`\n]*`", "", page)
    assert set(re.findall(r"<[^ =][^>]*>?", outside)) <= _OWN_TAGS
    inside = "".join(re.findall(r"`([^`\n]*)`", page))
    assert not re.search(r"<[^ =]|[|&\\]", inside)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_escaped_text_is_that_text_again(name: str) -> None:
    """A viewer shows the characters that the declaration holds, and the source keeps them on one line"""
    for escaped in (markdown_text(name), markdown_code(name)):
        assert "\n" not in escaped
        assert html.unescape(escaped.removeprefix("<code>").removesuffix("</code>").strip("`")) == name


def test_plain_text_stays_plain() -> None:
    """Names and terms are legible in the source of the page"""
    assert markdown_text("room_id = given.room_id and more") == "room_id = given.room_id and more"
    assert markdown_code("expires_at <= now") == "`expires_at <= now`"
    assert markdown_code("a | b") == "<code>a &#124; b</code>"
