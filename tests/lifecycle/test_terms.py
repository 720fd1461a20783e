"""A term says the same in SQL, in Python and in its label."""

import re
import sqlite3
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings

from fsm.errors import DefinitionError
from fsm.lifecycle import NOW, Arg, Not, Of, Term, conjunction, given
from fsm.lifecycle.terms import contradict, label, predicate, sql
from fsm.machine.statements import select_statement
from storage import Value, open_database
from storage.schema import Schema
from tests.strategies import NUMBERS, arguments, conjunctions, rows

_DB = open_database(":memory:")


def _in_sql(conditions: Any, row: Mapping[str, Value], values: Mapping[str, Value]) -> bool:
    _DB.require(Schema("numbers", (NUMBERS,)))

    def body(tx: Any) -> bool:
        tx.execute("DELETE FROM numbers")
        tx.execute("INSERT INTO numbers VALUES (:id, :a, :b, :c)", row)
        return bool(tx.execute(select_statement(NUMBERS, conditions, ()), values))

    return _DB.write(body)


class _Label:
    """Reads a label back and judges it, knowing nothing of the code that wrote it."""

    TOKEN = re.compile(r"\s*('(?:[^']|'')*'|-?\d+|[a-z_.]+|[()]|[<>!]?=|[<>]|,)")

    def __init__(self, text: str, row: Mapping[str, Value], values: Mapping[str, Value]) -> None:
        self.tokens = self.TOKEN.findall(text)
        assert "".join(self.tokens) == re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text)
        self.row, self.values = row, values

    def take(self) -> str:
        return str(self.tokens.pop(0))

    def peek(self) -> str:
        return str(self.tokens[0]) if self.tokens else ""

    def conjunction(self) -> bool:
        held = self.condition()
        while self.peek() == "and":
            self.take()
            held = self.condition() and held
        return held

    def condition(self) -> bool:
        if self.peek() == "always":
            return bool(self.take())
        if self.peek() == "not":
            assert (self.take(), self.take()) == ("not", "(")
            held = not self.conjunction()
            assert self.take() == ")"
            return held
        return self.comparison(self.operand())

    def comparison(self, left: Value) -> bool:
        operator = self.take()
        if operator == "is":
            negated = self.peek() == "not" and bool(self.take())
            assert self.take() == "null"
            return (left is None) != negated
        if operator == "in":
            return left in self.listed()
        right = self.operand()
        if operator in {"=", "!="}:
            return (left == right) == (operator == "=")
        if left is None or right is None:
            return False
        assert not isinstance(left, str)
        assert not isinstance(right, str)
        return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]

    def listed(self) -> list[Value]:
        assert self.take() == "("
        members = [self.operand()]
        while self.take() == ",":
            members.append(self.operand())
        return members

    def operand(self) -> Value:
        token = self.take()
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.lstrip("-").isdigit():
            return int(token)
        if token == "null":
            return None
        return self.values[token.removeprefix("given.")] if token.startswith("given.") else self.row[token]


@hypothesis_given(conjunctions, rows, arguments)
@settings(max_examples=400)
def test_sql_predicate_and_label_agree(conditions: Any, row: dict[str, Value], values: dict[str, Value]) -> None:
    """SQL, predicate and label give one answer for every row, at every boundary and with NULL on either side."""
    expected = predicate(conditions)(row, values)
    assert _in_sql(conditions, row, values) is expected
    assert _Label(label(conditions), row, values).conjunction() is expected


@hypothesis_given(conjunctions, rows, arguments)
def test_a_negation_is_the_opposite(conditions: Any, row: dict[str, Value], values: dict[str, Value]) -> None:
    """Terms are never unknown: where a conjunction holds its Not does not, and the other way round."""
    if conditions:
        assert predicate(conditions)(row, values) is not predicate((Not(conditions),))(row, values)


@hypothesis_given(conjunctions, conjunctions, rows, arguments)
@settings(max_examples=400)
def test_what_contradicts_never_holds_at_once(
    first: Any, second: Any, row: dict[str, Value], values: dict[str, Value]
) -> None:
    """Two conjunctions that are judged to contradict each other hold together for no row."""
    if contradict(first, second):
        assert not (predicate(first)(row, values) and predicate(second)(row, values))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Term("a", "=", "x"), Term("a", "=", "y")),
        (Term("a", "=", Arg("n")), Term("a", "!=", Arg("n"))),
        (Term("a", "<", NOW), Term("a", ">=", NOW)),
        (Term("a", ">", NOW), Term("a", "<=", NOW)),
        (Term("a", "in", ("x", "y")), Term("a", "=", "z")),
        (Term("a", "is null"), Not(Term("a", "is null"))),
        (Term("a", "is null"), Term("a", ">", 1)),
        (Term("a", "=", "x"), Not(Term("a", "in", ("x", "y")))),
        ((Term("a", "=", Arg("n")), Term("b", "=", Arg("m"))), Not(Term("a", "=", Arg("n")), Term("b", "=", Arg("m")))),
    ],
)
def test_opposites_are_seen_to_contradict(first: Any, second: Any) -> None:
    """The opposites that declarations use are recognised, whichever comes first."""
    assert contradict(conjunction(first), conjunction(second))
    assert contradict(conjunction(second), conjunction(first))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Term("a", "=", "x"), Term("b", "=", "y")),
        (Term("a", "<", 2), Term("a", "<=", 2)),
        (Term("a", "=", Arg("n")), Term("a", "=", Arg("m"))),
        (Term("a", "in", ("x", "y")), Term("a", "=", "y")),
        (Term("a", "=", Arg("n")), Not(Term("a", "=", Arg("n")), Term("b", "=", 1))),
    ],
)
def test_what_may_hold_at_once_is_no_contradiction(first: Any, second: Any) -> None:
    """Terms that some row satisfies together are not taken for opposites."""
    assert not contradict(conjunction(first), conjunction(second))


def test_a_plain_equality_can_use_an_index(tmp_path: Any) -> None:
    """A top-level equality with a value that cannot be null is written so that an index serves it."""
    assert sql(given("a")) == '"a" = :a'
    assert "IS NOT DISTINCT FROM" in sql((Term("a", "=", Arg("n", nullable=True)),))
    connection = sqlite3.connect(tmp_path / "plan.db")
    connection.execute("CREATE TABLE t (a, b)")
    connection.execute("CREATE INDEX by_a ON t (a)")
    plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM t WHERE {sql(given('a'))}", {"a": 1}).fetchall()
    connection.close()
    assert "USING INDEX by_a" in str(plan)


def test_labels_name_where_a_value_comes_from() -> None:
    """A reader sees columns by name, arguments as given, found values by their step, and the clock as now."""
    conditions = (Term("a", "=", Arg("n")), Term("b", "<", Of("head", "b")), Term("c", ">", NOW))
    assert label(conditions) == "a = given.n and b < head.b and c > now"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Term("a", "like", "x"),  # type: ignore[arg-type] # the wrong operator is what is tested
        lambda: Term("a", "in", "x"),
        lambda: Term("a", "in", ()),
        lambda: Term("a", "in", ("x", None)),
        lambda: Term("a", "=", ("x",)),
        lambda: Term("a", "<", None),
        lambda: Term("a", "<", float("inf")),
        lambda: Term("a", "=", float("nan")),
        Not,
    ],
)
def test_a_term_that_says_nothing_is_refused(make: Any) -> None:
    """A term with an unknown operator, an empty list, or an order with null is refused when it is written."""
    with pytest.raises(DefinitionError):
        make()
