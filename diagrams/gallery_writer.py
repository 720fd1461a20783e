"""The gallery: every lifecycle of the gateway as rendered files, which are committed and checked for freshness."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from diagrams.describe import describe
from diagrams.model import Diagram
from diagrams.render.escape import markdown_text
from diagrams.render.mermaid import mermaid
from diagrams.render.table import reference
from fsm.lifecycle import Lifecycle

__all__ = ["GALLERY", "README", "check_gallery", "embed", "render_gallery", "write_gallery"]

GALLERY: Final = Path(__file__).parent / "gallery"
"""Where the committed files are."""

README: Final = GALLERY.parent.parent / "README.md"
"""The project's front page, which embeds an overview."""

_EMBEDDED: Final = re.compile(r"(<!-- overview of (\w+) -->\n).*?(<!-- end of overview -->)", re.DOTALL)
_REMEDY: Final = "run make diagrams"
_WRITTEN_BY: Final = "written by python -m diagrams; edit the declaration instead"
_SUFFIXES: Final = frozenset({".md", ".mmd"})


def render_gallery(lifecycles: Iterable[Lifecycle]) -> dict[str, str]:
    """Return the content of each file of the gallery by its name."""
    models = tuple(map(describe, lifecycles))
    files = {"README.md": _index(models)}
    for model in models:
        files[f"{model.name}.mmd"] = f"%% {_WRITTEN_BY}\n{mermaid(model)}"
        files[f"{model.name}.md"] = _page(model)
    return files


def embed(page: str, lifecycles: Iterable[Lifecycle]) -> str:
    """Return the page with every `<!-- overview of NAME -->` block drawn anew; raises KeyError for an unknown name."""
    models = {each.name: describe(each) for each in lifecycles}

    def drawn(block: re.Match[str]) -> str:
        return f"{block[1]}```mermaid\n{mermaid(models[block[2]], overview=True)}```\n{block[3]}"

    return _EMBEDDED.sub(drawn, page)


def write_gallery(files: Mapping[str, str], directory: Path) -> None:
    """Write the files, and delete those that an earlier run wrote and that are no longer part of the gallery.

    Files that something else wrote stay. Raises OSError where the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content.encode())
    for path in _superfluous(files, directory):
        if _is_ours(path):
            path.unlink()


def check_gallery(files: Mapping[str, str], directory: Path) -> tuple[str, ...]:
    """Return one line for each file that is missing, stale or superfluous, with the remedy; none when all are fresh."""
    return (*_problems(files, directory), *map(_left_over, _superfluous(files, directory)))


def _problems(files: Mapping[str, str], directory: Path) -> Iterator[str]:
    for name, content in files.items():
        path = directory / name
        if not path.is_file():
            yield f"{path} is missing; {_REMEDY}"
        elif path.read_bytes() != content.encode():
            yield f"{path} is stale; {_REMEDY}"


def _superfluous(files: Mapping[str, str], directory: Path) -> tuple[Path, ...]:
    found = sorted(directory.iterdir()) if directory.is_dir() else ()
    return tuple(path for path in found if path.suffix in _SUFFIXES and path.name not in files)


def _left_over(path: Path) -> str:
    return f"{path} is superfluous; {_REMEDY if _is_ours(path) else 'delete it, for make diagrams did not write it'}"


def _is_ours(path: Path) -> bool:
    return path.is_file() and _WRITTEN_BY.encode() in path.read_bytes().partition(b"\n")[0]


def _page(model: Diagram) -> str:
    figure = f"```mermaid\n{mermaid(model)}```"
    return f"{_heading()}\n{reference(model, figure=figure)}"


def _index(models: Iterable[Diagram]) -> str:
    entries = "\n".join(f"- [{model.name}]({model.name}.md): {markdown_text(model.meaning)}" for model in models)
    said = (
        "Each page shows one lifecycle as a diagram and in tables; the `.mmd` file beside it holds the diagram alone."
    )
    return f"{_heading()}\n# Lifecycles\n\n{said}\n\n{entries}\n"


def _heading() -> str:
    return f"<!-- {_WRITTEN_BY} -->\n"
