"""The overview: every pair of places once, every trigger named, no guard or fence."""

import re

import pytest

from diagrams import describe, mermaid
from diagrams.gallery_writer import README, embed
from fsm.lifecycle import Lifecycle
from fsm.lifecycles import DRIVER_TASK, LIFECYCLES


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_an_overview_joins_what_runs_between_two_places(lifecycle: Lifecycle) -> None:
    """Two places are joined by one line, which names each trigger that leads that way."""
    model = describe(lifecycle)
    lines = re.findall(r"^ +(\S+) --> (\S+)(?:: (.*))?$", mermaid(model, overview=True), re.MULTILINE)
    pairs = [(source, dest) for source, dest, _ in lines]
    assert len(pairs) == len(set(pairs))
    named = sum(len(label.split("<br/>")) for _, _, label in lines if label)
    assert named == len({(edge.source, edge.trigger, edge.dest) for edge in model.edges})


def test_an_overview_shows_a_path() -> None:
    """The path that was taken is numbered in an overview too, and a step that is not declared says so."""
    path = (("new", "admit", "queued"), ("queued", "start", "running"), ("running", "vanish", "queued"))
    drawn = mermaid(describe(DRIVER_TASK), overview=True, taken=path)
    assert "(1) admit" in drawn
    assert "(2) start" in drawn
    assert "(3) vanish<br/>not in the declaration" in drawn


def test_an_embedded_overview_is_drawn_anew() -> None:
    """What stands between the marks of a page is replaced, and nothing else is."""
    page = "before\n<!-- overview of driver_task -->\nold\n<!-- end of overview -->\nafter\n"
    drawn = embed(page, LIFECYCLES)
    assert drawn.startswith("before\n<!-- overview of driver_task -->\n```mermaid\nstateDiagram-v2")
    assert drawn.endswith("```\n<!-- end of overview -->\nafter\n")
    assert embed(drawn, LIFECYCLES) == drawn


def test_the_front_page_is_fresh() -> None:
    """The README shows driver_task as its declaration says."""
    page = README.read_text(encoding="utf-8")
    assert "<!-- overview of driver_task -->" in page
    assert embed(page, LIFECYCLES) == page
