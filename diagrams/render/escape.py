"""Any text as text: what a renderer puts between its own marks goes through here and can never become one."""

import re
import unicodedata
from typing import Final

__all__ = ["dot_text", "folded", "markdown_code", "markdown_text", "mermaid_text", "plantuml_text", "xml_text"]

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_WHITE: Final = frozenset("\t\n\r")
_SIGNS: Final = str.maketrans("\t\n\r", "␉␊␍")
_NO_XML: Final = frozenset("\ufffe\uffff")
_TURNS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})

# Mermaid gives a label to a Markdown parser: a number or dash at its start is a list there, `_x_` is emphasis, two
# spaces or four mean something, and `www.` is a link. What is left plain can be none of these.
_MERMAID: Final = re.compile(
    r"[^A-Za-z0-9 =,()'_.]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
    r"|(?<![a-vx-z_])\.|\.(?![a-z])"
    r"|(?<=[0-9])\)"
    r"|^ | $|(?<= ) "
)
# In Markdown: whatever can open a span, a cell, a tag, a link, a formula, a mention or a short-named picture; at the
# start also whatever opens a block.
_MARKDOWN: Final = re.compile(
    r"[\\`*\[\]<>#|&~$@!{}^]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
    r"|:(?=\S)|(?<=[Ww])\."
    r"|^[^\w('\"]|(?<=[0-9])[.)](?= |$)"
    r"|[^\S ]|^ | $|(?<= ) "
)
_PLAIN_CODE: Final = re.compile(r"[A-Za-z0-9_.('](?:[A-Za-z0-9 _.,=()'+>-]|<(?=[ =]))*(?<! )")

# Graphviz decodes entities in a label before it reads the backslashes, so that both need their escape.
_DOT_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "&": "&amp;"}
_DOT: Final = re.compile(r'[\\"&]')
# PlantUML reads markup nearly everywhere: what is left plain are words, spaces between them, and what no markup uses.
_PLANTUML: Final = re.compile(
    r"[^A-Za-z0-9 =,()_.]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|=(?==)|(?<==)=|^[ =]| $|(?<= ) |\.(?=\.)|(?<=\.)\."
)
_GOOD_BREAK: Final = re.compile(r"(?<=,) | (?=(?:and|or) )")


def mermaid_text(text: str) -> str:
    """Return the text as a Mermaid label shows it literally: what could mean something becomes a `#NN;` entity."""
    return _MERMAID.sub(lambda found: f"#{ord(found[0])};", _printable(text))


def markdown_text(text: str) -> str:
    """Return the text as Markdown shows it literally, on one line, in a paragraph, a heading or a table cell."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", _printable(text))


def markdown_code(text: str) -> str:
    """Return the text as code in Markdown: between backticks where it is plain, else as an escaped element."""
    if not text:
        return ""
    return f"`{text}`" if _PLAIN_CODE.fullmatch(text) else f"<code>{markdown_text(text)}</code>"


def dot_text(text: str) -> str:
    """Return the text as it stands between the quotes of a DOT label; what breaks a line becomes the sign for it."""
    return _DOT.sub(lambda found: _DOT_ESCAPES[found[0]], _spelt(text))


def plantuml_text(text: str) -> str:
    """Return the text as a PlantUML label shows it literally: what could mean something becomes a `<U+NNNN>`."""
    told = _PLANTUML.sub(lambda found: f"<U+{ord(found[0]):04X}>", _spelt(text))
    # It looks for tabs after it has read the escapes; a space of no width keeps the two characters apart.
    return told.replace("<U+005C>t", "<U+005C><U+200B>t")


def xml_text(text: str) -> str:
    """Return the text as an XML document shows it literally in an element, on one line."""
    return _spelt(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def folded(text: str, width: int) -> tuple[str, ...]:
    """Return the text in lines of about the width, each but the last short of the one space that it was broken at.

    They end after a comma or before an `and` or `or`, for which a line may get twice as long; else at any space.
    """
    done: list[str] = []
    while (at := _break_at(text, width)) is not None:
        done.append(text[:at])
        text = text[at + 1 :]
    return (*done, text)


def _break_at(text: str, width: int) -> int | None:
    """Find the space to break at: the last good one within the width, else the nearest that will do."""
    if len(text) <= width:
        return None
    last = len(text) - 1
    good = [found.start() for found in _GOOD_BREAK.finditer(text, 1, last)]
    within = [at for at in good if at <= width]
    if within or (good and good[0] <= 2 * width):
        return within[-1] if within else good[0]
    if len(text) <= 2 * width:
        return None
    spaces = [at for at in range(1, last) if text[at] == " "]
    return next((at for at in reversed(spaces) if at <= width), spaces[0] if spaces else None)


def _spelt(text: str) -> str:
    """Return the text on one line, with the sign of each character that would break or stretch it."""
    return _printable(text).translate(_SIGNS)


def _printable(text: str) -> str:
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    """Replace what no document may hold, and write out what would turn the direction of the text around it."""
    if character in _NO_XML or (unicodedata.category(character) in {"Cc", "Cs"} and character not in _WHITE):
        return _REPLACEMENT
    return f"\\u{ord(character):04x}" if unicodedata.bidirectional(character) in _TURNS else character
