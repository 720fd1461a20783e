"""How operands and what an edge writes read in words; terms have a label of their own, which is used as it is."""

from collections.abc import Iterable, Mapping

from fsm.lifecycle import Column, Conditions, Greater, Plus, Term
from fsm.lifecycle.structure import Written
from fsm.lifecycle.terms import Operand, label

__all__ = ["alternatives", "keyed", "listed", "terms", "value"]


def terms(conditions: Conditions) -> str:
    """Return the label of the conditions; empty where there are none, since nothing is asked then."""
    return label(conditions) if conditions else ""


def value(written: Written | Column) -> str:
    """Return how a value, an argument, a found value, or what is computed from one, reads."""
    if isinstance(written, Plus):
        return f"{written.column} + {value(written.by)}"
    if isinstance(written, Greater):
        return f"the greater of {written.column} and {value(written.argument)}"
    if isinstance(written, Column):
        return written.name
    # The label of an equality spells its right side; taking it from there keeps one spelling for both.
    return label((Term("x", "=", written),)).removeprefix("x = ")


def keyed(key: Mapping[str, Operand]) -> str:
    """Return how a row is found by its key."""
    return " and ".join(f"{column} = {value(operand)}" for column, operand in key.items())


def listed(names: Iterable[str]) -> str:
    """Return the names one after the other."""
    return ", ".join(names)


def alternatives(names: Iterable[str]) -> str:
    """Return the names, each once, as a choice between them."""
    return " or ".join(dict.fromkeys(names))
