"""`fsm why`: which step of a trigger would refuse a task as it stands, and what would have to hold."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from fsm.cli.facts import printable, say_stored
from fsm.cli.judging import HOLDER, Judgement, judge
from fsm.cli.opening import opened
from fsm.cli.options import AsJson, Location, require_existing
from fsm.cli.output import say
from fsm.cli.records import RoomTask, key_of
from fsm.cli.refusal import CommandRefusedError
from fsm.lifecycle import Trigger
from fsm.lifecycles import DRIVER_TASK
from fsm.machine import Finding

__all__ = ["why"]

TRIGGERS: Final = {trigger.name: trigger for trigger in DRIVER_TASK.triggers}
WIDTH: Final = len("not judged")


def _known(value: str) -> str:
    if value not in TRIGGERS:
        raise typer.BadParameter(f"the triggers of {DRIVER_TASK.name} are {', '.join(TRIGGERS)}")
    return value


def _completed(incomplete: str) -> list[str]:
    return [name for name in TRIGGERS if name.startswith(incomplete)]


TriggerName = Annotated[
    str,
    typer.Argument(metavar="TRIGGER", callback=_known, autocompletion=_completed, help="A trigger of driver_task."),
]


def why(location: Location, record: RoomTask, trigger: TriggerName, *, as_json: AsJson = False) -> None:
    """Say step by step what a trigger would come to for a task. Nothing is fired and nothing is written.

    It is asked with the task's stored identity and generations, by the process that holds the room's lease. Exit 1
    where it would be refused; the step that refuses is the last one.
    """
    require_existing(location)
    key, asked = key_of(DRIVER_TASK, record), TRIGGERS[trigger]
    with opened(location, read_only=True) as db:
        judgement = judge(db, asked, key)
    if as_json:
        say_stored(_answer(key, asked, judgement))
    else:
        for line in _lines(record, asked, judgement):
            say(line)
    if not judgement.accepted:
        last = judgement.findings[-1]
        error = f" with {last.error}" if last.error else ""
        raise CommandRefusedError(f"{record}: {trigger} would be refused at {last.step}{error}")


def _answer(key: dict[str, str], trigger: Trigger, judgement: Judgement) -> dict[str, object]:
    lease = judgement.lease
    return {
        **key,
        "state": judgement.row["status"],
        "trigger": trigger.name,
        "kind": trigger.kind,
        "asked_by": None if lease is None else {column: lease[column] for column in HOLDER},
        "accepted": judgement.accepted,
        "steps": judgement.findings,
    }


def _lines(record: str, trigger: Trigger, judgement: Judgement) -> Iterator[str]:
    yield f"{record} is {printable(judgement.row['status'])}; {trigger.name}: {trigger.when}"
    lease = judgement.lease
    if lease is None:
        yield "asked by the room's gateway without a lease: the room has none"
    else:
        gateway, epoch, process, generation = (printable(lease[column]) for column in HOLDER)
        yield f"asked by process {process} of gateway {gateway} at epoch {epoch}, lease generation {generation}"
    yield from map(_line, judgement.findings)


def _line(finding: Finding) -> str:
    said = f"{finding.error}: {finding.said}" if finding.error else finding.said
    return f"  {finding.verdict:<{WIDTH}}  {finding.step}{f': {printable(said)}' if said else ''}"
