"""Whether an existing table is the declared one: judged by its shape, never by the text that made it."""

from collections.abc import Iterator, Mapping

from attrs import frozen

from storage.schema import Column, ForeignKey, Index, Table


@frozen
class Shape:
    """What an engine found of a table. A column's kind is "TEXT", "NUMBER", or "ANY" where it keeps what it is given.

    `accepted` holds, for each column whose values a CHECK limits to a set, the set; foreign keys name
    their column pairs in sorted order; `indexes` are those that bear a declared name, on any table.
    """

    kinds: Mapping[str, str]
    not_null: frozenset[str]
    primary_key: tuple[str, ...]
    unique: frozenset[frozenset[str]]
    foreign_keys: frozenset[ForeignKey]
    indexes: Mapping[str, Index | None]
    accepted: Mapping[str, frozenset[str]]
    autoincrement: bool


def ordered(key: ForeignKey) -> ForeignKey:
    """Return the same key with its column pairs sorted, as keys are compared."""
    pairs = sorted(zip(key.columns, key.references, strict=True))
    return ForeignKey(tuple(pair[0] for pair in pairs), key.table, tuple(pair[1] for pair in pairs))


def differences(table: Table, shape: Shape, *, remaking: bool = False) -> list[str]:
    """Say what keeps an existing table from being used: expected and found, one text for each difference.

    An engine that is `remaking` tables of an older shape is told only what keeps it from that too.
    """
    lacked = lacking(table, shape) if remaking else ()
    rekeyed = remaking and table.rekeyed
    return [*_columns(table, shape, lacked), *_keys(table, shape, rekeyed=rekeyed), *_indexes(table, shape)]


def lacking(table: Table, shape: Shape) -> tuple[Column, ...]:
    """Return the columns that an older table may lack and does."""
    present = {name.lower() for name in shape.kinds}
    return tuple(each for each in table.columns if each.added is not None and each.name.lower() not in present)


def going(table: Table, shape: Shape) -> tuple[str, ...]:
    """Return the columns of an older key that are not declared: they named the rows, and go with the key."""
    declared = {column.name.lower() for column in table.columns}
    return tuple(name for name in shape.primary_key if name.lower() not in declared)


def older(table: Table, shape: Shape) -> bool:
    """Tell whether an existing table has a shape from before some of its columns, or from before its key."""
    return bool(lacking(table, shape)) or (table.rekeyed and shape.primary_key != table.primary_key)


def outdated(table: Table, shape: Shape) -> tuple[Column, ...]:
    """Return the columns whose CHECK accepts another set of values than the declared one."""
    return tuple(
        column
        for column in table.columns
        if column.one_of and shape.accepted.get(column.name, frozenset(column.one_of)) != frozenset(column.one_of)
    )


def missing_indexes(table: Table, shape: Shape) -> tuple[Index, ...]:
    """Return the declared indexes that do not exist."""
    return tuple(index for index in table.indexes if index.name not in shape.indexes)


def _columns(table: Table, shape: Shape, lacked: tuple[Column, ...]) -> Iterator[str]:
    declared = {column.name for column in table.columns}
    if missing := sorted(declared - shape.kinds.keys() - {column.name for column in lacked}):
        yield f"expected the columns {', '.join(missing)}, found none of that name"
    if table.exact and (extra := sorted(shape.kinds.keys() - declared)):
        yield f"expected exactly its declared columns, found also {', '.join(extra)}"
    for column in table.columns:
        kind = shape.kinds.get(column.name, "ANY")
        if kind not in ("ANY", "TEXT" if column.type == "TEXT" else "NUMBER"):
            yield f"expected {column.name} to be {column.type}, found {kind}"
        if column.nullable and column.name in shape.not_null:
            yield f"expected {column.name} to accept NULL, found NOT NULL"


def _keys(table: Table, shape: Shape, *, rekeyed: bool) -> Iterator[str]:
    if shape.primary_key != table.primary_key and not rekeyed:
        yield f"expected the primary key {_list(table.primary_key)}, found {_list(shape.primary_key)}"
    if table.autoincrement and not shape.autoincrement:
        yield "expected AUTOINCREMENT, found a key whose values may be used twice"
    for columns in table.unique:
        if frozenset(columns) not in shape.unique:
            yield f"expected the columns {_list(columns)} to be unique, found no such key"
    for key in table.foreign_keys:
        if ordered(key) not in shape.foreign_keys:
            yield f"expected the foreign key {_list(key.columns)} to {key.table}{_list(key.references)}, found none"


def _indexes(table: Table, shape: Shape) -> Iterator[str]:
    for index in table.indexes:
        if shape.indexes.get(index.name, index) != index:
            kind = "unique index" if index.unique else "index"
            yield f"expected {index.name} to be an {kind} on {_list(index.columns)}, found another index of that name"


def _list(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)})"
