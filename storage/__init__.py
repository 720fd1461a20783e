"""Databases below the lifecycles: engines, transactions, tables as data, validation of what is stored."""

from storage.canonical import canonical_json, decode_json
from storage.errors import (
    ConstraintError,
    DatabaseUnavailableError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedDatabaseError,
    WalResetWarning,
)
from storage.opening import open_database, random_id, read_snapshot, resolve
from storage.port import Database, Location, Parameters, Row, Transaction, Value
from storage.schema import Column, ForeignKey, Index, Schema, Table
from storage.validate import choice, flag, identifier, instance, integer, number, reading, record, text

__all__ = [
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
    "Transaction",
    "UnsupportedDatabaseError",
    "Value",
    "WalResetWarning",
    "canonical_json",
    "choice",
    "decode_json",
    "flag",
    "identifier",
    "instance",
    "integer",
    "number",
    "open_database",
    "random_id",
    "read_snapshot",
    "reading",
    "record",
    "resolve",
    "text",
]
