"""Connections that a forked child inherits: closing one would drop the parent's locks and checkpoint its WAL."""

import ctypes
import sqlite3


def keep_for_ever(connection: sqlite3.Connection) -> None:
    """Make sure that this connection is never finalized in this process, not even at its exit."""
    # A reference from Python ends when the interpreter tears its modules down; this count is never given back.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
