"""The SQL of a declaration: one fenced statement an edge, derived and never written by hand."""

from collections.abc import Iterable, Mapping

from fsm.lifecycle.declaration import Lifecycle
from fsm.lifecycle.steps import Authority, Fence, Look
from fsm.lifecycle.structure import Edge, Greater, Mark, Plus, State, Trigger, Written, answered_columns, stands_for_row
from fsm.lifecycle.terms import Column, Conditions, Operand, literal, operands, pinned, quoted, sql
from storage import Table

__all__ = [
    "all_writes",
    "authority_statement",
    "joined_statement",
    "key_statement",
    "load_statement",
    "look_statement",
    "returned",
    "select_statement",
    "standing_statement",
    "sweep_statement",
    "write_statement",
]


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))


def _by_key(key: Mapping[str, Operand]) -> str:
    return " AND ".join(f"{quoted(column)} = {literal(operand)}" for column, operand in key.items())


def _own_key(lifecycle: Lifecycle) -> str:
    return " AND ".join(f"{quoted(column)} = :{column}" for column in lifecycle.key)


def _all_columns(table: Table) -> str:
    return _listed(column.name for column in table.columns)


def returned(table: Table) -> str:
    """Return the columns after RETURNING, where an engine may answer a whole REAL as an integer unless computed."""
    return ", ".join(
        f"{quoted(each.name)} + 0.0 AS {quoted(each.name)}" if each.type == "REAL" else quoted(each.name)
        for each in table.columns
    )


def load_statement(lifecycle: Lifecycle) -> str:
    """SELECT the record by its key."""
    table = lifecycle.table
    return f"SELECT {_all_columns(table)} FROM {quoted(table.name)} WHERE {_own_key(lifecycle)}"


def joined_statement(lifecycle: Lifecycle) -> str | None:
    """SELECT the joined row of the record's key, where the lifecycle joins a table."""
    if lifecycle.joined is None:
        return None
    joined = lifecycle.joined
    return f"SELECT {_all_columns(joined)} FROM {quoted(joined.name)} WHERE {_own_key(lifecycle)}"


def _answered(trigger: Trigger, step: Authority | Look, key: Iterable[str] = ()) -> str:
    names = {*step.table.primary_key, *key, *answered_columns(trigger, step)}
    return _listed(column.name for column in step.table.columns if column.name in names)


def authority_statement(trigger: Trigger, step: Authority) -> str:
    """SELECT the row that must stand as the caller believes."""
    return f"SELECT {_answered(trigger, step)} FROM {quoted(step.table.name)} WHERE {_by_key(step.key)}"


def key_statement(table: Table, key: Mapping[str, Operand]) -> str:
    """SELECT a row's own key, by which it can be locked."""
    return f"SELECT {_listed(table.primary_key)} FROM {quoted(table.name)} WHERE {_by_key(key)}"


def standing_statement(step: Authority) -> str:
    """SELECT the whole row that must stand as the caller believes."""
    table = step.table
    return f"SELECT {_all_columns(table)} FROM {quoted(table.name)} WHERE {_by_key(step.key)}"


def look_statement(lifecycle: Lifecycle, trigger: Trigger, step: Look) -> str:
    """SELECT the first row that satisfies the Look, or count them; a row of the record's table answers its key."""
    if step.count:
        return f'SELECT COUNT(*) AS "count" FROM {quoted(step.table.name)} WHERE {sql(step.where)}'
    key = lifecycle.key if step.table is lifecycle.table else ()
    return f"{select_statement(step.table, step.where, step.order, _answered(trigger, step, key))} LIMIT 1"


def select_statement(table: Table, where: Conditions, order: tuple[str, ...], columns: str = "") -> str:
    """SELECT every row that satisfies the terms, whole or only some columns of it."""
    ordered = f" ORDER BY {_listed(order)}" if order else ""
    return f"SELECT {columns or _all_columns(table)} FROM {quoted(table.name)} WHERE {sql(where)}{ordered}"


def write_statement(lifecycle: Lifecycle, trigger: Trigger, edge: Edge) -> str:
    """The fenced write of one edge: it changes one row, or the fence is lost."""
    returning = f" RETURNING {returned(lifecycle.table)}"
    if not stands_for_row(edge.source):
        return _insert(lifecycle, edge) + returning
    fences = tuple(term for step in trigger.steps if isinstance(step, Fence) for term in step.terms)
    where = f"{_own_key(lifecycle)} AND {_standing(edge, fences)}"
    return _change(lifecycle, edge, where) + returning


def sweep_statement(lifecycle: Lifecycle, trigger: Trigger, edge: Edge) -> str:
    """One statement that moves every row which satisfies the sweep's terms, and answers what tells their new state."""
    where = sql(tuple(dict.fromkeys((*trigger.over, *_terms_of(edge.source), *edge.guard))))
    judged = {operand.name for operand in operands(_terms_of(edge.dest)) if isinstance(operand, Column)}
    answered = (each.name for each in lifecycle.table.columns if each.name in judged.union(lifecycle.key))
    return _change(lifecycle, edge, where) + f" RETURNING {_listed(answered)}"


def _terms_of(place: State | Mark) -> Conditions:
    return place.terms if isinstance(place, State) else ()


def _standing(edge: Edge, fences: Conditions) -> str:
    conditions = (*_terms_of(edge.source), *fences, *edge.guard)
    of_row = (each for each in conditions if any(isinstance(operand, Column) for operand in operands((each,))))
    return sql(tuple(dict.fromkeys(of_row)))


def _change(lifecycle: Lifecycle, edge: Edge, where: str) -> str:
    table = quoted(lifecycle.table.name)
    if not stands_for_row(edge.dest):
        return f"DELETE FROM {table} WHERE {where}"
    settings = ", ".join(f"{quoted(column)} = {_written(value)}" for column, value in all_writes(edge).items())
    return f"UPDATE {table} SET {settings or _unchanged(lifecycle)} WHERE {where}"


def _unchanged(lifecycle: Lifecycle) -> str:
    return f"{quoted(lifecycle.key[0])} = {quoted(lifecycle.key[0])}"


def _insert(lifecycle: Lifecycle, edge: Edge) -> str:
    written = all_writes(edge)
    columns = {column: f":{column}" for column in lifecycle.key if not lifecycle.key_is_given_by_the_database}
    columns |= {column: _written(value) for column, value in written.items()}
    return (
        f"INSERT INTO {quoted(lifecycle.table.name)} ({_listed(columns)})"
        f" VALUES ({', '.join(columns.values())}) ON CONFLICT DO NOTHING"
    )


def all_writes(edge: Edge) -> dict[str, Written]:
    """Return what the edge writes: its own writes, and what the dest's terms pin that the source's do not."""
    if not isinstance(edge.dest, State):
        return {}
    known = pinned(_terms_of(edge.source))
    entered = {
        column: value for column, value in pinned(edge.dest.terms).items() if (column, value) not in known.items()
    }
    return {**entered, **edge.writes}


def _written(value: Written) -> str:
    if isinstance(value, Plus):
        return f"{quoted(value.column)} + {literal(value.by)}"
    if isinstance(value, Greater):
        column, argument = quoted(value.column), literal(value.argument)
        return f"CASE WHEN {column} > {argument} THEN {column} ELSE {argument} END"
    return literal(value)
