"""The gallery: every lifecycle of the gateway as rendered files, which are committed and checked for freshness."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from diagrams.describe import describe
from diagrams.model import Diagram
from diagrams.render.dot import dot
from diagrams.render.escape import markdown_text
from diagrams.render.mermaid import mermaid
from diagrams.render.plantuml import plantuml
from diagrams.render.table import reference
from fsm.lifecycle import Lifecycle

__all__ = [
    "GALLERY",
    "README",
    "REMEDY",
    "WRITTEN_BY",
    "check_gallery",
    "embed",
    "left_over",
    "render_gallery",
    "superfluous",
    "sweep_away",
    "write_gallery",
]

GALLERY: Final = Path(__file__).parent / "gallery"
"""Where the committed files are."""

README: Final = GALLERY.parent.parent / "README.md"
"""The project's front page, which embeds an overview."""

_EMBEDDED: Final = re.compile(r"(<!-- overview of (\w+) -->\n).*?(<!-- end of overview -->)", re.DOTALL)
REMEDY: Final = "run make diagrams"
"""What to do about a file that is not fresh."""

WRITTEN_BY: Final = "written by python -m diagrams; edit the declaration instead"
"""What the head of every file says, in whatever its format takes for a remark."""

_SUFFIXES: Final = frozenset({".md", ".mmd", ".dot", ".puml"})
_HEAD_LINES: Final = 2


def render_gallery(lifecycles: Iterable[Lifecycle]) -> dict[str, str]:
    """Return the content of each text file of the gallery by its name."""
    models = tuple(map(describe, lifecycles))
    files = {"README.md": _index(models)}
    for model in models:
        files[f"{model.name}.mmd"] = f"%% {WRITTEN_BY}\n{mermaid(model)}"
        files[f"{model.name}.dot"] = f"// {WRITTEN_BY}\n{dot(model)}"
        files[f"{model.name}.puml"] = f"' {WRITTEN_BY}\n{plantuml(model)}"
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
    sweep_away(superfluous(files, directory, _SUFFIXES))


def check_gallery(files: Mapping[str, str], directory: Path) -> tuple[str, ...]:
    """Return one line for each file that is missing, stale or superfluous, with the remedy; none when all are fresh."""
    return (*_problems(files, directory), *map(left_over, superfluous(files, directory, _SUFFIXES)))


def _problems(files: Mapping[str, str], directory: Path) -> Iterator[str]:
    for name, content in files.items():
        path = directory / name
        if not path.is_file():
            yield f"{path} is missing; {REMEDY}"
        elif path.read_bytes() != content.encode():
            yield f"{path} is stale; {REMEDY}"


def superfluous(names: Container[str], directory: Path, suffixes: Container[str]) -> tuple[Path, ...]:
    """Return the files of these suffixes that are none of the names."""
    found = sorted(directory.iterdir()) if directory.is_dir() else ()
    return tuple(path for path in found if path.suffix in suffixes and path.name not in names)


def sweep_away(paths: Iterable[Path]) -> None:
    """Delete those of the files that this package wrote."""
    for path in paths:
        if _is_ours(path):
            path.unlink()


def left_over(path: Path) -> str:
    """Return the line that names a superfluous file and its remedy."""
    return f"{path} is superfluous; {REMEDY if _is_ours(path) else 'delete it, for make diagrams did not write it'}"


def _is_ours(path: Path) -> bool:
    return path.is_file() and any(
        WRITTEN_BY.encode() in line for line in path.read_bytes().split(b"\n", 2)[:_HEAD_LINES]
    )


def _page(model: Diagram) -> str:
    figure = f"```mermaid\n{mermaid(model)}```"
    return f"{_heading()}\n{reference(model, figure=figure)}"


def _index(models: Iterable[Diagram]) -> str:
    entries = "\n".join(f"- [{model.name}]({model.name}.md): {markdown_text(model.meaning)}" for model in models)
    said = (
        "Each page shows one lifecycle as a diagram and in tables. The files beside it hold the diagram alone: for "
        "Mermaid (`.mmd`), for Graphviz (`.dot`), for PlantUML (`.puml`), and as a picture (`.svg`) that shows neither "
        "guards nor fences."
    )
    return f"{_heading()}\n# Lifecycles\n\n{said}\n\n{entries}\n"


def _heading() -> str:
    return f"<!-- {WRITTEN_BY} -->\n"
