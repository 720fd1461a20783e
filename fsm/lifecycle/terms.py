"""Terms: what a declaration can say about a row. Each gives its SQL, its predicate and its label from one source.

A term is true or false and never unknown, on every side: a comparison for order with a NULL is false, equality takes
NULL for a value like any other.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Literal

from attrs import field, frozen

from fsm.errors import DefinitionError
from storage import Value
from storage.validate import INTEGER_MAXIMUM, INTEGER_MINIMUM, storable

__all__ = [
    "NOW",
    "Arg",
    "Column",
    "Condition",
    "Conditions",
    "Not",
    "Of",
    "Operand",
    "Predicate",
    "Term",
    "conjunction",
    "constant",
    "contradict",
    "given",
    "label",
    "operands",
    "parameter",
    "pinned",
    "predicate",
    "quoted",
    "sql",
]

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "is null"]
Predicate = Callable[[Mapping[str, Value], Mapping[str, Value]], bool]
"""A compiled conjunction: called with a row, and with the values of arguments and steps by `parameter` name."""

_ORDERS = frozenset({"<", "<=", ">", ">="})
_COMPLEMENTS = frozenset({("<", ">="), (">", "<="), ("=", "!="), ("<", ">"), ("<", "="), (">", "=")})


@frozen
class Column:
    """A column of the row that is looked at."""

    name: str


@frozen
class Arg:
    """An argument of the call; `nullable` where None is one of its values."""

    name: str
    nullable: bool = False


@frozen
class Of:
    """A found value: what an earlier step of the same trigger answered in this column."""

    step: str
    column: str
    nullable: bool = False


NOW = Arg("now")
"""The instant of the call in seconds, read once from the clock in force."""

Operand = Column | Arg | Of | Value


def _subject(left: object) -> Column | Arg | Of:
    if isinstance(left, str):
        return Column(left)
    if isinstance(left, Column | Arg | Of):
        return left
    raise DefinitionError(
        f"a term begins with a column, an argument or a found value, not with a {type(left).__name__}"
    )


def constant(value: object) -> Value:
    """Return a constant as every engine holds it; raises DefinitionError for what one of them cannot."""
    if value is None:
        return None
    if isinstance(value, str) and storable(value):
        return str.__str__(value)
    if isinstance(value, int) and INTEGER_MINIMUM <= value <= INTEGER_MAXIMUM:
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    raise DefinitionError(
        f"a constant is a text without NUL and lone surrogates, an integer of 64 bits, a finite number or None,"
        f" and this {type(value).__name__} is none of them; a column is named on the left"
    )


def _compared(right: object) -> "Arg | Of | Value | tuple[Value, ...]":
    if isinstance(right, Arg | Of):
        return right
    return tuple(map(constant, right)) if isinstance(right, tuple) else constant(right)


@frozen
class Term:
    """One comparison. A name on the left is a column; a text on the right is a constant."""

    left: Column | Arg | Of = field(converter=_subject)
    operator: Operator
    right: Arg | Of | Value | tuple[Value, ...] = field(default=None, converter=_compared)

    def __attrs_post_init__(self) -> None:
        listed = isinstance(self.right, tuple)
        if self.operator not in {"=", "!=", "in", "is null", *_ORDERS}:
            raise DefinitionError(
                f"a term compares with =, !=, <, <=, >, >=, in or is null, not with {self.operator!r}"
            )
        if listed != (self.operator == "in") or (isinstance(self.right, tuple) and not self.right):
            raise DefinitionError(
                f"{_named(self.left)}: 'in' takes a tuple of at least one constant, and nothing else does"
            )
        if isinstance(self.right, tuple) and None in self.right:
            raise DefinitionError(f"{_named(self.left)}: a list cannot hold null; write a second term with 'is null'")
        if self.operator in _ORDERS and self.right is None:
            raise DefinitionError(f"{_named(self.left)}: nothing is before or after null; use 'is null'")


@frozen(init=False)
class Not:
    """The negation of a conjunction."""

    conditions: tuple["Condition", ...]

    def __init__(self, *conditions: "Condition | Conditions") -> None:
        flat = conjunction(*conditions)
        if not flat:
            raise DefinitionError("Not() needs at least one term to negate")
        self.__attrs_init__(flat)


Condition = Term | Not
Conditions = tuple[Condition, ...]


def conjunction(*conditions: Condition | Conditions) -> Conditions:
    """Return the conditions as one flat tuple, which means their And."""
    flat: list[Condition] = []
    for entry in conditions:
        if isinstance(entry, tuple):
            flat += conjunction(*entry)
        elif isinstance(entry, Term | Not):
            flat.append(entry)
        else:
            raise DefinitionError(f"a condition is a Term, a Not or a tuple of them, not a {type(entry).__name__}")
    return tuple(flat)


def given(*names: str) -> Conditions:
    """Return the terms by which each of these columns equals the call's argument of the same name."""
    return tuple(Term(name, "=", Arg(name)) for name in names)


def parameter(operand: Arg | Of) -> str:
    """Return the name under which a statement and the machine hold this value."""
    return operand.name if isinstance(operand, Arg) else f"{operand.step}__{operand.column}"


def operands(conditions: Conditions) -> Iterator[Column | Arg | Of]:
    """Yield every column, argument and found value that the conditions name."""
    for condition in conditions:
        if isinstance(condition, Not):
            yield from operands(condition.conditions)
            continue
        yield condition.left
        if isinstance(condition.right, Arg | Of):
            yield condition.right


def pinned(conditions: Conditions) -> dict[str, Value]:
    """Return the columns of which the conditions alone say what they hold, with that value."""
    return {
        each.left.name: None if isinstance(each.right, tuple | Arg | Of) else each.right
        for each in conditions
        if isinstance(each, Term) and isinstance(each.left, Column) and _is_pinned(each)
    }


def _is_pinned(term: Term) -> bool:
    constant = not isinstance(term.right, Arg | Of | tuple)
    return term.operator == "is null" or (term.operator == "=" and constant)


# --- SQL


def quoted(name: str) -> str:
    """Return an identifier as SQL takes it whatever word it is: `grant` and `order` are columns of real tables."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Operand) -> str:
    """Return an operand as SQL text: a quoted column, a named placeholder or a literal."""
    if isinstance(value, Column):
        return quoted(value.name)
    if isinstance(value, Arg | Of):
        return f":{parameter(value)}"
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def sql(conditions: Conditions) -> str:
    """Return the conjunction as an SQL expression, each conjunct in the form that an index can serve."""
    return " AND ".join(map(_conjunct, conditions)) or "1 = 1"


def _conjunct(condition: Condition) -> str:
    if isinstance(condition, Not):
        return f"NOT ({' AND '.join(map(_two_valued, condition.conditions))})"
    right = condition.right
    nullable = right is None or (isinstance(right, Arg | Of) and right.nullable)
    if condition.operator == "!=" or (condition.operator == "=" and nullable):
        return _two_valued(condition)
    return _comparison(condition)


def _two_valued(condition: Condition) -> str:
    if isinstance(condition, Not):
        return _conjunct(condition)
    if condition.operator == "is null":
        return _comparison(condition)
    if condition.operator in {"=", "!="}:
        if condition.right is None:
            return f"{literal(condition.left)} IS {'NOT ' if condition.operator == '!=' else ''}NULL"
        distinct = "IS DISTINCT FROM" if condition.operator == "!=" else "IS NOT DISTINCT FROM"
        return f"{literal(condition.left)} {distinct} {_right(condition)}"
    return f"({_comparison(condition)}) IS TRUE"


def _comparison(term: Term) -> str:
    if term.operator == "is null":
        return f"{literal(term.left)} IS NULL"
    return f"{literal(term.left)} {term.operator.upper()} {_right(term)}"


def _right(term: Term) -> str:
    return f"({', '.join(map(literal, term.right))})" if isinstance(term.right, tuple) else literal(term.right)


# --- predicate


def predicate(conditions: Conditions) -> Predicate:
    """Compile the conjunction once; the result is called with a row and the values of arguments and steps.

    Where a damaged row holds a text among numbers, an order between them is false, whichever way it is asked.
    """
    source = f"lambda row, values: {' and '.join(map(_expression, conditions)) or 'True'}"
    test: Predicate = eval(source, {"__builtins__": {}})  # noqa: S307 # names and constants of a declaration, by repr
    if not any(isinstance(each, Not) or each.operator in _ORDERS for each in conditions):
        return test

    def ordered(row: Mapping[str, Value], values: Mapping[str, Value]) -> bool:
        try:
            return test(row, values)
        except TypeError:
            return False

    return ordered


def _expression(condition: Condition) -> str:
    if isinstance(condition, Not):
        return f"not ({' and '.join(map(_expression, condition.conditions))})"
    left = _value(condition.left)
    if condition.operator == "is null":
        return f"{left} is None"
    if isinstance(condition.right, tuple):
        return f"{left} in {condition.right!r}"
    right = _value(condition.right)
    if condition.operator in {"=", "!="}:
        return f"{left} {'==' if condition.operator == '=' else '!='} {right}"
    known = [left] if isinstance(condition.right, str | int | float) else [left, right]
    return f"({' and '.join(f'{side} is not None' for side in known)} and {left} {condition.operator} {right})"


def _value(operand: Operand) -> str:
    if isinstance(operand, Column):
        return f"row[{operand.name!r}]"
    if isinstance(operand, Arg | Of):
        return f"values[{parameter(operand)!r}]"
    return repr(operand)


# --- label


def _named(operand: Operand) -> str:
    if operand == NOW:
        return "now"
    if isinstance(operand, Column):
        return operand.name
    if isinstance(operand, Arg):
        return f"given.{operand.name}"
    if isinstance(operand, Of):
        return f"{operand.step}.{operand.column}"
    return "null" if operand is None else literal(operand)


def label(conditions: Conditions) -> str:
    """Return the conjunction as a reviewer reads it: columns by name, arguments as `given.x`, the rest as in SQL."""
    return " and ".join(map(_label, conditions)) or "always"


def _label(condition: Condition) -> str:
    if isinstance(condition, Not):
        inner = condition.conditions
        if len(inner) == 1 and isinstance(inner[0], Term) and inner[0].operator == "is null":
            return f"{_named(inner[0].left)} is not null"
        return f"not ({label(inner)})"
    if condition.operator == "is null":
        return f"{_named(condition.left)} is null"
    right = condition.right
    shown = f"({', '.join(map(_named, right))})" if isinstance(right, tuple) else _named(right)
    return f"{_named(condition.left)} {condition.operator} {shown}"


# --- contradiction


def contradict(first: Conditions, second: Conditions) -> bool:
    """Say whether no row can satisfy both, judged by their syntax alone."""
    return (
        _denies(first, second)
        or _denies(second, first)
        or any(_exclude(a, b) or _exclude(b, a) for a in first for b in second)
    )


def _denies(first: Conditions, second: Conditions) -> bool:
    return any(
        isinstance(negation, Not) and all(_entailed(each, first) for each in negation.conditions) for negation in second
    )


def _entailed(condition: Condition, conjuncts: Conditions) -> bool:
    if condition in conjuncts:
        return True
    allowed = _members(condition)
    return allowed is not None and any(
        members <= allowed
        for each in conjuncts
        if _left(each) == _left(condition) and (members := _members(each)) is not None
    )


def _left(condition: Condition) -> Column | Arg | Of | None:
    return None if isinstance(condition, Not) else condition.left


def _exclude(a: Condition, b: Condition) -> bool:
    if isinstance(a, Not) or isinstance(b, Not) or a.left != b.left:
        return False
    if a.operator == "is null":
        return b.operator in _ORDERS or (_members(b) is not None and None not in (_members(b) or ()))
    first, second = _members(a), _members(b)
    if first is not None and second is not None:
        return not first & second
    return a.right == b.right and (a.operator, b.operator) in _COMPLEMENTS


def _members(condition: Condition) -> frozenset[Value] | None:
    """Return the constants that the term admits, where it lists them."""
    if isinstance(condition, Not):
        return None
    if isinstance(condition.right, tuple):
        return frozenset(condition.right)
    if condition.operator == "is null":
        return frozenset({None})
    if condition.operator == "=" and not isinstance(condition.right, Arg | Of):
        return frozenset({condition.right})
    return None
