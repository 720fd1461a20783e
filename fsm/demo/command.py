"""The command `fsm demo`."""

import signal
import time
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from fsm.cli.opening import opened
from fsm.cli.output import console, say
from fsm.cli.submitting import ensure_room, prompts_in
from fsm.cli.terms import Tempo
from fsm.demo.showing import diagram_of, table_of
from fsm.demo.story import DEMO, Story
from fsm.observers import observe, unobserve
from fsm.rooms import disband_room
from storage import Database

__all__ = ["demo"]

GATEWAY: Final = "gateway:demo"


def _location(value: str | None) -> str | None:
    if value is None:
        return None
    if not value.strip() or value == ":memory:":
        raise typer.BadParameter("give the path of a database file, or the URL of a database")
    return value if "://" in value else str(Path(value).absolute())


Db = Annotated[
    str | None,
    typer.Option("--db", metavar="LOCATION", callback=_location, help="Play in this database, in a room of its own."),
]


def demo(db: Db = None) -> None:
    """Play a failure and its repair with real processes, in about 15 seconds; exit 1 where a claim does not hold."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Whoever ends the demo ends its drivers with it.
    if db is not None:
        _play_at(db)
        return
    with TemporaryDirectory(prefix="fsm-demo-") as directory:
        _play_at(str(Path(directory) / "state.db"))


def _play_at(location: str) -> None:
    with opened(location) as db:
        _play(db, location, Tempo(time.time, time.monotonic, time.sleep))


def _play(db: Database, location: str, tempo: Tempo) -> None:
    began = tempo.clock()
    prompts = prompts_in(files("fsm.cli").joinpath("prompts.txt").read_text(encoding="utf-8"))
    room = ensure_room(db, f"demo-{db.new_id()}", GATEWAY)
    story = Story(db, location, room["room_id"], tempo, lambda line: _tell(tempo.clock() - began, line))
    observer = story.chronicle.observer(DEMO)
    observe(db, observer)
    try:
        story.run(prompts)
    finally:
        unobserve(db, observer)
        disband_room(db, room_id=room["room_id"], expected_gateway_id=GATEWAY, expected_epoch=room["authority_epoch"])
    _show(story, began)


def _show(story: Story, began: float) -> None:
    names = {identity.task_id: f"task {number}" for number, identity in enumerate(story.identities, start=1)}
    console().print(table_of(story.chronicle.told(), began, names))
    say("The lifecycle of a task as a Mermaid diagram, with the way of the lost one numbered on it:")
    say(diagram_of(story.chronicle.told(), story.lost))


def _tell(elapsed: float, line: str) -> None:
    console().print(f"{elapsed:5.1f} s  {line}", markup=False)
