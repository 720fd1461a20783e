"""Values checked before a transaction begins. Each function raises the caller's error, which never shows the value."""

import math
import re
from collections.abc import Callable, Collection
from typing import Any, TypeAlias, TypeVar

INTEGER_MAXIMUM = 2**63 - 1
INTEGER_MINIMUM = -(2**63)

_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Finds what no database keeps as it is: NUL and lone surrogates."""

Instance = TypeVar("Instance")
ErrorOf: TypeAlias = Callable[[str], Exception]
"""What makes the error to raise out of its message: an error class, or a function where a class needs more."""


def storable(value: str) -> bool:
    """Tell whether a database keeps this text as it is: it has no NUL and no lone surrogate."""
    return UNSTORABLE.search(value) is None


def _plain(value: str) -> str:
    """Return the text itself: a member of an enumeration of texts, say, would be another one within an f-string."""
    return value if type(value) is str else str.__str__(value)


def identifier(value: Any, *, label: str, error: ErrorOf, maximum: int) -> str:
    """Return the value stripped, when it is an identifier of 1 to `maximum` code points.

    Raises:
        error: it is not text, too long, or not letters, digits and `._:-` after a letter or digit.
    """
    if isinstance(value, str):
        stripped = _plain(value).strip()
        if len(stripped) <= maximum and _IDENTIFIER.fullmatch(stripped):
            return stripped
    raise error(
        f"{label}: expected an identifier of 1 to {maximum} characters "
        "(letters, digits and ._:- after a letter or digit); pass one"
    )


def text(
    value: Any,
    *,
    label: str,
    error: ErrorOf,
    maximum_characters: int | None = None,
    maximum_bytes: int | None = None,
    blank: bool = False,
) -> str:
    """Return the value unchanged, as a plain `str`, when it is text that can be stored.

    Limits are in code points and in UTF-8 bytes; None is no limit. Blank text, empty or only white
    space, is accepted only with `blank`.

    Raises:
        error: it is not text, holds NUL or a lone surrogate, is blank, or exceeds a limit.
    """
    if not isinstance(value, str) or not storable(plain := _plain(value)):
        raise error(f"{label}: expected text without NUL and lone surrogates; pass such text")
    if not blank and not plain.strip():
        raise error(f"{label}: expected text that is not blank; pass at least one visible character")
    if maximum_characters is not None and len(plain) > maximum_characters:
        raise error(f"{label}: expected at most {maximum_characters} characters, found {len(plain)}; shorten it")
    if maximum_bytes is not None and (size := len(plain.encode())) > maximum_bytes:
        raise error(f"{label}: expected at most {maximum_bytes} UTF-8 bytes, found {size}; shorten it")
    return plain


def integer(value: Any, *, label: str, error: ErrorOf, minimum: int, maximum: int = INTEGER_MAXIMUM) -> int:
    """Return the value, as a plain `int`, when it is an integer from `minimum` to `maximum`.

    Raises:
        error: it is not an integer, is a bool, or is out of range.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        plain = value if type(value) is int else int.__index__(value)
        if minimum <= plain <= maximum:
            return plain
    raise error(f"{label}: expected an integer from {minimum} to {maximum}; pass one, not a bool or text")


def number(value: Any, *, label: str, error: ErrorOf, positive: bool = False) -> float:
    """Return the value as a float, when it is a finite number; above zero with `positive`.

    Raises:
        error: it is not an int or float, is a bool, NaN, infinite, too large for a float, or not positive.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            # Its own value, whatever a subclass answers; no negative zero: engines do not agree on whether it is kept.
            result = (float.__float__(value) if isinstance(value, float) else int.__float__(value)) + 0.0
        except OverflowError:
            result = math.inf
        if math.isfinite(result) and (result > 0 or not positive):
            return result
    raise error(f"{label}: expected a finite {'positive ' if positive else ''}number; pass one, not a bool or text")


def reading(clock: object, *, label: str, error: ErrorOf) -> float:
    """Call the clock, once, and return the seconds that it answers.

    Raises:
        error: it cannot be called without arguments, raises TypeError, ValueError or OverflowError, or answers
            anything but a finite number.
    """
    if not callable(clock):
        raise error(f"{label}: expected a function without arguments, found a {type(clock).__name__}; pass one")
    try:
        seconds = clock()
    except (TypeError, ValueError, OverflowError) as exc:
        raise error(
            f"{label}: expected a function without arguments that answers seconds, found one that failed "
            f"({type(exc).__name__}); pass one that answers a finite number"
        ) from exc
    return number(seconds, label=label, error=error)


def choice(value: Any, *, label: str, error: ErrorOf, options: Collection[str]) -> str:
    """Return the value, as a plain `str`, when it is one of `options`.

    Raises:
        error: it is anything else.
    """
    if isinstance(value, str) and (plain := _plain(value)) in options:
        return plain
    raise error(f"{label}: expected one of {', '.join(sorted(options))}; pass one of these")


def flag(value: Any, *, label: str, error: ErrorOf) -> bool:
    """Return the value, when it is True or False.

    Raises:
        error: it is anything else, 0 and 1 included.
    """
    if isinstance(value, bool):
        return value
    raise error(f"{label}: expected True or False; pass one of these")


def instance(value: Any, kind: type[Instance], *, label: str, error: ErrorOf) -> Instance:
    """Return the value, when it is an instance of `kind`.

    Raises:
        error: it is anything else.
    """
    if isinstance(value, kind):
        return value
    raise error(f"{label}: expected a {kind.__name__}, found a {type(value).__name__}; pass a {kind.__name__}")


def record(
    value: Any,
    *,
    label: str,
    error: ErrorOf,
    required: Collection[str] = (),
    optional: Collection[str] = (),
) -> dict[str, Any]:
    """Return the value as a plain dict, when it is a dict with every required key and none but these and optional ones.

    Raises:
        error: it is not a dict, lacks a required key, or has another key (which the message does not show).
    """
    if not isinstance(value, dict):
        raise error(f"{label}: expected an object, found a {type(value).__name__}; pass a dict")
    # Copied first, and by dict's own method: a subclass could answer the check one thing and the use another.
    fields = dict(dict.items(value))
    if missing := [name for name in required if name not in fields]:
        raise error(f"{label}: expected the fields {', '.join(missing)}, which are missing; add them")
    allowed = {*required, *optional}
    if unknown := sum(1 for name in fields if not isinstance(name, str) or name not in allowed):
        raise error(
            f"{label}: expected no fields but {', '.join(sorted(allowed)) or 'none'}, "
            f"found {unknown} others; remove them"
        )
    return fields
