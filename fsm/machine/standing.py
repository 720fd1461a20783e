"""Rows that must stand as the caller believes, asked outside of a trigger where no record of a lifecycle is moved."""

from collections.abc import Mapping
from functools import lru_cache

from fsm.lifecycle.steps import DECLINE, Authority, Refusal
from fsm.lifecycle.terms import Arg, predicate
from fsm.machine import statements
from fsm.machine.record import NO_ROW
from fsm.machine.refusals import found_in
from storage import Row, Transaction, Value

__all__ = ["require"]


def require(tx: Transaction, *authorities: Authority, **values: Value) -> dict[str, Mapping[str, Value]]:
    """Lock rows, those of one table by their keys, then judge them in the order given; return each by its name.

    A row is whole, as its table is declared. One that may be absent, since its authority declines, reads as nulls.
    Raises what the authorities declare.
    """
    tables = [each.table for each in authorities]

    def rank(each: Authority) -> tuple[int, list[str]]:
        return tables.index(each.table), [
            str(values.get(key.name)) for key in each.key.values() if isinstance(key, Arg)
        ]

    rows = {each.name: tx.lock(_statement(each), values, shared=each.shared) for each in sorted(authorities, key=rank)}
    return {each.name: _judged(each, rows[each.name], values) for each in authorities}


def _judged(authority: Authority, rows: list[Row], values: Mapping[str, Value]) -> Mapping[str, Value]:
    if not rows:
        if authority.missing is not DECLINE:
            raise _refused(authority, authority.missing, f"expected a row of {authority.table.name}, found none")
        return NO_ROW
    for check in authority.checks:
        if check.refuse is not DECLINE and not predicate(check.terms)(rows[0], values):
            raise _refused(authority, check.refuse, found_in(rows[0], values, check.terms))
    return rows[0]


def _refused(authority: Authority, refusal: Refusal, said: str) -> Exception:
    return refusal.error(f"refused at {authority.name}: {said}; {refusal.remedy}")


@lru_cache(maxsize=64)
def _statement(authority: Authority) -> str:
    return statements.standing_statement(authority)
