"""The shape of an existing SQLite table, read from the database's own catalogue."""

from collections import defaultdict

from storage.errors import StorageError, UnsupportedDatabaseError
from storage.judge import Shape, ordered
from storage.port import Row, Transaction, Value
from storage.schema import Column, ForeignKey, Index, Table
from storage.sqlite.statement_text import Check, checks, has_word
from storage.statements import quoted


def read_shape(transaction: Transaction, table: Table) -> Shape | None:
    """Read the shape of a declared table, None where nothing has its name.

    Raises:
        UnsupportedDatabaseError: a CHECK of the table cannot be evaluated.
    """
    create = creating_text(transaction, table.name)
    if create is None:
        return None
    columns = transaction.execute(
        'SELECT name, type, "notnull", pk FROM pragma_table_xinfo(:name) ORDER BY pk', {"name": table.name}
    )
    names = frozenset(str(row["name"]).lower() for row in columns)
    accepted = {
        column.name: _accepted(transaction, found, column)
        for column in table.columns
        if column.one_of and (found := limiting_checks(create, column, names))
    }
    primary_key = tuple(str(row["name"]) for row in columns if row["pk"])
    return Shape(
        kinds={str(row["name"]): _kind(str(row["type"]).upper()) for row in columns},
        not_null=frozenset(str(row["name"]) for row in columns if row["notnull"]),
        primary_key=primary_key,
        unique=_unique(transaction, table.name) | {frozenset(primary_key)},
        foreign_keys=_foreign_keys(transaction, table.name),
        indexes=_indexes(transaction, table),
        accepted=accepted,
        autoincrement=has_word(create, "AUTOINCREMENT"),
    )


def creating_text(transaction: Transaction, name: str) -> str | None:
    """Return the statement that made a table or view, None where there is none."""
    rows = transaction.execute(
        "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name = :name COLLATE NOCASE", {"name": name}
    )
    return str(rows[0]["sql"]) if rows else None


def limiting_checks(create: str, column: Column, names: frozenset[str]) -> list[Check]:
    """Return the CHECKs that speak of this column alone; `names` are the table's columns in lower case."""
    return [check for check in checks(create) if check.names & names == {column.name.lower()}]


def _accepted(transaction: Transaction, found: list[Check], column: Column) -> frozenset[str]:
    """Try each declared value and each one that the CHECKs spell out, and return those that all of them accept."""
    condition = " AND ".join(f"({check.expression}\n)" for check in found)
    sql = f"SELECT ({condition}) IS NOT 0 AS accepted FROM (SELECT :value AS {quoted(column.name)})"
    candidates = {*column.one_of, *(text for check in found for text in check.literals)}
    try:
        return frozenset(value for value in candidates if transaction.execute(sql, {"value": value})[0]["accepted"])
    except StorageError as exc:
        raise UnsupportedDatabaseError(
            f"expected a CHECK on {column.name} that lists its values, found one that cannot be evaluated; "
            "rebuild the table with a plain list"
        ) from exc


def _kind(declared: str) -> str:
    # The order of SQLite's own rules of affinity.
    if "INT" in declared:
        return "NUMBER"
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    return "ANY" if not declared or "BLOB" in declared else "NUMBER"


def _unique(transaction: Transaction, name: str) -> frozenset[frozenset[str]]:
    rows = transaction.execute(
        "SELECT list.name AS key, info.name AS part FROM pragma_index_list(:name) AS list "
        'JOIN pragma_index_info(list.name) AS info WHERE list."unique" AND NOT list.partial',
        {"name": name},
    )
    keys = defaultdict(set)
    for row in rows:
        # An expression has no name; what stands in for it equals no column.
        keys[row["key"]].add(str(row["part"] or "(expression)"))
    return frozenset(frozenset(parts) for parts in keys.values())


def _foreign_keys(transaction: Transaction, name: str) -> frozenset[ForeignKey]:
    rows = transaction.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(:name) ORDER BY id, seq', {"name": name}
    )
    keys = defaultdict(list)
    for row in rows:
        keys[row["id"], str(row["table"])].append((str(row["from"]), row["to"]))
    return frozenset(_foreign_key(transaction, table, pairs) for (_, table), pairs in keys.items())


def _foreign_key(transaction: Transaction, table: str, pairs: list[tuple[str, Value]]) -> ForeignKey:
    columns = tuple(pair[0] for pair in pairs)
    references = tuple(str(pair[1]) for pair in pairs)
    if any(pair[1] is None for pair in pairs):
        # REFERENCES without columns means the other table's primary key.
        rows = transaction.execute(
            "SELECT name FROM pragma_table_info(:name) WHERE pk > 0 ORDER BY pk", {"name": table}
        )
        references = tuple(str(row["name"]) for row in rows)
    if len(references) != len(columns):
        return ForeignKey(columns, table, references)
    return ordered(ForeignKey(columns, table, references))


def _indexes(transaction: Transaction, table: Table) -> dict[str, Index | None]:
    found = {}
    for index in table.indexes:
        rows = transaction.execute(
            "SELECT tbl_name, name FROM sqlite_master WHERE type = 'index' AND name = :name COLLATE NOCASE",
            {"name": index.name},
        )
        if rows:
            found[index.name] = _index(transaction, str(rows[0]["tbl_name"]), index) if _on(table, rows[0]) else None
    return found


def _on(table: Table, row: Row) -> bool:
    return str(row["tbl_name"]).lower() == table.name.lower()


def _index(transaction: Transaction, table: str, index: Index) -> Index | None:
    parts = transaction.execute("SELECT name FROM pragma_index_info(:name) ORDER BY seqno", {"name": index.name})
    rows = transaction.execute(
        'SELECT "unique", partial FROM pragma_index_list(:name) WHERE name = :index COLLATE NOCASE',
        {"name": table, "index": index.name},
    )
    if not rows or rows[0]["partial"]:
        return None
    return Index(index.name, tuple(str(part["name"]) for part in parts), bool(rows[0]["unique"]))
