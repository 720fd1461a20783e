"""`fsm run`: a scenario, played and compared with what it expects."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fsm.cli.options import AsJson
from fsm.cli.output import console, say_json
from fsm.cli.refusal import CommandRefusedError, one_line, unless_url
from fsm.cli.scenarios.comparing import shown
from fsm.cli.scenarios.script import Note, Raises, Returns, Script, Step, read_script
from fsm.cli.scenarios.staging import Outcome, staged

__all__ = ["run_scenario"]


def _location(value: str) -> str:
    if not value.strip():
        raise typer.BadParameter("give the path of a database file, or :memory:")
    return value


File = Annotated[str, typer.Argument(metavar="FILE", help="The scenario, one JSON object a line.")]
Location = Annotated[
    str, typer.Argument(metavar="LOCATION", callback=_location, help="The database file, made if absent, or :memory:.")
]


def run_scenario(file: File, location: Location, *, as_json: AsJson = False) -> None:
    """Play a scenario: calls of the library, one JSON object a line.

    Exit 1 at the first step that differs from what it expects; 2 where a line
    is neither note nor step, before anything is called. Only a part that a
    result turns out to lack shows later, when its line is reached.

    A line is {"note": TEXT} or a step, of which only "call" is needed:

    {"at": SECONDS, "call": "driver.start_task", "with": {ARGUMENTS},
    "as": NAME, "expect": VALUE}, or "raises": "StaleLeaseError" at the end.

    "at" is what the clock shows, where it is left out as in the step before;
    it starts at 0 and may step back. "call" is any public function of a module
    of operations; its arguments go by name, the database by itself.

    {"$": "lease"} is the result that was saved "as": "lease";
    {"$": "found.queued.0.task_id"} a part of one;
    {"$": "lease", "change": {"lease_generation": 7}} one with other fields;
    {"$TaskIdentity": {FIELDS}} a new value, as are $DriverLease, $TaskAttempt.

    "expect" compares the fields that it gives, at any depth, and lists by
    length and elements. "raises" means exactly that class, and with a reason
    as in "RuntimeStoreError: stale_epoch" exactly that reason. Without either
    the call must only return.

    The database may hold anything already: a scenario that needs an empty one
    expects what only an empty one answers.
    """
    script = read_script(_read(file))
    with staged(location) as stage:
        for entry in script:
            if isinstance(entry, Note):
                say_json({"line": entry.line, "note": entry.text}) if as_json else _print(f"# {entry.text}", "dim")
                continue
            outcome = stage.play(entry)
            say_json(outcome.facts()) if as_json else _print(_told(outcome), "red" if outcome.differences else "green")
            if outcome.differences:
                raise CommandRefusedError(_difference(outcome))
    if not as_json:
        _print(_summary(script), "bold")


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no path"
        raise typer.BadParameter(f"{unless_url(file)}: {reason}", param_hint="FILE") from error


def _print(line: str, style: str) -> None:
    console().print(Text(one_line(line), style), soft_wrap=True)


def _told(outcome: Outcome) -> str:
    step = outcome.step
    return f"line {step.line}, at {step.at:.15g}: {step.call.name} {_became(outcome)}"


def _became(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"raised {type(outcome.error).__name__}"
    if outcome.differences:
        return f"returned {shown(outcome.result)}"
    return f"returned {shown(outcome.expected)}" if isinstance(outcome.step.expected, Returns) else "returned"


def _difference(outcome: Outcome) -> str:
    step = outcome.step
    return f"line {step.line}: {step.call.name}: {_contrast(outcome)}"


def _contrast(outcome: Outcome) -> str:
    if isinstance(outcome.step.expected, Raises):
        found = f"the result {shown(outcome.result)}" if outcome.error is None else _error(outcome.error)
        return f"expected {_named(outcome.step.expected)}, found {found}"
    if outcome.error is not None:
        return f"expected a result, found {_error(outcome.error)}"
    first, *others = outcome.differences
    return f"{first}{f' (and {len(others)} more)' if others else ''}"


def _named(expected: Raises) -> str:
    return expected.error.__name__ + (f": {expected.reason}" if expected.reason else "")


def _error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _summary(script: Script) -> str:
    return f"steps as expected: {sum(isinstance(entry, Step) for entry in script)}"
