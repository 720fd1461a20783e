"""The PostgreSQL engine, on psycopg 3 and its pool: for gateways on many machines that share one database.

A write transaction is READ COMMITTED, or what the server's default is where that is stricter. Nothing lives in a
session but the connection itself: settings are SET LOCAL and locks end with their transaction, so that a pooler may
hand each transaction another connection.
"""

from storage.postgres.engine import ENGINE

__all__ = ["ENGINE"]
