"""JSON in the one spelling that is stored and digested, and back."""

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from storage.validate import INTEGER_MAXIMUM, INTEGER_MINIMUM, UNSTORABLE, ErrorOf

# A fixed depth, so that what one call could store no deeper call stack fails to decode.
MAXIMUM_DEPTH = 256


def canonical_json(
    value: Any,
    *,
    label: str,
    error: ErrorOf,
    maximum_bytes: int,
    ascii_only: bool,
    maximum_depth: int = MAXIMUM_DEPTH,
) -> str:
    """Return the value as JSON with sorted keys and compact separators, at most `maximum_bytes` of UTF-8.

    A tuple is written as a list. With `ascii_only` every other character is escaped. What is to be stored within
    another value needs a lower `maximum_depth`, so that the whole is not too deep.

    Raises:
        error: the value is not JSON (another type, NaN, an infinity, a key that is not text), cannot be stored
            (integers beyond 64 bits, NUL, lone surrogates), is nested deeper than `maximum_depth` or in itself, or is
            too large.
    """
    _check(value, label, error, maximum_bytes, maximum_depth)
    try:
        encoded = (_ASCII if ascii_only else _UNICODE).encode(value)
        size = len(encoded.encode())
    except (ValueError, TypeError, RecursionError) as exc:
        raise error(f"{label}: expected a JSON value; pass objects, lists, text, numbers, booleans or None") from exc
    if size > maximum_bytes:
        raise _too_large(label, error, maximum_bytes, f"{size}")
    return encoded


def decode_json(text: Any, *, label: str, error: ErrorOf) -> Any:
    """Return the value that JSON text stands for.

    Raises:
        error: it is not text, not JSON, holds NaN or a number too large for a float, or digits or nesting beyond
            what can be read.
    """
    if not isinstance(text, str):
        raise error(f"{label}: expected JSON text, found a {type(text).__name__}; pass text")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as exc:
        # Not chained: the decoder's error carries the whole text.
        reason = "it is nested too deep" if isinstance(exc, RecursionError) else "it is not"
        failure = error(f"{label}: expected JSON text with finite numbers, but {reason}; correct the text")
    raise failure


def _check(value: Any, label: str, error: ErrorOf, maximum_bytes: int, maximum_depth: int) -> None:
    """Walk the value level by level; every node costs a byte, which bounds what shared and circular parts cost."""
    level, seen = [value], 1
    for depth in range(maximum_depth + 1):
        inner: list[Any] = []
        for node in level:
            # Most nodes are plain text, and need no call to be told so.
            if type(node) is str and not UNSTORABLE.search(node):
                continue
            if not isinstance(node, (dict, list, tuple)):
                _check_scalar(node, label, error)
                continue
            if depth == maximum_depth:
                raise error(f"{label}: expected at most {maximum_depth} levels of nesting, found more; flatten it")
            seen += len(node)
            if seen > maximum_bytes:
                raise _too_large(label, error, maximum_bytes, "more")
            inner += _children(node, label, error)
        if not inner:
            return
        level = inner


def _children(node: dict[Any, Any] | list[Any] | tuple[Any, ...], label: str, error: ErrorOf) -> Collection[Any]:
    if not isinstance(node, dict):
        return node
    try:
        # Of a subclass the encoder takes what its `items` answers, so that this is what must be storable.
        fields = node if type(node) is dict else dict(node.items())
        if not UNSTORABLE.search("".join(fields)):
            return fields.values()
    except (TypeError, ValueError):
        pass
    raise error(f"{label}: expected keys that are text without NUL and lone surrogates; correct the keys")


def _check_scalar(node: Any, label: str, error: ErrorOf) -> None:
    if node is None:
        return
    if isinstance(node, str):
        if UNSTORABLE.search(node):
            raise error(f"{label}: expected text without NUL and lone surrogates; remove them")
    elif isinstance(node, int):
        if not INTEGER_MINIMUM <= int.__index__(node) <= INTEGER_MAXIMUM:
            raise error(f"{label}: expected integers of at most 64 bits, found a larger one; pass it as text")
    elif isinstance(node, float):
        if not math.isfinite(node):
            raise error(f"{label}: expected finite numbers, found NaN or an infinity; remove it")
    else:
        raise error(f"{label}: expected JSON values, found a {type(node).__name__}; convert it")


def _too_large(label: str, error: ErrorOf, maximum_bytes: int, found: str) -> Exception:
    return error(f"{label}: expected at most {maximum_bytes} UTF-8 bytes of JSON, found {found}; shorten it")


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("not a finite number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _encoder(*, ascii_only: bool) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=False, sort_keys=True, separators=(",", ":"))


# Made once: making them costs more than most values cost to encode and decode.
_ASCII, _UNICODE = _encoder(ascii_only=True), _encoder(ascii_only=False)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
