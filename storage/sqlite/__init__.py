"""The SQLite engine, on the standard library's sqlite3 alone: a second copy of SQLite would break file locks."""
