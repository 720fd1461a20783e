"""What can go wrong below the lifecycles: one family, so that a caller can tell storage from refusal."""


class StorageError(RuntimeError):
    """The database layer was misused, or failed in a way that no subclass names."""


class ConstraintError(StorageError):
    """A statement would have broken a key, a CHECK, a NOT NULL or a foreign key; the statement changed nothing."""


class OutcomeUnknownError(StorageError):
    """COMMIT failed in a way that hides its fate: the transaction may or may not have been stored.

    The connection is discarded. Ask the database what became of the call before repeating it.
    """


OUTCOME_UNKNOWN = (
    "the commit failed and may or may not have been stored; its connection was discarded. To learn which: make the "
    "same call again where it is one that replays, for an exact retry returns what is stored; else read the record, "
    "as the docstring of the function that was called says"
)


class UnsupportedDatabaseError(StorageError):
    """The database cannot be used as it is: unknown shape, not a database, no engine for it, engine too old."""


class DatabaseUnavailableError(StorageError):
    """The database cannot be reached now: locked too long, missing, unreadable, disk full, read-only."""


class WalResetWarning(UserWarning):
    """The SQLite library in use can lose commits when several connections write and checkpoint one WAL."""
