"""What a trigger locks before its first step, where an engine lets transactions run side by side.

Every trigger takes its locks in one order, whatever the order in which its steps compare: its root, then the rows of
its authorities, then the record. What a lock has read is what the step sees that reads the same row.
"""

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.steps import Authority, Do, Load, Step
from fsm.lifecycle.structure import Root, Trigger, stands_for_row
from fsm.lifecycle.terms import Of, Operand, parameter
from fsm.machine import statements
from fsm.machine.record import NO_ROW, Record
from storage import Row, Table, Transaction, Value

__all__ = ["Locks"]

LOAD = "Load"
"""The name under which a lock keeps the record's row for the step that reads it."""


@frozen
class _Lock:
    """One query by key, and the step that its answer serves, if any."""

    table: Table
    statement: str
    shared: bool
    step: str | None
    follows: tuple[str, ...]
    """The columns of the record that name the row to be locked."""


class Locks:
    """The locks of one trigger; without one, of the root alone, or of the record where it has no root."""

    def __init__(self, lifecycle: Lifecycle, trigger: Trigger | None) -> None:
        self._lifecycle = lifecycle
        self._read = statements.load_statement(lifecycle)
        self._all = tuple(_in_order(lifecycle, trigger))
        by_key = any(lock.table is lifecycle.table for lock in self._all)
        self._follows = by_key and any(lock.follows for lock in self._all)
        self._names_absent = (trigger is None or _inserts(trigger)) and not _under_another(lifecycle, self._all)

    def take(self, record: Record) -> None:
        """Lock what the trigger stands on, for its steps to read."""
        tx, values = record.tx, record.values
        seen = self._unlocked(tx, values)
        while True:
            for lock in self._all:
                if seen is None and lock.follows:
                    continue
                rows = self._lock(tx, lock, {**values, **_found(seen or NO_ROW, lock.follows)})
                if lock.step is not None:
                    record.locked[lock.step] = rows
            again = self._unlocked(tx, values)
            if again is None or seen is None or not self._moved(seen, again):
                return
            seen = again

    def _unlocked(self, tx: Transaction, values: Mapping[str, Value]) -> Row | None:
        rows = tx.execute(self._read, values) if self._follows else []
        return rows[0] if rows else None

    def _moved(self, before: Row, after: Row) -> bool:
        return any(before[column] != after[column] for lock in self._all for column in lock.follows)

    def _lock(self, tx: Transaction, lock: _Lock, values: Mapping[str, Value]) -> list[Row]:
        rows = tx.lock(lock.statement, values, shared=lock.shared)
        if rows or not self._names_absent or lock.table is not self._lifecycle.table:
            return rows
        # No row can be locked before it is there, and two that would make it must not both find it missing.
        tx.lock_name(":".join((lock.table.name, *(str(values[column]) for column in self._lifecycle.key))))
        return tx.lock(lock.statement, values, shared=lock.shared)


def _under_another(lifecycle: Lifecycle, locks: Sequence[_Lock]) -> bool:
    """Say whether a row is locked ahead of the record, by which two that would make the record come in turn."""
    own = next((index for index, lock in enumerate(locks) if lock.table is lifecycle.table), len(locks))
    return any(not lock.shared for lock in locks[:own])


def _inserts(trigger: Trigger) -> bool:
    return any(not stands_for_row(edge.source) and stands_for_row(edge.dest) for edge in trigger.edges)


def _found(row: Mapping[str, Value], columns: Sequence[str]) -> dict[str, Value]:
    return {parameter(Of("record", column)): row[column] for column in columns}


def _in_order(lifecycle: Lifecycle, trigger: Trigger | None) -> Iterator[_Lock]:
    alone: Sequence[Step] = () if lifecycle.root is not None else (Load(),)
    steps = alone if trigger is None else trigger.steps
    fresh = _ahead_of_code(steps)
    locks = [
        _authority(trigger, step, kept=step in fresh)
        for step in steps
        if isinstance(step, Authority) and trigger is not None and _named_ahead(step.key)
    ]
    locks += [_record(lifecycle, kept=step in fresh) for step in steps if isinstance(step, Load) and step.by is None]
    if lifecycle.root is not None and not any(lock.table is lifecycle.root.table for lock in locks):
        locks.insert(0, _root(lifecycle.root))
    ranks = {table.name: rank for rank, table in enumerate(lifecycle.lock_order)}
    yield from sorted(locks, key=lambda lock: ranks.get(lock.table.name, len(ranks)))


def _authority(trigger: Trigger, step: Authority, *, kept: bool) -> _Lock:
    statement = statements.authority_statement(trigger, step)
    return _Lock(step.table, statement, step.shared, step.name if kept else None, _follows(step.key))


def _record(lifecycle: Lifecycle, *, kept: bool) -> _Lock:
    return _Lock(lifecycle.table, statements.load_statement(lifecycle), False, LOAD if kept else None, ())  # noqa: FBT003 # the record is never shared


def _root(root: Root) -> _Lock:
    return _Lock(root.table, statements.key_statement(root.table, root.key), False, None, _follows(root.key))  # noqa: FBT003 # as above


def _ahead_of_code(steps: Sequence[Step]) -> frozenset[Step]:
    """Return the steps that no Do which writes precedes: after one, what was read before it may be old."""
    writes = (index for index, step in enumerate(steps) if isinstance(step, Do) and not step.reads_only)
    first = next(writes, len(steps))
    return frozenset(steps[:first])


def _named_ahead(key: Mapping[str, Operand]) -> bool:
    """Say whether the row is named before any step has answered: what a Look or a Do finds comes too late."""
    return all(not isinstance(operand, Of) or operand.step == "record" for operand in key.values())


def _follows(key: Mapping[str, Operand]) -> tuple[str, ...]:
    return tuple(operand.column for operand in key.values() if isinstance(operand, Of))
