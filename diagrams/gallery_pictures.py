"""The gallery's pictures: an overview of every lifecycle, drawn once and kept until its DOT text is another.

What Graphviz draws depends on its version and on the fonts of the machine, so that a picture cannot be compared with
one drawn anew. It says instead which text it was drawn from, and that nobody has changed it since.
"""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from diagrams.describe import describe
from diagrams.gallery_writer import REMEDY, WRITTEN_BY, left_over, superfluous, sweep_away
from diagrams.model import Diagram
from diagrams.render.dot import dot
from diagrams.render.picture import picture
from fsm.lifecycle import Lifecycle

__all__ = ["check_pictures", "write_pictures"]

_SUFFIXES: Final = frozenset({".svg"})


def write_pictures(lifecycles: Iterable[Lifecycle], directory: Path) -> None:
    """Draw the pictures that are missing or stale, and delete those of lifecycles that are no more.

    Raises PictureUnavailableError where one must be drawn without the extra `diagrams`.
    """
    models = _by_name(lifecycles)
    directory.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        if not _is_fresh(model, directory / name):
            (directory / name).write_bytes(_marked(model, picture(model, "svg", overview=True)))
    sweep_away(superfluous(models, directory, _SUFFIXES))


def check_pictures(lifecycles: Iterable[Lifecycle], directory: Path) -> tuple[str, ...]:
    """Return one line for each picture that is missing, stale or superfluous; it needs no Graphviz."""
    models = _by_name(lifecycles)
    stale = (
        f"{path} is {'stale' if path.is_file() else 'missing'}; {REMEDY}"
        for name, model in models.items()
        if not _is_fresh(model, path := directory / name)
    )
    return (*stale, *map(left_over, superfluous(models, directory, _SUFFIXES)))


def _by_name(lifecycles: Iterable[Lifecycle]) -> dict[str, Diagram]:
    return {f"{each.name}.svg": describe(each) for each in lifecycles}


def _is_fresh(model: Diagram, path: Path) -> bool:
    if not path.is_file():
        return False
    content = path.read_bytes()
    first, _, rest = content.partition(b"\n")
    return content == _marked(model, first + b"\n" + rest.partition(b"\n")[2])


def _marked(model: Diagram, drawing: bytes) -> bytes:
    """Put a remark into the second line, which names the text that was drawn and the drawing itself."""
    first, _, rest = drawing.partition(b"\n")
    source, own = sha256(dot(model, overview=True).encode()).hexdigest(), sha256(rest).hexdigest()
    remark = f"<!-- {WRITTEN_BY}; drawn from the DOT text sha256:{source} as sha256:{own} -->"
    return b"\n".join((first, remark.encode(), rest))
