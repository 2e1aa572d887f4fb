"""The values of one site: newest ones in memory, history on disk, transient ones in memory only."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from towpath import sqlite_file
from towpath.contracts.storage import (
    StorageSpec,
    ValueSelection,
    ValueSeries,
    ValueSeriesList,
    ValueSummary,
    Wanted,
)
from towpath.stored_values.selecting import chosen_names, joined_summary, thinned, too_many_values
from towpath.stored_values.stored_value import NOTHING, About, Name, StoredValue
from towpath.stored_values.value_region import Point, Region
from towpath.telemetry.rollup import MINUTE_S
from towpath.telemetry.selection import matches

MEBIBYTE = 1024**2
TRIM_INTERVAL_S = 60.0


class ValueStore:
    """The series of one site. Methods block: call them through `asyncio.to_thread`, from any thread.

    They raise `sqlite3.Error` when the disk fails. The newest values are then still there.
    """

    def __init__(
        self, site: str, path: Path, spec: StorageSpec, clock: Callable[[], float] = time.time
    ) -> None:
        """Open the store. By `clock`, in Unix seconds, values go `spec.kept_h` after they came."""
        self._site = site
        self._kept_s = spec.kept_h * 3600
        self._clock = clock
        self._lock = threading.Lock()
        self._disk, self._latest = sqlite_file.undamaged(path, lambda: _opened(path, spec.disk_mb * MEBIBYTE))
        self._memory = Region(":memory:", spec.memory_mb * MEBIBYTE)
        self._trimmed_at = -math.inf

    def add(
        self,
        values: Sequence[StoredValue],
        progress: Mapping[str, int] | None = None,
        after_gap: Mapping[str, float] | None = None,
    ) -> None:
        """Take in values. `progress` has the serial number up to which a stream's values are in here, then.

        What is read again after a failure replaces itself. Of a stream that lost events before these,
        `after_gap` has the Unix time at which the first of these was stored.
        """
        with self._lock:
            # The newest first: they can be read while the disk is at work.
            for value in values:
                name = (value.entity, value.metric)
                known = self._latest.get(name)
                if known is None or value.at >= known[0]:
                    self._latest[name] = (value.at, value.value)
            kept = [value for value in values if not value.is_transient]
            self._write(self._memory, [value for value in values if value.is_transient], {}, {})
            self._write(self._disk, kept, progress or {}, after_gap or {})
            if abs(self._clock() - self._trimmed_at) >= TRIM_INTERVAL_S:  # A clock may be set back.
                self._trim()

    def progress(self, stream: str) -> int:
        """Return the serial number up to which a stream's values are in here."""
        with self._lock:
            return self._disk.progress(stream)

    def sources(self) -> dict[str, float]:
        """Return the streams from which values may be kept, with the Unix time at which the newest came."""
        with self._lock:
            found = self._disk.sources()
        begin = self._clock() - self._kept_s
        return {stream: came for stream, (_, came) in found.items() if came + MINUTE_S > begin}

    def is_whole(self, sources: Mapping[str, float], since: datetime | None) -> bool:
        """Return True if it has all values from then on that an owner has, whose `sources` these are."""
        with self._lock:
            found = self._disk.sources()
        begin = self._clock() - self._kept_s
        if since is not None:
            begin = max(begin, since.timestamp())
        return all(
            came + MINUTE_S <= begin or (stream in found and found[stream][0] <= begin)
            for stream, came in sources.items()
        )

    def read(self, selection: ValueSelection, share: float = 1.0) -> ValueSeriesList:
        """Return what a selection asks for; of a range, this share of each series.

        Raises `TowpathError` (invalid) for more values than its limit.
        """
        with self._lock:
            names = [name for name in chosen_names(selection, self._latest) if self._is_of(name, selection)]
            if selection.wanted is Wanted.LATEST and len(names) > selection.limit:
                raise too_many_values(selection)
            series = [*self._series(names, selection, share)]
        if selection.wanted is not Wanted.AGGREGATE:
            return ValueSeriesList(series=series)
        return ValueSeriesList(series=series, summary=joined_summary(each.summary for each in series))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._disk.close()
            self._memory.close()

    def _series(
        self, names: Iterable[Name], selection: ValueSelection, share: float
    ) -> Iterator[ValueSeries]:
        begin = -math.inf if selection.since is None else selection.since.timestamp()
        end = math.inf if selection.until is None else selection.until.timestamp()
        left = selection.limit
        for name in names:
            match selection.wanted:
                case Wanted.LIST:
                    yield self._described(name)
                case Wanted.LATEST:
                    yield self._described(name, points=[self._latest[name]])
                case Wanted.RANGE:
                    enough = math.ceil((left + 1) / share)
                    points = thinned(self._region(name).points(name, begin, end, enough), share)
                    left -= len(points)
                    if left < 0:
                        raise too_many_values(selection)
                    if points:
                        yield self._described(name, points=points)
                case Wanted.AGGREGATE:
                    if (found := self._region(name).summary(name, begin, end)) is not None:
                        count, total, least, greatest = found
                        summary = ValueSummary(count=count, sum=total, min=least, max=greatest)
                        yield self._described(name, summary=summary)

    def _described(
        self, name: Name, points: list[Point] | None = None, summary: ValueSummary | None = None
    ) -> ValueSeries:
        entity, metric = name
        about = self._about(name)
        # Without a check of each of some ten thousand points, which come from here.
        return ValueSeries.model_construct(
            site=self._site,
            entity=entity,
            metric=metric,
            unit=about.unit,
            group=about.group,
            description=about.description,
            labels={**about.labels},
            transient=name not in self._disk.series,
            points=points or [],
            summary=summary,
        )

    def _is_of(self, name: Name, selection: ValueSelection) -> bool:
        return matches(self._about(name).group, selection.groups)

    def _about(self, name: Name) -> About:
        return self._region(name).about.get(name, NOTHING)

    def _region(self, name: Name) -> Region:
        return self._disk if name in self._disk.series else self._memory

    def _write(
        self,
        region: Region,
        values: Sequence[StoredValue],
        progress: Mapping[str, int],
        after_gap: Mapping[str, float],
    ) -> None:
        if values or progress:
            rows = [((value.entity, value.metric), (value.at, value.value)) for value in values]
            about = {(value.entity, value.metric): value.about for value in values}
            region.add(rows, about, progress, self._clock(), after_gap)

    def _trim(self) -> None:
        self._trimmed_at = self._clock()
        before = self._trimmed_at - self._kept_s
        for region, other in ((self._disk, self._memory), (self._memory, self._disk)):
            for name in region.trim(before):
                if name not in other.series:
                    self._latest.pop(name, None)


def _opened(path: Path, max_bytes: int) -> tuple[Region, dict[Name, Point]]:
    """Open a file, and return the newest value of each of its series."""
    region = Region(path, max_bytes)
    try:
        newest = {name: region.newest(name) for name in region.series}
    except sqlite3.Error:
        region.close()
        raise
    return region, {name: point for name, point in newest.items() if point is not None}
