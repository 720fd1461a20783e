"""A scenario's text, read whole and judged before anything of it runs."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import typer
from attrs import define, field, frozen

from fsm.cli.scenarios.catalogue import CALLS, ERRORS, Call, hint
from fsm.cli.scenarios.notation import NotationError, parse_term
from fsm.errors import REASONS, RuntimeStoreError
from storage.validate import number

__all__ = ["Note", "Raises", "Returns", "Script", "Step", "mistake", "read_script"]


@frozen
class Note:
    """A remark."""

    line: int
    text: str


@frozen
class Returns:
    """What the result of a call must hold."""

    term: object


@frozen
class Raises:
    """The class, and no other, of the error that a call must raise, and its reason where the scenario gives one."""

    error: type[Exception]
    reason: str | None = None


@frozen
class Step:
    """A call, and what is expected of it: without expectation only that it returns."""

    line: int
    at: float
    call: Call
    arguments: Mapping[str, object]
    saved_as: str | None
    expected: Returns | Raises | None


Script = tuple[Note | Step, ...]


def mistake(line: int, what: object) -> typer.BadParameter:
    """Return the error for a line that is no line of a scenario."""
    return typer.BadParameter(f"line {line}: {what}", param_hint="FILE")


def read_script(raw: bytes) -> Script:
    """Return the notes and steps of a scenario; raises typer.BadParameter, which names the line, for anything else."""
    reader = _Reader()
    lines = ((count, line) for count, line in enumerate(raw.split(b"\n"), start=1) if line.strip())
    script = tuple(reader.read(count, line) for count, line in lines)
    if not any(isinstance(each, Step) for each in script):
        raise typer.BadParameter("the scenario has no call", param_hint="FILE")
    return script


@define
class _Reader:
    """What the lines so far have settled: the instant, and the lines of the saved names."""

    at: float = 0.0
    names: dict[str, int] = field(factory=dict)

    def read(self, line: int, raw: bytes) -> Note | Step:
        try:
            return self._read(line, _decoded(raw))
        except NotationError as error:
            raise mistake(line, error) from error

    def _read(self, line: int, entry: object) -> Note | Step:
        if not isinstance(entry, dict):
            raise NotationError("wrong type: a line is one JSON object")
        _check_keys(entry)
        if "note" in entry:
            return Note(line, entry["note"])
        if "at" in entry:
            self.at = number(entry["at"], label="at", error=NotationError)
        call = _found(entry["call"], CALLS, "call")
        arguments, expected = self._arguments(call, entry.get("with", {})), self._expected(entry)
        step = Step(line, self.at, call, arguments, entry.get("as"), expected)
        self._save(step)
        return step

    def _arguments(self, call: Call, given: dict[str, Any]) -> dict[str, object]:
        for name in given:
            if name not in call.arguments and not call.open:
                raise NotationError(f"{call.name} takes no {name}{hint(name, call.arguments)}")
        if missing := [name for name in call.required if name not in given]:
            raise NotationError(f"{call.name} needs {', '.join(missing)}")
        return {name: parse_term(each, self.names) for name, each in given.items()}

    def _expected(self, entry: dict[str, Any]) -> Returns | Raises | None:
        if "raises" in entry:
            return _raises(entry["raises"])
        return Returns(parse_term(entry["expect"], self.names)) if "expect" in entry else None

    def _save(self, step: Step) -> None:
        name = step.saved_as
        if name is None:
            return
        if not _NAME.fullmatch(name):
            raise NotationError(f"as: {name} is no name; use letters, digits and _")
        if name in self.names:
            raise NotationError(f"as: the name {name} is taken by line {self.names[name]}; use another")
        self.names[name] = step.line


_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_ANY: Final = ("any value", lambda _value: True)
_TEXT: Final = ("text", lambda value: isinstance(value, str))
_KEYS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "note": _TEXT,
    "at": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "call": _TEXT,
    "with": ("an object", lambda value: isinstance(value, dict)),
    "as": _TEXT,
    "expect": _ANY,
    "raises": _TEXT,
}


def _check_keys(entry: dict[str, Any]) -> None:
    for key, value in entry.items():
        if key not in _KEYS:
            raise NotationError(f"unknown key {key}{hint(key, tuple(_KEYS))}")
        wording, accepts = _KEYS[key]
        if not accepts(value):
            raise NotationError(f"wrong type of {key}: it is {wording}")
    if "note" in entry and len(entry) > 1:
        raise NotationError("a note stands alone in its line")
    if "note" not in entry and "call" not in entry:
        raise NotationError("a line has a call, or a note")
    if "raises" in entry and (other := {"expect", "as"} & entry.keys()):
        raise NotationError(f"{min(other)} and raises exclude each other: a call that raises returns nothing")


def _raises(told: str) -> Raises:
    """Return what is raised: an error's name, and after a colon the reason of one that has reasons."""
    name, colon, reason = told.partition(":")
    error = _found(name, ERRORS, "error")
    if not colon:
        return Raises(error)
    if not issubclass(error, RuntimeStoreError):
        raise NotationError(f"{name} has no reasons; name the error alone")
    return Raises(error, _found(reason.strip(), {each: each for each in REASONS}, "reason"))


def _found(name: str, known: Mapping[str, Any], kind: str) -> Any:
    if name not in known:
        raise NotationError(f"unknown {kind} {name}{hint(name, known)}")
    return known[name]


def _decoded(raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise NotationError(f"column {error.start + 1}: it is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise NotationError(f"column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise NotationError("it is nested too deep") from error
    except NotationError:
        raise
    except ValueError as error:
        raise NotationError("it holds a number with too many digits") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, value in pairs:
        if key in entry:
            raise NotationError(f"the key {key} is given twice")
        entry[key] = value
    return entry


def _refuse(constant: str) -> NoReturn:
    raise NotationError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    return number(float(digits), label=digits, error=NotationError)
