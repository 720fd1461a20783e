"""How the demo shows what happened: a table, and the lifecycle with the path of one task on it."""

from typing import Any

from rich.table import Table
from rich.text import Text

from diagrams import describe, mermaid
from fsm.demo.chronicle import Told
from fsm.driver import TaskIdentity
from fsm.lifecycles import DRIVER_LEASE, DRIVER_TASK
from fsm.lifecycles.driver_lease import RENEW

__all__ = ["diagram_of", "table_of"]


def table_of(told: tuple[Told, ...], began: float, names: dict[str, str]) -> Table:
    """Return a table of what happened, in the order of its instants; `names` are short names of the tasks."""
    table = Table("time", "process", "task", "transition or notice", title="What happened")
    for each in sorted(filter(_is_worth_a_row, told), key=lambda each: float(each.facts["at"])):
        table.add_row(*map(Text, _cells(each, began, names)))
    return table


def _is_worth_a_row(told: Told) -> bool:
    """Leave out what only repeats: a lease is renewed every second, and a start is a transition already."""
    return not told.is_step(DRIVER_LEASE.name, RENEW.name) and told.facts.get("notice") not in {"spawned", "warning"}


def _cells(told: Told, began: float, names: dict[str, str]) -> tuple[str, ...]:
    facts = told.facts
    return (
        f"{facts['at'] - began:5.1f} s",
        told.process,
        names.get(told.task_id or "", ""),
        _step(facts) if "trigger" in facts else facts["notice"],
    )


def _step(facts: dict[str, Any]) -> str:
    what = "" if facts["lifecycle"] == DRIVER_TASK.name else f"{facts['lifecycle']}: "
    return f"{what}{facts['source']} -> {facts['dest']} ({facts['trigger']})"


def diagram_of(told: tuple[Told, ...], lost: TaskIdentity) -> str:
    """Return the lifecycle of a task as a Mermaid diagram, with the way of the lost task on it."""
    steps = (
        each.facts for each in told if each.facts.get("lifecycle") == DRIVER_TASK.name and each.task_id == lost.task_id
    )
    taken = [
        (facts["source"], facts["trigger"], facts["dest"]) for facts in sorted(steps, key=lambda facts: facts["at"])
    ]
    return mermaid(describe(DRIVER_TASK), taken=taken, overview=True)
