"""`python -m tests.diagrams.hostile DIR` writes Mermaid texts that are hard to read, for the real Mermaid to parse."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from diagrams import BEGINNING, END, describe, mermaid
from fsm.lifecycle import Lifecycle
from fsm.lifecycles import LIFECYCLES
from tests.diagrams.toys import HOSTILE, UNSHOWABLE, hostile, lifecycles

__all__ = ["main", "texts"]

_DRAWN: Final = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the texts, one file each, and return 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.diagrams.hostile", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to write the files; it is made if it is not")
    directory: Path = parser.parse_args(arguments).directory
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts():
        (directory / f"{name}.mmd").write_text(text, encoding="utf-8")
    return 0


def texts() -> Iterator[tuple[str, str]]:
    """Yield names and Mermaid texts: hostile names alone and together, drawn lifecycles, overlays of each kind."""
    for index, name in enumerate((*HOSTILE, *UNSHOWABLE)):
        model = hostile("plain", name, "last")
        path = [("plain", name, name), (name, "undeclared", "nowhere"), (name, name, END)]
        yield f"hostile_{index}", mermaid(model, present=name)
        yield f"hostile_{index}_overview", mermaid(model, overview=True, taken=path, present=f"not {name}")
    yield "hostile_all", mermaid(hostile(*HOSTILE))
    for lifecycle in LIFECYCLES:
        for overview in (False, True):
            yield f"{lifecycle.name}_{overview}", mermaid(describe(lifecycle), overview=overview, present=BEGINNING)
    for index, lifecycle in enumerate(_drawn()):
        yield f"drawn_{index}", mermaid(describe(lifecycle), overview=index % 2 == 1)


def _drawn() -> list[Lifecycle]:
    """Draw lifecycles, the same ones in every run."""
    found: list[Lifecycle] = []

    @seed(0)
    @settings(
        max_examples=_DRAWN,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(lifecycles())
    def keep(lifecycle: Lifecycle) -> None:
        found.append(lifecycle)

    keep()
    return found


if __name__ == "__main__":
    sys.exit(main())
