"""Strategies shared by all tests: terms over a small table, and whole lifecycles."""

from typing import Any

from hypothesis import strategies as st

from fsm.lifecycle import Arg, Condition, Edge, Lifecycle, Load, Not, Source, Term, Trigger, Write, stored
from fsm.lifecycle.structure import GONE, NEW
from storage import Column, Table, Value

NUMBERS = Table(
    "numbers",
    (
        Column("id", "INTEGER"),
        Column("a", "INTEGER", nullable=True),
        Column("b", "INTEGER", nullable=True),
        Column("c", "TEXT", nullable=True),
    ),
    primary_key=("id",),
)

_INTEGERS = st.integers(-2, 2)
_TEXTS = st.sampled_from(["", "x", "it's", "null", "NULL", "a and b"])
_ORDERS = st.sampled_from(["<", "<=", ">", ">="])
_EQUALITIES = st.sampled_from(["=", "!="])


def _maybe_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


rows: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
    {"id": st.just(1), "a": _maybe_null(_INTEGERS), "b": _maybe_null(_INTEGERS), "c": _maybe_null(_TEXTS)}
)
arguments: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
    {"n": _INTEGERS, "maybe_n": _maybe_null(_INTEGERS), "s": _TEXTS, "maybe_s": _maybe_null(_TEXTS)}
)


def _number_operand() -> st.SearchStrategy[Any]:
    return st.one_of(_INTEGERS, st.sampled_from([Arg("n"), Arg("maybe_n", nullable=True)]))


def _text_operand() -> st.SearchStrategy[Any]:
    return st.one_of(_TEXTS, st.sampled_from([Arg("s"), Arg("maybe_s", nullable=True)]))


terms: st.SearchStrategy[Term] = st.one_of(
    st.builds(Term, st.sampled_from(["a", "b"]), _ORDERS, _number_operand()),
    st.builds(Term, st.sampled_from(["a", "b"]), _EQUALITIES, st.one_of(st.none(), _number_operand())),
    st.builds(Term, st.just("c"), _EQUALITIES, st.one_of(st.none(), _text_operand())),
    st.builds(Term, st.just(Arg("maybe_n", nullable=True)), _EQUALITIES, st.one_of(st.none(), _INTEGERS)),
    st.builds(Term, st.just("a"), st.just("in"), st.lists(_INTEGERS, min_size=1, max_size=3).map(tuple)),
    st.builds(Term, st.just("c"), st.just("in"), st.lists(_TEXTS, min_size=1, max_size=3).map(tuple)),
    st.builds(Term, st.sampled_from(["a", "b", "c"]), st.just("is null")),
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    terms, lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda each: Not(tuple(each))), max_leaves=6
)
conjunctions: st.SearchStrategy[tuple[Condition, ...]] = st.lists(conditions, max_size=4).map(tuple)


def _toy(table_name: str, names: list[str], final: set[int], pairs: set[tuple[int, int]]) -> Lifecycle:
    """Build a valid lifecycle: a chain through all states keeps each one reachable, the last one is final."""
    last = len(names) - 1
    ends = final | {last}
    states = tuple(stored("status", name, f"it is {name}", final=index in ends) for index, name in enumerate(names))
    on_the_way = [index for index in range(last + 1) if index not in ends]
    chain = {(index, index + 1) for index in on_the_way}
    reached = {0} | {dest for _, dest in chain}
    start = Trigger("create", "it begins", Load(), Write(), edges=tuple(Edge(NEW, states[i]) for i in (0,)))
    others = {pair for pair in pairs if pair[0] not in ends and max(pair) <= last and pair[0] != pair[1]} | chain
    entered = sorted({(a, b) for a, b in others} | {(0, b) for b in range(1, last + 1) if b not in reached})
    moves = tuple(
        Trigger(
            f"move_{a}_{b}", f"it goes from {a} to {b}", Load(), Source(), Write(), edges=(Edge(states[a], states[b]),)
        )
        for a, b in entered
    )
    prune = Trigger(
        "prune", "it is done with", Load(), Write(), edges=tuple(Edge(states[i], GONE) for i in sorted(ends))
    )
    table = Table(
        table_name,
        (Column("id", "INTEGER"), Column("status", "TEXT"), Column("n", "INTEGER", default=0)),
        primary_key=("id",),
    )
    return Lifecycle("toy", "a generated lifecycle", table, states, (start, *moves, prune))


@st.composite
def lifecycles(draw: st.DrawFn) -> Lifecycle:
    """Return a small valid lifecycle over a table of its own."""
    names = draw(
        st.lists(
            st.from_regex(r"[a-z]{1,6}(_[a-z]{1,4})?", fullmatch=True).filter(_free),
            min_size=2,
            max_size=6,
            unique=True,
        )
    )
    indexes = st.integers(0, len(names) - 1)
    final = draw(st.sets(st.integers(1, len(names) - 1), max_size=2))
    pairs = draw(st.sets(st.tuples(indexes, indexes), max_size=6))
    return _toy("toys", names, final, pairs)


def _free(name: str) -> bool:
    return name not in {"new", "gone", "record", "joined", "now"}


__all__ = ["NUMBERS", "arguments", "conditions", "conjunctions", "lifecycles", "rows", "terms"]
