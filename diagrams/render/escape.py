"""Any text as text: what a renderer puts between its own marks goes through here and can never become one."""

import re
import unicodedata
from typing import Final

__all__ = ["markdown_code", "markdown_text", "mermaid_text"]

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_WHITE: Final = frozenset("\t\n\r")
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


def _printable(text: str) -> str:
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    """Replace what no document may hold, and write out what would turn the direction of the text around it."""
    if unicodedata.category(character) in {"Cc", "Cs"} and character not in _WHITE:
        return _REPLACEMENT
    return f"\\u{ord(character):04x}" if unicodedata.bidirectional(character) in _TURNS else character
