"""`python -m diagrams` writes the gallery; with `--check` it only says which files are not what they should be."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from diagrams.gallery_pictures import check_pictures, write_pictures
from diagrams.gallery_writer import GALLERY, README, check_gallery, embed, render_gallery, write_gallery
from diagrams.render.picture import PictureUnavailableError
from fsm.lifecycles import LIFECYCLES

__all__ = ["main"]

_CHECKOUT: Final = GALLERY.parent.parent / "pyproject.toml"
"""Stands beside the package in a checkout and never in an installation, whose files belong to the installer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the gallery and return the exit status: 0 when done or fresh, 1 when not fresh, 2 when refused."""
    options = _parser().parse_args(arguments)
    files, directory = render_gallery(LIFECYCLES), options.output or GALLERY
    own = options.output is None
    if options.check:
        pictures = check_pictures(LIFECYCLES, directory)
        return _report((*check_gallery(files, directory), *pictures, *(_stale_readme() if own else ())))
    if own and not _CHECKOUT.is_file():
        sys.stderr.write(f"{directory} is part of an installation and stays as it is; pass --output DIR\n")
        return 2
    write_gallery(files, directory)
    if own:
        README.write_text(embed(README.read_text(encoding="utf-8"), LIFECYCLES), encoding="utf-8")
    try:
        write_pictures(LIFECYCLES, directory)
    except PictureUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _stale_readme() -> tuple[str, ...]:
    page = README.read_text(encoding="utf-8") if README.is_file() else ""
    return () if embed(page, LIFECYCLES) == page else (f"{README} is stale; run make diagrams",)


def _report(problems: Sequence[str]) -> int:
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m diagrams", description="Render every lifecycle of the gateway.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 and name each file that is not fresh"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="the directory of the files (default: the package's gallery)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
