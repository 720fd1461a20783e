"""Tables as plain data. Engines derive from it what they create and what they accept as already there."""

from typing import Literal, TypeAlias

from attrs import frozen

ColumnType: TypeAlias = Literal["TEXT", "INTEGER", "REAL"]


@frozen
class Column:
    """One column. `minimum` and `one_of` become CHECK constraints that let NULL pass where it is allowed."""

    name: str
    type: ColumnType
    nullable: bool = False
    default: int | str | None = None
    minimum: int | None = None
    one_of: tuple[str, ...] = ()


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
class Table:
    """One table. An existing one must have exactly these columns when `exact`, at least these otherwise.

    `autoincrement` asks for a single INTEGER key whose values are never used twice.
    """

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    indexes: tuple[Index, ...] = ()
    exact: bool = False
    autoincrement: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse keys and indexes over columns that the table does not declare.

        Raises:
            ValueError: a name is undeclared, or `autoincrement` has no single INTEGER key.
        """
        types = {column.name: column.type for column in self.columns}
        keys = (self.primary_key, *self.unique, *(key.columns for key in self.foreign_keys))
        used = {name for key in keys for name in key} | {name for index in self.indexes for name in index.columns}
        if unknown := sorted(used - types.keys()):
            raise ValueError(
                f"table {self.name}: keys and indexes name undeclared columns {', '.join(unknown)}; declare them"
            )
        if self.autoincrement and [types[name] for name in self.primary_key] != ["INTEGER"]:
            raise ValueError(f"table {self.name}: autoincrement needs a primary key of one INTEGER column")


@frozen(cache_hash=True)
class Schema:
    """A named set of tables, in the order in which they are created."""

    name: str
    tables: tuple[Table, ...]
