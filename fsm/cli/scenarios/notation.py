"""How a scenario spells what JSON cannot: results of earlier lines, and values of the library's classes."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs
from attrs import frozen

from fsm.cli.scenarios.catalogue import VALUES, hint

__all__ = ["NotationError", "parse_term", "value_of"]

SIGN: Final = "$"
CHANGE: Final = "change"
DEEPEST: Final = 100


class NotationError(ValueError):
    """A term is spelt wrongly, or refers to what is not there."""


@frozen
class _Reference:
    """`{"$": "name.field", "change": {...}}`."""

    name: str
    path: tuple[str, ...]
    change: Mapping[str, object]


@frozen
class _Made:
    """`{"$TaskIdentity": {...}}`."""

    kind: type
    fields: Mapping[str, object]


def parse_term(raw: object, names: Collection[str], *, depth: int = 0) -> object:
    """Return what stands in a scenario with its references and values recognised; `names` are those saved before it."""
    if depth > DEEPEST:
        raise NotationError(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(raw, list):
        return [parse_term(each, names, depth=depth + 1) for each in raw]
    if not isinstance(raw, dict):
        return raw
    if SIGN in raw:
        return _reference(raw, names, depth)
    if signed := [key for key in raw if key.startswith(SIGN)]:
        return _made(raw, signed[0], names, depth)
    return _terms(raw, names, depth)


def _terms(raw: dict[str, Any], names: Collection[str], depth: int) -> dict[str, object]:
    return {key: parse_term(each, names, depth=depth + 1) for key, each in raw.items()}


def _reference(raw: dict[str, Any], names: Collection[str], depth: int) -> _Reference:
    target, change = raw[SIGN], raw.get(CHANGE, {})
    if unknown := sorted(raw.keys() - {SIGN, CHANGE}):
        raise NotationError(f"unknown key {unknown[0]} beside {SIGN}; a reference has {SIGN} and {CHANGE}")
    if not isinstance(target, str) or not isinstance(change, dict):
        raise NotationError(f"wrong type in a reference: {SIGN} is text, {CHANGE} an object")
    name, *path = target.split(".")
    if name not in names:
        raise NotationError(f"unknown reference {target}{hint(name, tuple(names))}")
    return _Reference(name, tuple(path), _terms(change, names, depth))


def _made(raw: dict[str, Any], key: str, names: Collection[str], depth: int) -> _Made:
    kind, fields = VALUES.get(key.removeprefix(SIGN)), raw[key]
    if kind is None:
        raise NotationError(f"unknown value {key}{hint(key, tuple(SIGN + name for name in VALUES))}")
    if len(raw) > 1 or not isinstance(fields, dict):
        raise NotationError(f"{key} stands alone in its object, with an object of its fields")
    known = _fields_of(kind)
    _refuse_unknown(fields, known, key)
    if missing := [
        each.name for each in attrs.fields(kind) if each.default is attrs.NOTHING and each.name not in raw[key]
    ]:
        raise NotationError(f"{key} lacks {', '.join(missing)}")
    return _Made(kind, _terms(fields, names, depth))


def _fields_of(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in attrs.fields(kind))


def _refuse_unknown(fields: Mapping[str, object], known: tuple[str, ...], owner: str) -> None:
    for name in fields:
        if name not in known:
            raise NotationError(f"{owner} has no field {name}{hint(name, known)}")


def value_of(term: object, saved: Mapping[str, object]) -> Any:
    """Return the value that a parsed term stands for; the library's own refusals of a value pass through."""
    if isinstance(term, _Reference):
        return _referred(term, saved)
    if isinstance(term, _Made):
        return term.kind(**_values(term.fields, saved))
    if isinstance(term, dict):
        return _values(term, saved)
    if isinstance(term, list):
        return [value_of(each, saved) for each in term]
    return term


def _values(terms: Mapping[str, object], saved: Mapping[str, object]) -> dict[str, Any]:
    return {key: value_of(each, saved) for key, each in terms.items()}


def _referred(term: _Reference, saved: Mapping[str, object]) -> Any:
    reached = term.name
    value: Any = saved[reached]
    for part in term.path:
        value = _part(value, part, reached)
        reached = f"{reached}.{part}"
    if not term.change:
        return value
    if not _is_value(value):
        raise NotationError(f"{reached} cannot be changed; only {', '.join(VALUES)} can")
    _refuse_unknown(term.change, _fields_of(type(value)), reached)
    return attrs.evolve(value, **_values(term.change, saved))


def _is_value(value: object) -> bool:
    return type(value) in VALUES.values()


def _part(value: Any, part: str, owner: str) -> Any:
    if _is_value(value):
        parts = {name: getattr(value, name) for name in _fields_of(type(value))}
    elif isinstance(value, Mapping):
        parts = dict(value)
    else:
        parts = {str(position): each for position, each in enumerate(value)} if isinstance(value, list | tuple) else {}
    if part not in parts:
        raise NotationError(f"unknown reference {owner}.{part}{hint(part, tuple(map(str, parts)))}")
    return parts[part]
