"""Databases below the lifecycles: engines, transactions, tables as data, validation of what is stored.

An operation sees the port alone (`storage.port`): `Database` and `Transaction`, whose docstrings say what is promised,
the isolation first. Which engine stands behind a handle is decided by its location, and by nothing else.

To add an engine, say `mysql`:

1. Write the module or package `storage/mysql`. A URL's scheme names it: `mysql://...` imports `storage.mysql` and asks
   its `ENGINE` (`storage.engine.Engine`) for the name of the database that the URL means, and for a handle on it.
2. The handle is a `storage.engine.Handle`, its transactions a `storage.transacting.EngineTransaction`, which has marks,
   actions and ends already. They run statements with `:name` placeholders (`storage.statements` translates), lock what
   `lock` and `lock_name` are handed (`locks_rows` says that this is needed), tell a lost race from a failure and a
   refused commit from an unknown one.
3. Tables: a `storage.creating.Dialect` spells the three column types, and a `storage.migrating.Migrator` reads the
   shape of existing tables as `storage.judge.Shape`; what is missing or outdated follows from these.
4. Name it in the fixture (`USUAL`, `ENGINES` and `make_engine` in `tests/engines.py`): every test of a database then
   runs on it, and what it gets wrong shows. Its driver becomes an extra of that name in `pyproject.toml`.

Nothing in `fsm` and no other file of this package changes.
"""

from storage.canonical import canonical_json, decode_json
from storage.engine import random_id
from storage.errors import (
    ConstraintError,
    DatabaseUnavailableError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedDatabaseError,
    WalResetWarning,
)
from storage.opening import clock_of, open_database, probe, read_snapshot, resolve
from storage.port import Database, Location, Parameters, Row, Transaction, Value
from storage.schema import Added, Backfill, Column, ForeignKey, Index, Schema, Table, Total
from storage.totals import WrongTotal, wrong_totals
from storage.validate import choice, flag, identifier, instance, integer, number, reading, record, text

__all__ = [
    "Added",
    "Backfill",
    "Column",
    "ConstraintError",
    "Database",
    "DatabaseUnavailableError",
    "ForeignKey",
    "Index",
    "Location",
    "OutcomeUnknownError",
    "Parameters",
    "Row",
    "Schema",
    "StorageError",
    "Table",
    "Total",
    "Transaction",
    "UnsupportedDatabaseError",
    "Value",
    "WalResetWarning",
    "WrongTotal",
    "canonical_json",
    "choice",
    "clock_of",
    "decode_json",
    "flag",
    "identifier",
    "instance",
    "integer",
    "number",
    "open_database",
    "probe",
    "random_id",
    "read_snapshot",
    "reading",
    "record",
    "resolve",
    "text",
    "wrong_totals",
]
