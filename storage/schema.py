"""Tables as plain data. Engines derive from it what they create and what they accept as already there."""

from typing import Literal, TypeAlias

from attrs import frozen

ColumnType: TypeAlias = Literal["TEXT", "INTEGER", "REAL"]


@frozen
class Added:
    """What the rows of an older table get in a column that it lacks."""

    value: int | str | None = None


@frozen
class Column:
    """One column. `minimum` and `one_of` become CHECK constraints that let NULL pass where it is allowed.

    A table without the column is an older shape, which is amended, where `added` says what its rows get there.
    """

    name: str
    type: ColumnType
    nullable: bool = False
    default: int | str | None = None
    minimum: int | None = None
    one_of: tuple[str, ...] = ()
    added: Added | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse to give rows of an older table a NULL that the column does not take.

        Raises:
            ValueError: `added` has no value, and the column is not nullable.
        """
        if self.added is not None and self.added.value is None and not self.nullable:
            raise ValueError(f"column {self.name}: rows of an older table need a value there; give one, or allow NULL")


@frozen
class ForeignKey:
    """Columns whose values must be a key (`references`) of another table."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@frozen
class Index:
    """A named index over columns, in their order."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False


@frozen
class Total:
    """A sum over all rows of the table that declares it, which the database itself keeps, whoever writes the rows.

    It stands in the row `name` of the table `kept_in`, in its column `total`: the sum of `column`, or how many rows
    there are without one; where `while_null` names a column, only the rows count in which that is NULL. A reader needs
    no scan, and a writer who locks that row has the sum to itself until its transaction ends.
    """

    name: str
    kept_in: "Table"
    column: str | None = None
    while_null: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the declaring table that the sum depends on."""
        return tuple(name for name in (self.column, self.while_null) if name is not None)


@frozen
class Table:
    """One table. An existing one must have exactly these columns when `exact`, at least these otherwise.

    `autoincrement` asks for a single INTEGER key whose values are never used twice. A table with any other primary key
    is an older shape where it is `rekeyed`: it gets this one, and of the rows that this one does not tell apart the
    first is kept.
    """

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    indexes: tuple[Index, ...] = ()
    exact: bool = False
    autoincrement: bool = False
    rekeyed: bool = False
    totals: tuple[Total, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse keys, indexes and totals over columns that the table does not declare.

        Raises:
            ValueError: a name is undeclared, `autoincrement` has no single INTEGER key, or a total is kept in a table
                without the columns `name`, its key, and `total`.
        """
        types = {column.name: column.type for column in self.columns}
        keys = (self.primary_key, *self.unique, *(key.columns for key in self.foreign_keys))
        listed = (*(index.columns for index in self.indexes), *(total.columns for total in self.totals))
        used = {name for key in (*keys, *listed) for name in key}
        if unknown := sorted(used - types.keys()):
            raise ValueError(
                f"table {self.name}: keys, indexes and totals name undeclared columns {', '.join(unknown)}; "
                "declare them"
            )
        if unfit := [total.kept_in.name for total in self.totals if not _keeps_totals(total.kept_in)]:
            raise ValueError(
                f"table {self.name}: {unfit[0]} cannot keep a total; give it the TEXT key name and the INTEGER total"
            )
        if self.autoincrement and [types[name] for name in self.primary_key] != ["INTEGER"]:
            raise ValueError(f"table {self.name}: autoincrement needs a primary key of one INTEGER column")


def _keeps_totals(table: Table) -> bool:
    types = {column.name: column.type for column in table.columns}
    return types == {"name": "TEXT", "total": "INTEGER"} and table.primary_key == ("name",)


@frozen
class Backfill:
    """A statement by which a migration fills in what an older database did not store, once its tables have their shape.

    It runs where the migration has added the column `after` (table, column), and without one in every migration: then
    it must do no harm when it is run again.
    """

    statement: str
    after: tuple[str, str] | None = None


@frozen(cache_hash=True)
class Schema:
    """A named set of tables, in the order in which they are created, and what a migration fills in, in its order."""

    name: str
    tables: tuple[Table, ...]
    backfills: tuple[Backfill, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse a backfill that would never run, and totals that have no place, or share one.

        Raises:
            ValueError: a backfill waits for a column that no table has, or that no older table may lack; the table
                that keeps a total is not in the schema, or two totals have one name there.
        """
        added = {(table.name, column.name) for table in self.tables for column in table.columns if column.added}
        for backfill in self.backfills:
            if backfill.after is not None and backfill.after not in added:
                raise ValueError(
                    f"schema {self.name}: a backfill waits for {'.'.join(backfill.after)}, which no migration adds;"
                    " name a column that has `added`"
                )
        kept = [(total.kept_in.name, total.name) for _, total in self.totals]
        if lost := sorted({table for table, _ in kept} - {table.name for table in self.tables}):
            raise ValueError(f"schema {self.name}: totals are kept in {', '.join(lost)}, which it lacks; add the table")
        if len(set(kept)) != len(kept):
            raise ValueError(f"schema {self.name}: two totals have one name in one table; rename one of them")

    @property
    def totals(self) -> tuple[tuple[Table, Total], ...]:
        """Every total with the table that declares it."""
        return tuple((table, total) for table in self.tables for total in table.totals)
