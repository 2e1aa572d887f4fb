"""Keep the samples of one site on disk: single samples for an hour or more, minutes of them for days."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.metrics import STALE_S, MetricSelection, Sample, Series
from towpath.telemetry import metric_tables as tables
from towpath.telemetry.intervals import AHEAD_S, KEPT_BYTES, KEPT_S, KEPT_SINGLE_S, RETENTION_INTERVAL_S
from towpath.telemetry.metric_reading import newest_moment, points_of
from towpath.telemetry.rollup import Rollup, growth, minute_of, rolled_up
from towpath.telemetry.selection import check_metrics, chooses, is_counter, too_many, unit_of

_MERGE = """
INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    sum = sum + excluded.sum, count = count + excluded.count, min = min(min, excluded.min),
    max = max(max, excluded.max), last = excluded.last, grown = grown + excluded.grown,
    over_s = over_s + excluded.over_s
"""

Row = tuple[float, int, float, float | None, float | None]
"""Moment, series, value. For a counter also its growth since the sample before, and in how many seconds."""


@dataclass
class _Known:
    """A series and its newest sample."""

    number: int
    counts: bool
    at: float
    value: float
    is_new: bool = False
    """True if there was no sample before it."""

    def take(self, sample: Sample) -> Row:
        """Return the row of the next sample."""
        grown = over_s = None
        if self.counts and not self.is_new:
            grown, over_s = growth(self.value, sample.value), sample.at - self.at
        self.at, self.value, self.is_new = sample.at, sample.value, False
        return sample.at, self.number, sample.value, grown, over_s


class MetricStore:
    """The series of one site. Methods block: call them through `asyncio.to_thread`, from any thread.

    The first call opens the file and creates it if necessary. All methods raise `sqlite3.Error` when the disk
    fails. The next call tries again.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = KEPT_BYTES,
        max_age_s: float = KEPT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a store. By `clock`, in Unix seconds, samples older than `max_age_s` are deleted."""
        self.path = path
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._known: dict[tuple[str, str], _Known] = {}
        self._open: dict[tuple[float, int], Rollup] = {}
        """Minute and series → the samples that are not in the table of minutes yet."""
        self._retained_at = -math.inf

    def add(self, samples: Iterable[Sample]) -> None:
        """Keep samples, all or none. After the return they survive a kill of the process.

        A sample that is not newer than the newest of its series is a repetition and is left out. So is one
        that is not a finite number, or is of a time to come.
        """
        with self._lock:
            connection = self._opened()
            fresh = self._fresh(samples)
            if fresh:
                try:
                    with connection:
                        self._store(connection, fresh)
                except BaseException:
                    # Forget also in memory what was not written. The next call reads it from the tables.
                    self._close()
                    raise
            if abs(self._clock() - self._retained_at) >= RETENTION_INTERVAL_S:  # A clock may be set back.
                self._retain(connection)

    def read(self, selection: MetricSelection, site: str) -> list[Series]:
        """Return a selection's series by entity and metric, without those that have no point in its time.

        Raises `TowpathError` (invalid) for an impossible metric, or for more points than the limit.
        """
        check_metrics(selection.metrics)
        chosen = chooses(selection)
        with self._lock:
            self._opened()
            known = {k.number: key for key, k in self._known.items() if chosen(*key)}
            from_then = -math.inf if selection.stale else self._clock() - STALE_S
            newest = {
                k.number: [(k.at, k.value)]
                for k in self._known.values()
                if k.number in known and k.at >= from_then
            }
        by_minute_until: dict[int, float] = {}
        if selection.since is None:
            if len(newest) > selection.limit:
                raise too_many(selection, len(newest), 0.0, 0.0)
            found = newest
        else:
            with contextlib.closing(tables.reading(self.path)) as connection:
                found, by_minute_until = points_of(connection, selection, known)
        return [
            Series(
                site=site,
                entity=entity,
                metric=metric,
                unit=unit_of(metric),
                points=found[number],
                by_minute_until=by_minute_until.get(number),
            )
            for number, (entity, metric) in sorted(known.items(), key=lambda item: item[1])
            if number in found
        ]

    def retain(self) -> None:
        """Delete what is too old or too much. `add` calls it at times."""
        with self._lock:
            self._retain(self._opened())

    def close(self) -> None:
        """Close the file. A later call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = tables.opened(self.path)
            self._restore(connection)
            self._connection = connection
        return self._connection

    def _restore(self, connection: sqlite3.Connection) -> None:
        """Read from the tables what this object must know of them, after a kill or a failed write."""
        rows = connection.execute("SELECT id, entity, metric, at, value FROM series")
        self._known = {
            (entity, metric): _Known(number, is_counter(metric), at, value)
            for number, entity, metric, at, value in rows
        }
        self._open = {}
        minute = minute_of(newest_moment(connection) or 0.0)
        samples = "SELECT at, series, value, grown, over_s FROM samples WHERE at >= ? ORDER BY at"
        for row in connection.execute(samples, (minute,)):
            self._roll_up(row)

    def _fresh(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples that are new, by time."""
        newest = {key: known.at for key, known in self._known.items()}
        latest = self._clock() + AHEAD_S
        fresh: list[Sample] = []
        for sample in sorted(samples, key=lambda sample: sample.at):
            key = sample.entity, sample.metric
            if newest.get(key, 0.0) < sample.at <= latest and math.isfinite(sample.value):
                newest[key] = sample.at
                fresh.append(sample)
        return fresh

    def _store(self, connection: sqlite3.Connection, fresh: list[Sample]) -> None:
        taken = [(known := self._series(connection, s), known.take(s)) for s in fresh]
        rows = [row for _, row in taken]
        connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", rows)
        for row in rows:
            self._roll_up(row)
        newest = {known.number: (known.at, known.value, known.number) for known, _ in taken}
        connection.executemany("UPDATE series SET at = ?, value = ? WHERE id = ?", newest.values())
        # A minute is whole when a later one has begun. Invariant: the table holds all minutes before that of
        # the newest sample, and no others. So `_restore` knows which samples are not summed up yet.
        minute = minute_of(newest_moment(connection) or 0.0)
        whole = [key for key in self._open if key[0] < minute]
        connection.executemany(_MERGE, [(*key, *self._open.pop(key).values()) for key in whole])

    def _series(self, connection: sqlite3.Connection, sample: Sample) -> _Known:
        known = self._known.get((sample.entity, sample.metric))
        if known is None:
            number = connection.execute(
                "INSERT INTO series(entity, metric, at, value) VALUES (?, ?, ?, ?) RETURNING id",
                (sample.entity, sample.metric, sample.at, sample.value),
            ).fetchone()[0]
            known = _Known(number, is_counter(sample.metric), sample.at, sample.value, is_new=True)
            self._known[sample.entity, sample.metric] = known
        return known

    def _roll_up(self, row: Row) -> None:
        at, number, value, grown, over_s = row
        key = minute_of(at), number
        self._open[key] = rolled_up(self._open.get(key), Rollup.of(value, grown or 0.0, over_s or 0.0))

    def _retain(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        self._retained_at = now
        # The clock was ahead when they were taken. They would stay the newest until it comes so far again.
        if tables.delete_from(connection, now + AHEAD_S):
            self._restore(connection)
        # The newest minute stays at any age, because its samples are not summed up yet.
        newest = minute_of(newest_moment(connection) or 0.0)
        oldest = min(minute_of(now - self._max_age_s), newest)
        for table in ("samples", "minutes"):
            tables.delete_before(connection, table, oldest)
        tables.shrink(connection, self._max_bytes, newest, newest - KEPT_SINGLE_S)
        if tables.forget_empty_series(connection):
            self._restore(connection)
