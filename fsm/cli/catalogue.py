"""The declared lifecycles, by the names under which the command line knows them."""

from typing import Annotated, Final

import typer

from fsm.lifecycle import Lifecycle
from fsm.lifecycles import LIFECYCLES

__all__ = ["LifecycleName", "lifecycle_named"]

_BY_NAME: Final = {lifecycle.name: lifecycle for lifecycle in LIFECYCLES}


def lifecycle_named(name: str) -> Lifecycle:
    """Return a lifecycle that the command line has accepted by its name."""
    return _BY_NAME[name]


def _known(value: str) -> str:
    if value not in _BY_NAME:
        raise typer.BadParameter(f"the lifecycles are {', '.join(_BY_NAME)}")
    return value


def _completed(incomplete: str) -> list[str]:
    return [name for name in _BY_NAME if name.startswith(incomplete)]


LifecycleName = Annotated[
    str,
    typer.Argument(metavar="LIFECYCLE", callback=_known, autocompletion=_completed, help=f"{', '.join(_BY_NAME)}."),
]
