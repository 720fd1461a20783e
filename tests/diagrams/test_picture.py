"""Pictures: Graphviz takes every text that the renderer writes, and what it draws says what the declaration says."""

import re
import sys
from collections import Counter
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given as drawn
from hypothesis import settings

from diagrams import Diagram, PictureUnavailableError, describe, picture
from diagrams.render.picture import svg_document
from fsm.lifecycle import Lifecycle
from fsm.lifecycles import DRIVER_TASK, LIFECYCLES
from tests.diagrams.toys import HOSTILE, TOY, UNSHOWABLE, hostile, lifecycles

_SVG: Final = "{http://www.w3.org/2000/svg}"
_ALLOWED: Final = {
    f"{_SVG}{tag}" for tag in ("svg", "title", "desc", "g", "polygon", "polyline", "path", "ellipse", "text")
}
_SIGNS: Final = str.maketrans({"\t": "\u2409", "\n": "\u240a", "\r": "\u240d"})
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def _parsed(model: Diagram, *, present: str | None = None, overview: bool = False) -> ET.Element:
    content = picture(model, "svg", present=present, overview=overview)
    root = ET.fromstring(content.decode())  # noqa: S314 # the text is the renderer's own
    assert {element.tag for element in root.iter()} <= _ALLOWED
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on") or "href" in name]
    return root


def _texts(root: ET.Element) -> list[str]:
    return [(element.text or "").replace("\N{NO-BREAK SPACE}", " ") for element in root.iter(f"{_SVG}text")]


@settings(max_examples=40, deadline=None)
@drawn(lifecycles())
def test_any_declaration_is_drawn(lifecycle: Lifecycle) -> None:
    """The picture of any declaration is well-formed XML of drawing elements alone, and shows each state and trigger"""
    texts = Counter(_texts(_parsed(describe(lifecycle))))
    for state in lifecycle.states:
        assert texts[state.name] >= 1
    for trigger in lifecycle.triggers:
        assert sum(count for text, count in texts.items() if trigger.name in text) >= len(trigger.edges)


@pytest.mark.parametrize("overview", [False, True])
@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda each: each.name)
def test_each_lifecycle_is_drawn_and_titled(lifecycle: Lifecycle, *, overview: bool) -> None:
    """Whoever cannot see the picture is told what it shows, and it is a PNG where one is asked for"""
    root = _parsed(describe(lifecycle), overview=overview)
    assert [element.text for element in root.iter(f"{_SVG}title")] == [lifecycle.name]
    assert [element.text for element in root.iter(f"{_SVG}desc")] == [lifecycle.meaning]
    assert root.get("role") == "img"
    assert picture(describe(lifecycle), "png", overview=overview).startswith(_PNG)


@pytest.mark.parametrize("name", [*HOSTILE, "\\N \\G \\l", "ends in \\", "&lt;b&gt; &amp;amp;", "<<b>x</b>>"])
def test_a_hostile_name_is_drawn_as_it_is(name: str) -> None:
    """A text that means something to Graphviz or in SVG is drawn as that text, in the states and on the lines"""
    root = _parsed(hostile("plain", name, "last"), present=name)
    shown = name.translate(_SIGNS)
    (titled,) = (element.text for element in _parsed(hostile(name, "last")).iter(f"{_SVG}title"))
    assert (titled or "") == shown
    # At the ends of a line Graphviz draws no spaces.
    texts = [text.strip() for text in _texts(root)]
    assert texts.count(shown.strip() or ("(no name)" if not name else "")) >= 2
    assert not name or f"[{shown}]" in texts


@pytest.mark.parametrize("name", [*UNSHOWABLE, "no \ufffe character"])
def test_what_no_document_may_hold_is_drawn_replaced(name: str) -> None:
    """A name that XML cannot hold still gives a picture that is well-formed"""
    assert any(
        "\N{REPLACEMENT CHARACTER}" in text or "\\u20" in text for text in _texts(_parsed(hostile("a", name, "b")))
    )


def test_no_text_touches_another() -> None:
    """In the drawing of the largest lifecycle no two lines of text overlap, at the width that most fonts have"""
    for overview in (False, True):
        boxes = [_box(element) for element in _parsed(describe(DRIVER_TASK), overview=overview).iter(f"{_SVG}text")]
        for index, box in enumerate(boxes):
            assert not [other for other in boxes[:index] if _overlap(box, other)]


def _box(element: ET.Element) -> tuple[float, float, float, float]:
    x, y, size = (float(element.attrib[name]) for name in ("x", "y", "font-size"))
    width = 0.5 * size * len(element.text or "")
    left = x if element.attrib["text-anchor"] == "start" else x - width / 2
    return left, y - size, left + width, y


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts need nothing, and a picture says in one line what it needs"""
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(PictureUnavailableError, match=re.escape("pip install 'gateway-fsm[diagrams]'")) as caught:
        picture(describe(TOY), "svg")
    assert "\n" not in str(caught.value)


def test_another_form_is_refused() -> None:
    """A form that cannot be drawn is refused before anything is drawn"""
    with pytest.raises(ValueError, match="'svg' or 'png', not 'gif'"):
        picture(describe(TOY), "gif")  # type: ignore[arg-type]  # what a caller without types may pass


def test_what_is_no_svg_is_refused() -> None:
    """A title is put into nothing but an SVG document"""
    with pytest.raises(ValueError, match="no SVG"):
        svg_document("<html>", title="x", description="y")
