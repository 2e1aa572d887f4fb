"""Open a file of SQLite for one writer, in a way that survives a kill of the process at any moment."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)

BUSY_S = 5.0
"""Time to wait for another process's transaction, such as that of a process that is being replaced."""

JOURNAL_BYTES = 4 * 1024**2
"""Size to which the write-ahead log shrinks after a checkpoint."""


def opened(path: Path | str, tables: str) -> sqlite3.Connection:
    """Open the file and create missing `tables`. Put a damaged file aside.

    Committed rows survive a kill of the process at any moment. `:memory:` is a file that no one else sees.
    Raises `sqlite3.OperationalError` when the disk fails.
    """
    return undamaged(Path(path), lambda: _connect(path, tables))


def undamaged(path: Path, read: Callable[[], T]) -> T:
    """Return what `read` returns, which opens the file. If that is damaged, put it aside and read a new one.

    `read` closes the file again when it fails. Raises `sqlite3.OperationalError` when the disk fails.
    """
    try:
        return read()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        _put_aside(path, error)
        return read()


def _put_aside(path: Path, error: sqlite3.DatabaseError) -> None:
    """Rename a damaged file, so that a new one begins in its place."""
    log.error("%s is damaged. A new file begins: %s", path, error)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.replace(path.with_name(f"{path.name}.damaged"))


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes in use. Free pages do not count: they are used before the file grows."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _connect(path: Path | str, tables: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
        connection.executescript(tables)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
