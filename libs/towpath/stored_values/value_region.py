"""A part of a store with a bound of its own: the history on disk, or the transient values in memory.

Rows lie by series and then by time, so that a day of one metric is read in one sweep.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson

from towpath import sqlite_file
from towpath.stored_values.stored_value import About, Name

_TABLES = """
CREATE TABLE IF NOT EXISTS series(
    id INTEGER PRIMARY KEY, entity TEXT NOT NULL, metric TEXT NOT NULL, about TEXT NOT NULL,
    UNIQUE(entity, metric));
CREATE TABLE IF NOT EXISTS history(
    series INTEGER NOT NULL, at REAL NOT NULL, value REAL NOT NULL, minute INTEGER NOT NULL,
    PRIMARY KEY(series, at)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_minute ON history(minute);
CREATE TABLE IF NOT EXISTS progress(stream TEXT PRIMARY KEY, serial INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sources(
    stream TEXT PRIMARY KEY, whole_from REAL NOT NULL, minute INTEGER NOT NULL);
INSERT OR IGNORE INTO sources
    SELECT stream, strftime('%s', 'now'), strftime('%s', 'now') / 60 FROM progress;
"""
"""`minute` is when a value came, Unix time: it is kept from then on, however old it was.

`progress` has the newest event of each stream whose values are in `history`. `sources` has the Unix time from
which on all its events were taken in, 0 if none is missing, and when the newest came. A file that was written
before there were sources says nothing of the time before.
"""

_PART = 10
"""A tenth of the values goes at once, when there are too many of one minute."""

Point = tuple[float, float]
"""Unix seconds and value."""


class Region:
    """Series with their values. Methods block, and are for one thread at a time.

    They raise `sqlite3.Error` when the disk fails.
    """

    def __init__(self, path: Path | str, max_bytes: int) -> None:
        """Open the file; `:memory:` is none."""
        self._connection = sqlite_file.opened(path, _TABLES)
        self._max_bytes = max_bytes
        self.series: dict[Name, int] = {}
        self.about: dict[Name, About] = {}
        try:
            for number, entity, metric, about in self._connection.execute("SELECT * FROM series"):
                self.series[entity, metric] = number
                self.about[entity, metric] = About(**orjson.loads(about))
        except sqlite3.Error:
            self.close()
            raise

    def add(
        self,
        rows: Iterable[tuple[Name, Point]],
        about: Mapping[Name, About],
        progress: Mapping[str, int],
        now: float,
        after_gap: Mapping[str, float],
    ) -> None:
        """Keep values, and how far streams were read, all or none. A value of the same time is replaced.

        `now`, Unix seconds, is when they came. A stream that lost events before these is in `after_gap`, with
        the time at which the first of these was stored.
        """
        minute = int(now // 60)
        try:
            with self._connection:
                for name, known in about.items():
                    self._describe(name, known)
                self._connection.executemany(
                    "INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)",
                    [(self.series[name], at, value, minute) for name, (at, value) in rows],
                )
                self._connection.executemany(
                    "INSERT OR REPLACE INTO progress VALUES (?, ?)", progress.items()
                )
                self._connection.executemany(
                    "INSERT INTO sources VALUES (?1, ifnull(?2, 0), ?3) ON CONFLICT DO UPDATE "
                    "SET whole_from = max(whole_from, excluded.whole_from), minute = excluded.minute",
                    [(stream, after_gap.get(stream), minute) for stream in progress],
                )
        except BaseException:
            self._forget_unwritten()
            raise

    def progress(self, stream: str) -> int:
        """Return the serial number of a stream up to which values are kept; 0 at first."""
        row = self._connection.execute("SELECT serial FROM progress WHERE stream = ?", (stream,)).fetchone()
        return row[0] if row else 0

    def sources(self) -> dict[str, tuple[float, float]]:
        """Return the streams: Unix times from which on nothing is missing, and when the newest value came."""
        rows = self._connection.execute("SELECT stream, whole_from, minute * 60.0 FROM sources")
        return {stream: (whole_from, came) for stream, whole_from, came in rows}

    def newest(self, name: Name) -> Point | None:
        """Return the newest value of a series."""
        found = self._connection.execute(
            "SELECT at, value FROM history WHERE series = ? ORDER BY at DESC LIMIT 1", (self.series[name],)
        ).fetchone()
        return found

    def points(self, name: Name, begin: float, end: float, limit: int) -> list[Point]:
        """Return up to `limit` values of a time, half open, the oldest first."""
        return self._connection.execute(
            "SELECT at, value FROM history WHERE series = ? AND at >= ? AND at < ? ORDER BY at LIMIT ?",
            (self.series.get(name), begin, end, limit),
        ).fetchall()

    def summary(self, name: Name, begin: float, end: float) -> tuple[int, float, float, float] | None:
        """Return count, sum, least and greatest value of a time; None if there is no value."""
        found = self._connection.execute(
            "SELECT count(*), sum(value), min(value), max(value) FROM history "
            "WHERE series = ? AND at >= ? AND at < ?",
            (self.series.get(name), begin, end),
        ).fetchone()
        return found if found[0] else None

    def trim(self, before: float) -> Sequence[Name]:
        """Delete what came before a moment, and more if it does not fit. Return series that are gone."""
        self._delete(int(before // 60))
        while sqlite_file.used_bytes(self._connection) > self._max_bytes:
            oldest, newest = self._connection.execute(
                "SELECT min(minute), max(minute) FROM history"
            ).fetchone()
            if oldest is None:
                break
            kept_from = oldest + max((newest - oldest) // _PART, 1)
            if oldest < newest:
                self._delete(kept_from)
            else:
                self._thin_out()
            with self._connection:
                # What comes to a copy has come to its owner before.
                self._connection.execute(
                    "UPDATE sources SET whole_from = max(whole_from, ? * 60)", (kept_from,)
                )
        gone = [name for name in self.series if self.newest(name) is None]
        with self._connection:
            for name in gone:
                self._connection.execute("DELETE FROM series WHERE id = ?", (self.series.pop(name),))
                self.about.pop(name, None)
        return gone

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _describe(self, name: Name, about: About) -> None:
        if name in self.series and self.about.get(name) == about:
            return
        self._connection.execute(
            "INSERT INTO series(entity, metric, about) VALUES (?, ?, ?) "
            "ON CONFLICT(entity, metric) DO UPDATE SET about = excluded.about",
            (*name, orjson.dumps(about).decode()),
        )
        row = self._connection.execute(
            "SELECT id FROM series WHERE entity = ? AND metric = ?", name
        ).fetchone()
        self.series[name], self.about[name] = row[0], about

    def _delete(self, before_minute: int) -> None:
        with self._connection:
            self._connection.execute("DELETE FROM history WHERE minute < ?", (before_minute,))

    def _thin_out(self) -> None:
        """Delete the oldest part of each series."""
        with self._connection:
            for number in self.series.values():
                self._connection.execute(
                    "DELETE FROM history WHERE series = ?1 AND at <= (SELECT at FROM history "
                    "WHERE series = ?1 ORDER BY at LIMIT 1 "
                    f"OFFSET (SELECT count(*) / {_PART} FROM history WHERE series = ?1))",
                    (number,),
                )

    def _forget_unwritten(self) -> None:
        """Forget series that a failed transaction would have made."""
        known = {
            (entity, metric)
            for entity, metric in self._connection.execute("SELECT entity, metric FROM series")
        }
        for name in [name for name in self.series if name not in known]:
            del self.series[name]
            self.about.pop(name, None)
