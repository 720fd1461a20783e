"""Values are checked before a transaction begins; each refusal is the caller's error and never shows the value."""

import enum
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage import (
    canonical_json,
    choice,
    decode_json,
    flag,
    identifier,
    instance,
    integer,
    number,
    reading,
    record,
    text,
)


class CallerError(ValueError):
    """The error class that an operation hands down."""


SURROGATES = st.characters(categories=["Cs"])
ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(),
    st.text(st.characters(exclude_categories=[]) | SURROGATES),
    st.lists(st.integers()),
    st.dictionaries(st.integers() | st.text(), st.none()),
    st.sets(st.integers()),
    st.builds(object),
    st.integers(min_value=10**400),
)
CHECKS: dict[str, Callable[[Any], Any]] = {
    "identifier": lambda value: identifier(value, label="x", error=CallerError, maximum=10),
    "text": lambda value: text(value, label="x", error=CallerError, maximum_characters=10, maximum_bytes=20),
    "integer": lambda value: integer(value, label="x", error=CallerError, minimum=0),
    "number": lambda value: number(value, label="x", error=CallerError),
    "positive": lambda value: number(value, label="x", error=CallerError, positive=True),
    "choice": lambda value: choice(value, label="x", error=CallerError, options={"a", "b"}),
    "flag": lambda value: flag(value, label="x", error=CallerError),
    "instance": lambda value: instance(value, str, label="x", error=CallerError),
    "reading": lambda value: reading(value, label="x", error=CallerError),
    "record": lambda value: record(value, label="x", error=CallerError, optional=("a",)),
    "canonical_json": lambda value: canonical_json(
        value, label="x", error=CallerError, maximum_bytes=99, ascii_only=False
    ),
    "decode_json": lambda value: decode_json(value, label="x", error=CallerError),
}


@pytest.mark.parametrize("name", sorted(CHECKS))
@given(value=ANYTHING)
def test_a_check_answers_or_raises_the_callers_error(name: str, value: object) -> None:
    """Whatever is passed, nothing but the caller's error class comes out, labelled and with advice."""
    try:
        CHECKS[name](value)
    except CallerError as exc:
        assert re.match("x: expected .*[;:] .", str(exc))  # noqa: PT017 - any value may also be accepted


@given(value=st.text(min_size=12) | st.dictionaries(st.text(min_size=12), st.text(min_size=12), min_size=1))
def test_a_message_never_shows_the_value(value: object) -> None:
    """Neither a text nor the keys and texts of an object stand in a message."""
    parts = [value] if isinstance(value, str) else [*dict(value), *dict(value).values()]  # type: ignore[call-overload]  # a dict by construction
    for check in CHECKS.values():
        try:
            check(value)
        except CallerError as exc:
            assert not any(part.strip() and len(part.strip()) > 11 and part in str(exc) for part in parts)  # noqa: PT017 - as above


@given(value=st.from_regex(r"\s*[A-Za-z0-9][A-Za-z0-9._:-]{0,9}\s*", fullmatch=True))
def test_an_identifier_is_stripped(value: str) -> None:
    """White space around an identifier does not belong to it, nor count."""
    assert CHECKS["identifier"](value) == value.strip()


@pytest.mark.parametrize("value", ["", " ", "-a", ".a", "a b", "é", "a" * 11, "a\nb", "٣", "a\0", "\ud800", 5, None])
def test_what_is_no_identifier_is_refused(value: object) -> None:
    """Only ASCII letters, digits and ._:- after a letter or digit, within the limit."""
    with pytest.raises(CallerError):
        CHECKS["identifier"](value)


@given(value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_is_returned_unchanged_within_its_limits(value: str) -> None:
    """Text is accepted exactly when it is visible and within its code points and UTF-8 bytes."""
    if value.strip() and len(value) <= 10 and len(value.encode()) <= 20:
        assert CHECKS["text"](value) == value
    else:
        with pytest.raises(CallerError):
            CHECKS["text"](value)
    assert text(value, label="x", error=CallerError, blank=True) == value


Name = enum.Enum("Name", {"ONE": "a"}, type=str)
Number = enum.Enum("Number", {"ONE": 1}, type=int)


def test_members_of_enumerations_are_the_plain_values() -> None:
    """Whatever is made of an accepted text or number is what it would be of the plain one, in an f-string too."""
    accepted = [CHECKS[name](Name.ONE) for name in ("text", "identifier", "choice")]
    assert [(type(value), f"{value}") for value in accepted] == [(str, "a")] * 3
    plain = integer(Number.ONE, label="x", error=CallerError, minimum=1)
    assert (type(plain), f"{plain}") == (int, "1")
    giant = type("Giant", (int,), {"__le__": lambda *_: True, "__ge__": lambda *_: True})(2**70)
    with pytest.raises(CallerError):
        integer(giant, label="x", error=CallerError, minimum=1)


@given(value=st.integers())
def test_an_integer_is_accepted_within_its_bounds(value: int) -> None:
    """The bounds belong to the range, and the largest is what a column can hold."""
    assert integer(value, label="x", error=CallerError, minimum=value, maximum=value) == value
    for minimum, maximum in ((value + 1, value + 2), (value - 2, value - 1)):
        with pytest.raises(CallerError):
            integer(value, label="x", error=CallerError, minimum=minimum, maximum=maximum)
    with pytest.raises(CallerError):
        integer(2**63, label="x", error=CallerError, minimum=0)


@pytest.mark.parametrize("value", [True, False, "1", 1.0, None, math.nan])
def test_an_integer_is_no_bool_text_or_float(value: object) -> None:
    """True is not 1."""
    with pytest.raises(CallerError):
        CHECKS["integer"](value)


@given(value=st.integers() | st.floats())
@example(value=-0.0)
def test_a_number_is_finite(value: float) -> None:
    """Numbers come back as floats, zero without a sign; NaN and infinities are none, and positive leaves zero out."""
    for name, accepted in (("number", math.isfinite(value)), ("positive", math.isfinite(value) and value > 0)):
        if accepted:
            result = CHECKS[name](value)
            assert (type(result), repr(result)) == (float, repr(value + 0.0))
        else:
            with pytest.raises(CallerError):
                CHECKS[name](value)


@pytest.mark.parametrize("value", [True, " 60 ", None, 10**400, math.inf, -math.inf, math.nan])
def test_a_number_is_no_bool_text_or_giant(value: object) -> None:
    """What float() would have taken is refused all the same."""
    with pytest.raises(CallerError):
        CHECKS["number"](value)


def test_choices_flags_and_instances_are_taken_strictly() -> None:
    """A choice is one of its options, a flag a bool, an instance of its kind; also for values that have no hash."""
    assert (CHECKS["choice"]("a"), CHECKS["instance"]("s")) == ("a", "s")
    assert [CHECKS["flag"](value) for value in (True, False)] == [True, False]
    refused = [("choice", []), ("choice", "c"), ("choice", None), ("flag", 1), ("flag", "true"), ("instance", 5)]
    for name, value in refused:
        with pytest.raises(CallerError):
            CHECKS[name](value)


def test_a_record_has_its_fields_and_no_others() -> None:
    """Required fields are there, further ones are optional, and unknown keys are counted, not shown."""

    def check(value: object) -> dict[str, Any]:
        return record(value, label="x", error=CallerError, required=("a",), optional=("b",))

    given_value = {"a": 1, "b": 2}
    assert check(given_value) == given_value
    assert check(given_value) is not given_value
    with pytest.raises(CallerError, match="fields a, which are missing"):
        check({"b": 2})
    with pytest.raises(CallerError, match="found 2 others") as caught:
        check({"a": 1, "their words": 2, 3: 4})
    assert "their words" not in str(caught.value)
    for value in ([("a", 1)], None, "a"):
        with pytest.raises(CallerError):
            check(value)


def test_a_record_is_judged_by_what_is_returned() -> None:
    """A subclass of dict cannot show the check other fields than the use: a plain copy is made before both."""

    class Liar(dict[str, Any]):
        def __iter__(self) -> Iterator[str]:
            return iter(("a",))

        def __contains__(self, key: object) -> bool:
            return key == "a"

        def __getitem__(self, key: str) -> object:
            raise KeyError(key)

        def keys(self) -> Any:
            return ["a"]

        def items(self) -> Any:
            return [("a", 1)]

    with pytest.raises(CallerError, match="fields a, which are missing"):
        record(Liar(b=2), label="x", error=CallerError, required=("a",), optional=("b",))
    with pytest.raises(CallerError, match="found 1 others"):
        record(Liar(a=1, c=2), label="x", error=CallerError, required=("a",), optional=("b",))
    found = record(Liar(a=3), label="x", error=CallerError, required=("a",))
    assert (type(found), found) == (dict, {"a": 3})


def failing(wrong: Exception) -> Callable[[], float]:
    """Return a clock that raises."""

    def clock() -> float:
        raise wrong

    return clock


def test_a_clock_is_read_once_and_answers_seconds() -> None:
    """What the clock answers comes back as a float, after one call."""
    answers = iter((5, 6))
    answer = reading(lambda: next(answers), label="x", error=CallerError)
    assert (type(answer), answer, next(answers)) == (float, 5.0, 6)


@pytest.mark.parametrize(
    "clock",
    [
        None,
        5.0,
        lambda _: 5.0,
        *(failing(wrong) for wrong in (TypeError("s3cret"), ValueError("s3cret"), OverflowError("s3cret"))),
        *(lambda answer=answer: answer for answer in (None, True, "5", math.nan, math.inf, 10**400, b"5")),
    ],
    ids=range(13),
)
def test_what_is_no_clock_is_refused(clock: object) -> None:
    """Not callable, with arguments, failing at a value or answering no finite number: each is the caller's error."""
    with pytest.raises(CallerError, match="x: expected .*; .") as caught:
        reading(clock, label="x", error=CallerError)
    assert "s3cret" not in str(caught.value)


def test_what_else_a_clock_raises_is_its_own() -> None:
    """A clock that fails in another way, as a test's may, is not explained away."""
    with pytest.raises(LookupError):
        reading(failing(LookupError()), label="x", error=CallerError)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner)
    ),
    max_leaves=20,
)


def encode(value: object, maximum_bytes: int = 10**6, *, ascii_only: bool = False) -> str:
    """Encode with the error class of these tests."""
    return canonical_json(value, label="x", error=CallerError, maximum_bytes=maximum_bytes, ascii_only=ascii_only)


@given(value=JSON, ascii_only=st.booleans())
def test_canonical_json_is_read_back_and_has_one_spelling(value: object, *, ascii_only: bool) -> None:
    """Decoding undoes encoding, and encoding again, in whatever order of keys, gives the same text."""
    encoded = encode(value, ascii_only=ascii_only)
    decoded = decode_json(encoded, label="x", error=CallerError)
    assert decoded == value
    assert encode(decoded, ascii_only=ascii_only) == encoded
    assert encoded.isascii() or not ascii_only
    assert encoded == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only)


@given(value=JSON)
def test_the_limit_of_canonical_json_counts_utf8_bytes(value: object) -> None:
    """The exact size passes, one byte less does not."""
    size = len(encode(value).encode())
    assert encode(value, size)
    with pytest.raises(CallerError, match="UTF-8 bytes"):
        encode(value, size - 1)


def nested(depth: int) -> object:
    """Return a list in a list, so many levels deep."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def circular() -> object:
    """Return an object that holds itself, twice."""
    value: dict[str, Any] = {}
    value["a"] = [value, value]
    return value


def doubled(depth: int) -> object:
    """Return lists that share their parts, so that the text would be 2 ** depth long."""
    value: object = []
    for _ in range(depth):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        {"a": [-math.inf]},
        {1: 2},
        {None: 1},
        {"a", "b"},
        b"x",
        object(),
        2**63,
        -(2**63) - 1,
        "\x00",
        "\ud800",
        {"\ud800": 1},
        {"a\x00": 1},
        nested(257),
        nested(100000),
        circular(),
        doubled(60),
        10**5000,
        {"a": 1, 2: 3},
        {("a",): 1},
    ],
    ids=range(21),
)
def test_what_is_not_json_or_cannot_be_stored_is_refused(value: object) -> None:
    """Other types, unstorable text, wide integers, endless and too deep values are the caller's error."""
    with pytest.raises(CallerError):
        encode(value)


def test_tuples_are_lists_and_the_declared_depth_is_allowed() -> None:
    """A tuple is written as a list; 256 levels can be written and read."""
    assert encode((1, (2,))) == "[1,[2]]"
    assert decode_json(encode(nested(256)), label="x", error=CallerError) == nested(256)


def test_a_caller_may_allow_fewer_levels() -> None:
    """What is to stand within another value may be asked to leave room for it."""
    asked: dict[str, Any] = {"label": "x", "error": CallerError, "maximum_bytes": 99, "ascii_only": False}
    assert canonical_json([[1]], **asked, maximum_depth=2) == "[[1]]"
    with pytest.raises(CallerError, match="at most 2 levels"):
        canonical_json([[[1]]], **asked, maximum_depth=2)


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        '{"a":-1e999}',
        "9" * 5000,
        "[" * 100000,
        '{"a":' * 5000,
        "",
        "{",
        "nul",
        "'a'",
        '"\x01"',
        '"\\x"',
        "1 2",
        "\ud800",
        None,
        5,
        b"{}",
        bytearray(b"1"),
    ],
    ids=range(20),
)
def test_text_that_is_no_json_is_refused(value: object) -> None:
    """Whatever json.loads takes in excess or fails at in its own way is the caller's error, without the text."""
    with pytest.raises(CallerError) as caught:
        decode_json(value, label="x", error=CallerError)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
