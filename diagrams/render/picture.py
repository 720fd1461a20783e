"""Pictures: what Graphviz draws of the DOT text, which is in one of the project's extras."""

import re
from collections.abc import Iterable
from importlib import import_module
from threading import Lock
from typing import Any, Final, Literal

from diagrams.model import Diagram
from diagrams.render.dot import dot
from diagrams.render.escape import xml_text
from diagrams.render.overlay import Step

__all__ = ["PictureUnavailableError", "picture", "svg_document"]

_MISSING: Final = "a picture needs Graphviz: pip install 'gateway-fsm[diagrams]'"
_DENSER: Final = "-Gdpi=144"
"""A PNG is looked at enlarged; an SVG has no pixels."""

_ONE_AT_A_TIME: Final = Lock()
"""Graphviz keeps what it works on in variables of the process."""

_REMARKS: Final = re.compile(r"<!--.*?-->\n?|<title>[^<]*</title>\n?", re.DOTALL)
_ROOT: Final = re.compile(r"<svg\b[^>]*(?=>)")


class PictureUnavailableError(RuntimeError):
    """Nothing here can draw a picture; the message says what to install."""


def picture(
    model: Diagram,
    form: Literal["svg", "png"],
    *,
    taken: Iterable[Step] = (),
    present: str | None = None,
    overview: bool = False,
) -> bytes:
    """Return the lifecycle as an SVG or PNG picture; the keywords mean what they mean for `dot`.

    Raises PictureUnavailableError without the extra `diagrams`, and ValueError for another form.
    """
    if form not in {"svg", "png"}:
        raise ValueError(f"a picture is 'svg' or 'png', not {form!r}")
    drawn = _drawn(dot(model, taken=taken, present=present, overview=overview), form)
    if form == "png":
        return drawn
    return svg_document(drawn.decode(), title=model.name, description=model.meaning).encode()


def svg_document(drawn: str, *, title: str, description: str) -> str:
    """Return what Graphviz drew as a document of its own, which is titled for those who cannot see it.

    Graphviz names its version in a remark, a DTD to fetch, and each node by its id; none of that is for a reader.
    """
    found = _ROOT.search(drawn)
    if found is None:
        raise ValueError("this is no SVG document")
    named = f"<title>{xml_text(title)}</title>\n<desc>{xml_text(description)}</desc>\n"
    body = _REMARKS.sub("", drawn[found.end() + 1 :].removeprefix("\n"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{found[0]} role="img">\n{named}{body}'


def _drawn(text: str, form: str) -> bytes:
    try:
        pygraphviz: Any = import_module("pygraphviz")
    except ImportError as missing:
        raise PictureUnavailableError(_MISSING) from missing
    with _ONE_AT_A_TIME:
        graph = pygraphviz.AGraph(string=text)
        return bytes(graph.draw(format=form, prog="dot", args=_DENSER if form == "png" else ""))
