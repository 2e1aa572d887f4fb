"""The tables of a metric store in SQLite: create them, and delete old rows from them.

Rows are stored by time, not by series. Rows of the same time are then written together, a page or two at a
time, and old rows are deleted as they were stored.
"""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

from towpath import sqlite_file
from towpath.telemetry.rollup import minute_of

CHUNK_ROWS = 20_000
"""Rows deleted in one transaction. It takes a tenth of a second, in which no one can write."""

_TABLES = """
CREATE TABLE IF NOT EXISTS series(
    id INTEGER PRIMARY KEY, entity TEXT NOT NULL, metric TEXT NOT NULL, at REAL NOT NULL, value REAL NOT NULL,
    UNIQUE(entity, metric));
CREATE TABLE IF NOT EXISTS samples(
    at REAL NOT NULL, series INTEGER NOT NULL, value REAL NOT NULL, grown REAL, over_s REAL,
    PRIMARY KEY(at, series)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS minutes(
    at REAL NOT NULL, series INTEGER NOT NULL, sum REAL NOT NULL, count INTEGER NOT NULL, min REAL NOT NULL,
    max REAL NOT NULL, last REAL NOT NULL, grown REAL NOT NULL, over_s REAL NOT NULL,
    PRIMARY KEY(at, series)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bounds(name TEXT PRIMARY KEY, at REAL NOT NULL);
"""
"""`series` has the newest sample of each series.

`samples` has the growth of a counter since the sample before, and in how many seconds. A minute is in
`minutes` as soon as a later one has begun. The bound `samples` is the moment from which on no sample was
deleted."""


def opened(path: Path) -> sqlite3.Connection:
    """Open the file for one writer and create missing tables, see `sqlite_file.opened`."""
    return sqlite_file.opened(path, _TABLES)


def reading(path: Path) -> sqlite3.Connection:
    """Open a connection that sees everything as it was when it began to read."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=sqlite_file.BUSY_S)
    connection.isolation_level = None
    connection.execute("BEGIN")
    return connection


def samples_from(connection: sqlite3.Connection) -> float:
    """Return the moment from which on every sample is kept."""
    row = connection.execute("SELECT at FROM bounds WHERE name = 'samples'").fetchone()
    return row[0] if row else 0.0


def delete_before(connection: sqlite3.Connection, table: str, before: float) -> None:
    """Delete rows from before a moment, the oldest first."""
    while _delete_oldest(connection, table, before):
        pass


def shrink(connection: sqlite3.Connection, max_bytes: int, before: float, recent: float) -> None:
    """Delete rows from before `before` until the rest fits, the oldest first.

    First single samples and then minutes from before the moment `recent` go, and only then newer ones, in the
    same order.
    """
    for end in (min(recent, before), before):
        for table in ("samples", "minutes"):
            while sqlite_file.used_bytes(connection) > max_bytes and _delete_oldest(connection, table, end):
                pass


def delete_from(connection: sqlite3.Connection, begin: float) -> bool:
    """Delete rows from a moment on, which is still to come. Return True if there were any.

    The newest minute that is left has no row afterwards: its samples are to be summed up again.
    """
    with connection:
        if not connection.execute("DELETE FROM samples WHERE at >= ?", (begin,)).rowcount:
            return False
        newest = connection.execute("SELECT max(at) FROM samples").fetchone()[0] or 0.0
        connection.execute("DELETE FROM minutes WHERE at >= ?", (minute_of(newest),))
        connection.execute("UPDATE series SET at = ? WHERE at >= ?", (newest, begin))
    return True


def _delete_oldest(connection: sqlite3.Connection, table: str, before: float) -> bool:
    """Delete some rows, whole moments only. Return True if there were any."""
    with connection:
        row = connection.execute(
            f"SELECT at FROM {table} WHERE at < ? ORDER BY at LIMIT 1 OFFSET {CHUNK_ROWS - 1}", (before,)
        ).fetchone()
        end = math.nextafter(row[0], math.inf) if row else before
        gone = connection.execute(f"DELETE FROM {table} WHERE at < ?", (end,)).rowcount
        if table == "samples" and gone:
            connection.execute("INSERT OR REPLACE INTO bounds VALUES ('samples', ?)", (end,))
    return gone > 0


def forget_empty_series(connection: sqlite3.Connection) -> bool:
    """Delete series that have no rows left. Return True if there were any."""
    with connection:
        kept = "(SELECT min(at) FROM (SELECT min(at) AS at FROM samples UNION SELECT min(at) FROM minutes))"
        return connection.execute(f"DELETE FROM series WHERE at < {kept}").rowcount > 0
