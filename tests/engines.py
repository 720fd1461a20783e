"""The engines that every test of a database runs on, and empty databases on each.

A test that asks for `engine`, or for a fixture that does, runs once for each engine of `--engines`. A PostgreSQL server
is looked for at POSTGRES_URL; where none answers, those tests are skipped, or fail in CI.
"""

import atexit
import itertools
import os
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from attrs import frozen

import storage
from fsm.schema import GATEWAY_SCHEMA, RUNTIME_SCHEMA
from storage.postgres.database import PostgresDatabase
from storage.statements import quoted

__all__ = ["ENGINES", "SERVER", "USUAL", "Engine", "Postgres", "drop", "make_engine", "on_server", "url_of"]

SERVER: Final = os.environ.get("POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
SCHEMAS: Final = (GATEWAY_SCHEMA, RUNTIME_SCHEMA)
_NUMBERS: Final = itertools.count(1)


class Engine(ABC):
    """One engine, for one test: what is asked of it is gone when the test ends."""

    is_server = False

    def __init__(self) -> None:
        self._opened: list[storage.Database] = []

    @abstractmethod
    def location(self) -> str:
        """Return a location at which nothing is yet."""

    def empty(self) -> str:
        """Return a location at which no row is yet, though there may be tables of the gateway."""
        return self.location()

    def open(self, location: str, **options: Any) -> storage.Database:
        """Open a database without synchronising to disk: no test here pulls the plug."""
        handle = storage.open_database(location, **{"synchronous": "normal", **options})
        self._opened.append(handle)
        return handle

    def fresh(self, **options: Any) -> storage.Database:
        """Open a database without rows and let go of the one before, for tests that need many."""
        self.dispose()
        return self.open(self.empty(), **options)

    @abstractmethod
    def spoil(self, location: str, statement: str) -> None:
        """Change a table past the library and past every CHECK of it, as no release of the library would."""

    def dispose(self) -> None:
        """Close what was opened."""
        while self._opened:
            self._opened.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()


class Sqlite(Engine):
    """Files in a directory of the test, and databases in memory where many are needed."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._names = (f"state{number or ''}.db" for number in itertools.count())
        self._directory = directory

    def location(self) -> str:
        """Return the path of a file that is not there."""
        return str(self._directory / next(self._names))

    def empty(self) -> str:
        """Return the path of a file in which the library has made its tables."""
        path = self.location()
        shutil.copyfile(_made_file(), path)
        return path

    def fresh(self, **options: Any) -> storage.Database:
        """Open a database in memory."""
        self.dispose()
        return self.open(":memory:", **options)

    def spoil(self, location: str, statement: str) -> None:
        """Let SQLite ignore its CHECKs."""
        with closing(sqlite3.connect(location, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute(statement)


class Memory(Sqlite):
    """Databases in memory alone, for what must hold of their one connection too."""

    def empty(self) -> str:
        """Return what is another database each time."""
        return self.location()

    def location(self) -> str:
        """Return what is another database each time."""
        return ":memory:"


class Postgres(Engine):
    """Schemas of the server's database; one that is as the library has made it is emptied and used again."""

    is_server = True
    _unused: ClassVar[dict[str, "_Made"]] = {}
    """Empty schemas, as they were made."""

    def __init__(self, isolation: str | None = None) -> None:
        super().__init__()
        self._isolation = isolation
        self._own: list[str] = []
        self._lent: dict[str, _Made] = {}

    def location(self) -> str:
        """Return the URL of a schema that is not there."""
        self._own.append(_new_schema())
        return url_of(self._own[-1], isolation=self._isolation)

    def empty(self) -> str:
        """Return the URL of a schema whose tables are empty, if there are any."""
        _keep_warm(self._isolation)
        schema, made = self._unused.popitem() if self._unused else _made_schema()
        self._lent[schema] = made
        return url_of(schema, isolation=self._isolation)

    def open(self, location: str, **options: Any) -> storage.Database:
        """Open a database; the tables of one that was lent are known to be those of the library."""
        handle = super().open(location, **options)
        if isinstance(handle, PostgresDatabase) and _schema_of(location) in self._lent:
            handle._required.update(SCHEMAS)
        return handle

    def spoil(self, location: str, statement: str) -> None:
        """Drop the CHECKs of the table that is updated first."""
        schema = quoted(_schema_of(location))
        found = "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = %s::regclass"
        verb, table, *_ = statement.split()
        for (name,) in on_server(found, f"{schema}.{table}") if verb == "UPDATE" else ():
            on_server(f"ALTER TABLE {schema}.{table} DROP CONSTRAINT {quoted(name)}")
        on_server(f"SET search_path = {schema}")
        on_server(statement)
        on_server("RESET search_path")

    def dispose(self) -> None:
        """Close what was opened, and drop the schemas that cannot be used again."""
        super().dispose()
        while self._lent:
            schema, made = self._lent.popitem()
            if made.is_left(schema):
                on_server(_clearing(schema))
                self._unused[schema] = made
            else:
                self._own.append(schema)
        while self._own:
            drop(self._own.pop())

    @classmethod
    def finish(cls) -> None:
        """Drop what is left at the end of all tests."""
        while cls._unused:
            drop(cls._unused.popitem()[0])


@cache
def _made_file() -> Path:
    """Return a file with every table of the gateway; copying it is quicker than making them again."""
    path = Path(tempfile.mkdtemp(prefix="gateway-fsm-test-")) / "made.db"
    handle = storage.open_database(path)
    for each in SCHEMAS:
        handle.require(each)
    handle.close()
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    return path


@cache
def _keep_warm(isolation: str | None) -> storage.Database:
    """Keep a handle open all the time, so that the others find connections that have looked around already."""
    return storage.open_database(url_of("no_such_schema", isolation=isolation), read_only=True)


def _new_schema() -> str:
    return f"gateway_fsm_test_{os.getpid()}_{next(_NUMBERS)}"


def drop(schema: str) -> None:
    """Drop a schema and all that is in it."""
    on_server(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE")


def _schema_of(location: str) -> str:
    return dict(parse_qsl(urlsplit(location).query))["search_path"]


@frozen
class _Made:
    """What a schema was when it had the gateway's tables and nothing else."""

    state: str
    objects: frozenset[str]

    @classmethod
    def of(cls, schema: str) -> Self:
        """Remember a schema that was just made."""
        return cls(_state_of(schema), _objects_of(schema))

    def is_left(self, schema: str) -> bool:
        """Say whether nobody has changed the tables, once what a test has put beside them is gone."""
        if _state_of(schema) == self.state:
            return True
        added = [each.partition(" ") for each in _objects_of(schema) - self.objects]
        # A table takes its sequences along, which do not go without it.
        for kind, _, name in sorted(added, key=lambda each: each[0] != "table"):
            on_server(f"DROP {kind} IF EXISTS {name} CASCADE")
        return _state_of(schema) == self.state


def _made_schema() -> tuple[str, _Made]:
    """Return a schema with every table of the gateway, and what it is then."""
    schema = _new_schema()
    handle = storage.open_database(url_of(schema))
    for each in SCHEMAS:
        handle.require(each)
    handle.close()
    return schema, _Made.of(schema)


@cache
def _clearing(schema: str) -> str:
    """Return what deletes every row, in tables as small as these quicker than TRUNCATE, and sets totals to nothing."""
    statements = [f"SET LOCAL search_path = {quoted(schema)}"]
    for each in SCHEMAS:
        totals = [total.kept_in.name for _, total in each.totals]
        for table in reversed(each.tables):
            if table.name not in totals:
                statements.append(f"DELETE FROM {table.name}")
            if table.autoincrement:
                (key,) = table.primary_key
                statements.append(f"SELECT setval(pg_get_serial_sequence('{table.name}', '{key}'), 1, false)")
        statements += [f"UPDATE {name} SET total = 0" for name in dict.fromkeys(totals)]
    return f"BEGIN; {'; '.join(statements)}; COMMIT"


def _state_of(schema: str) -> str:
    """Return what changes with every change of a table, and costs little to ask."""
    ((state,),) = on_server(_STATE, schema)
    return str(state)


def _objects_of(schema: str) -> frozenset[str]:
    """Return the kind and the name of each object in the schema."""
    return frozenset(str(each) for (each,) in on_server(_OBJECTS, schema))


_OBJECTS: Final = """
    SELECT concat(object.type, ' ', object.identity)
    FROM pg_depend CROSS JOIN LATERAL pg_identify_object(classid, objid, 0) AS object
    WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace(%s)
"""
# By way of indexes alone: a server on which many tests have run has long catalogues.
_STATE: Final = """
    WITH objects AS (SELECT array_agg(objid) AS oids FROM pg_depend
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace(%s))
    SELECT concat_ws(' ', (SELECT cardinality(oids) FROM objects),
        (SELECT concat(count(*), ':', max(xmin::text::bigint)) FROM pg_class
            WHERE oid = ANY((SELECT oids FROM objects)::oid[])),
        (SELECT concat(count(*), ':', max(xmin::text::bigint)) FROM pg_index
            WHERE indrelid = ANY((SELECT oids FROM objects)::oid[])),
        (SELECT concat(count(*), ':', max(xmin::text::bigint)) FROM pg_attribute
            WHERE attrelid = ANY((SELECT oids FROM objects)::oid[])),
        (SELECT concat(count(*), ':', max(xmin::text::bigint)) FROM pg_constraint
            WHERE conrelid = ANY((SELECT oids FROM objects)::oid[])),
        (SELECT concat(count(*), ':', max(xmin::text::bigint)) FROM pg_trigger
            WHERE tgrelid = ANY((SELECT oids FROM objects)::oid[])))
"""


def url_of(schema: str, *, isolation: str | None = None, **parameters: object) -> str:
    """Return the URL of a schema on the server of the tests."""
    given = {"search_path": schema, **parameters}
    if isolation is not None:
        given["options"] = f"-c%20default_transaction_isolation%3D{isolation}"
    query = "&".join(f"{name}={value}" for name, value in given.items())
    return f"{SERVER}{'&' if '?' in SERVER else '?'}{query}"


def on_server(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a statement by plain psycopg, as another program would."""
    given = parameters[0] if parameters and isinstance(parameters[0], dict) else parameters or None
    cursor = _connection().execute(statement.encode(), given)
    return cursor.fetchall() if cursor.description else []


@cache
def _connection() -> "psycopg.Connection[tuple[Any, ...]]":
    options = "-c client_min_messages=warning -c synchronous_commit=off"
    return psycopg.connect(SERVER, autocommit=True, options=options)


@cache
def _why_no_server() -> str:
    try:
        psycopg.connect(SERVER, connect_timeout=5).close()
    except psycopg.Error as exc:
        return f"no PostgreSQL server lets the tests in ({type(exc).__name__}); start one, or set POSTGRES_URL"
    return ""


def require_server() -> None:
    """Skip the test where no PostgreSQL server answers; in CI that is a failure."""
    if reason := _why_no_server():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


ENGINES: Final = ("sqlite", "memory", "postgres", "serializable")
USUAL: Final = ("sqlite", "postgres")
"""What a test runs on where the command line names no engine."""


def make_engine(name: str, directory: Path) -> Engine:
    """Return an engine by its name; the last one is PostgreSQL with SERIALIZABLE as the server's default."""
    if name in ("sqlite", "memory"):
        return (Sqlite if name == "sqlite" else Memory)(directory)
    require_server()
    return Postgres("serializable" if name == "serializable" else None)
