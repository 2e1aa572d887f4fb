"""The Spark source `towpath`: a stream of a site, its offset a serial number.

The source decodes events as its `Reading` says: to typed columns, or whole. It reads by serial number, never
by counting: an expired range is an error, not a silent skip.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from towpath.contracts.data_plane import RECALL_LIMIT, RECALLED_EVENTS, Offset, is_mirror
from towpath.hooks.points import OPERATOR_BATCH, OPERATOR_EVENT, SOURCE_READ
from towpath.streams.event_reader import EventReader, RangeReader, Recalled, SerialRange
from towpath.streams.failures import EventsLost, EventsRenumbered
from towpath.streams.log_reader import PATIENCE_S
from towpath.streams.lost_events import LostEvents
from towpath.streams.pacing import Pace, pace_of
from towpath.streams.passing import BUNDLES, EVENTS
from towpath.streams.reading import Reading
from towpath.streams.stream_view import StreamView
from towpath.streams.thinning import ALL, factor_behind

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from towpath.streams.event_reader import Event

FORMAT = "towpath"

BACKLOG_FRESH_S = 1.0
"""Greatest age of the reported backlog. Spark asks for it right after planning: reuse the answer."""

READ_AHEAD_EVENTS = 5_000
"""The planner of a micro-batch up to this size reads its events, too. That spares a Python worker, which
costs more than they do. A larger one would keep the other planners of the engine waiting."""

LOOK_S = 0.5

BEHIND_S = 10.0
"""Time that a mirror may end before a job's position, and have all that its origin has. One that was made
again has its events sooner."""

FIRST_EVENTS = 5_000
"""Bound of the first micro-batch of a stateful query after a start. It loads the state and starts workers;
with the whole backlog as well, a job that has moved would publish seconds later."""


class StreamSource(DataSource):
    """`spark.readStream.format("towpath")`, and `spark.read` for a range of serial numbers.

    Options: `url`, `credentials_file`, `stream`; `subject` (only messages on it count); `cores` (tasks
    for a backlog); `reading` (see `Reading.options`); `identity` (fields, with commas) and `repeats_within`
    (an event that repeats one of the last so many does not count, see `Repeats`).

    Options of streams:

    - `sample`: only this share of the events, see `sampling`
    - `thinning` (JSON): what may be left out, see `thinning`; `shares_file` has the present shares
    - `on_loss` (`report`): events that are no longer kept are passed over, and named as one rejected event
    - `after_serial`: a new query begins after it; default: at the oldest message kept
    - `max_events`: bound of a micro-batch
    - `exact_events`: a micro-batch has exactly this many serial numbers, or does not run
    - `pause_file`: while it exists, nothing new is planned
    - `bound_file`: has the bound of a micro-batch once that differs from `max_events`; 0 for none
    - `trigger_s`: seconds between micro-batches, if planning waits until the next one is due. See `Pace`
    - `aligned` (`true`): micro-batches begin at multiples of `trigger_s`
    - `patient` (`true`): no empty micro-batch needs to follow one with events
    - `nudge` (`true`): the first micro-batch after a start runs also without events
    - `recall` (`true`): that micro-batch also has the last events before it, see `StreamReader`
    - `read_ahead` (`true`): the planner of a small micro-batch may read it, see `StreamReader.ahead`
    - `job`: the job's name, for fault rules

    Options of ranges: `after` and `through`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns as Spark writes them."""
        return Reading.of(self.options).schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        return StreamReader(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return RangeReader(dict(self.options))


class StreamReader(EventReader, DataSourceStreamReader):
    """Plans and reads ranges of serial numbers. Offsets are those of `data_plane.Offset`.

    A stateful query needs a nudge when it starts. The micro-batch before the stop may have moved the
    watermark. Spark would have closed windows in a micro-batch without data, but forgets that over a
    restart, and the windows would stay open until the next event. So the first offset planned increases
    `nudges`: it differs from the start, and a micro-batch runs, with or without events.

    A query with several inputs has a watermark for each, and the lowest counts. Spark forgets the watermarks
    of the single inputs over a restart. It would wait for an event of every input, and an input that is
    silent from then on would keep all windows open. So the first micro-batch after a restart also has the
    last events before it, for their times. They have negative serial numbers, and are left out after the
    watermark.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.after_serial: str = options.get("after_serial", "")
        self.passes_over_losses = options.get("on_loss") == "report"
        self.max_events = int(options.get("max_events") or 0)
        self.pause_file = options.get("pause_file")
        self.bound_file = options.get("bound_file")
        self.shares_file = options.get("shares_file")
        self.exact_events = int(options.get("exact_events") or 0)
        self.trigger_s: str | None = options.get("trigger_s") or None
        self.aligned = options.get("aligned") == "true"
        self.patient = options.get("patient") == "true"
        self.nudge = options.get("nudge") == "true"
        self.recall = options.get("recall") == "true"
        self.read_ahead = options.get("read_ahead") == "true"
        self.job = options.get("job") or None
        self._has_looked = False
        self._behind_since = math.inf

    def initialOffset(self) -> dict:
        """Return the offset at which a query without a checkpoint begins."""
        if self.after_serial != "":
            return Offset(int(self.after_serial)).document()
        return Offset(self._view().first - 1).document()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the bound of a micro-batch, from the options."""
        return ReadMaxRows(self.max_events) if self.max_events else ReadAllAvailable()

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        """Return the newest serial number to plan, within the read limit; `start` while paused."""
        begin = Offset.of(start)
        position = begin.serial
        if self._pace is not None:
            self._pace.await_turn(self._source, functools.partial(self._backlog, position), self._paused)
        if self._paused():
            return start
        first, self.nudge = self.nudge, False
        view = self._checked(begin)
        last = newest = max(view.last, position)
        if first:
            last = min(last, position + FIRST_EVENTS)
        if self.exact_events:
            whole = last - position >= self.exact_events
            last = position + self.exact_events if whole else position
        elif bound := self._bound(limit):
            last = min(last, position + bound)
        if self._pace is not None:
            rest = functools.partial(self._backlog, last)
            some, all_of_it = last > position, newest - last < max(self.exact_events, 1)
            self._pace.planned(self._source, rest, some=some, all_of_it=all_of_it)
        # Without events the offset stays as it was: another one would make a micro-batch.
        if last == position:
            return Offset(last, begin.nudges + first, begin.stored_at, begin.shares).document()
        shares = self._shares(begin, view) if self.thinning is not None else {}
        return Offset(last, begin.nudges + first, self._stored_at(last, view), shares).document()

    def _shares(self, begin: Offset, view: StreamView) -> Mapping[str, float]:
        """Return the shares of the micro-batch to plan. Those of the last one hold until there are others."""
        assert self.thinning is not None
        shares = {name: share for name, share in begin.shares.items() if name != ALL}
        if self.shares_file is not None:
            with contextlib.suppress(FileNotFoundError):
                shares = json.loads(Path(self.shares_file).read_text())
        behind_s = _seconds_between(begin.stored_at, view.last_stored_at)
        factor = factor_behind(self.thinning.salience, behind_s)
        return shares if factor == 1 else {**shares, ALL: factor}

    @property
    def _pace(self) -> Pace | None:
        """The pace of the query. Not kept, because the reader travels to Spark's workers."""
        if self.trigger_s is None:
            return None
        return pace_of(
            self.pause_file or self._source,
            float(self.trigger_s),
            bursts=not self.reading.from_device,
            aligned=self.aligned,
            patient=self.patient,
        )

    @property
    def _source(self) -> str:
        """This source among those of its query, of which two may read the same stream."""
        return f"{self.stream} {id(self)}"

    def _backlog(self, position: int) -> int:
        """Return the number of events behind a serial number; 0 if there are too few for a micro-batch."""
        last = self._view().last
        return last - position if last >= position + max(self.exact_events, 1) else 0

    def _bound(self, limit: ReadLimit) -> int:
        """Return the bound of the micro-batch to plan, in events; 0 for none."""
        if self.bound_file is not None:
            with contextlib.suppress(FileNotFoundError):
                return int(Path(self.bound_file).read_text())
        return limit.max_rows if isinstance(limit, ReadMaxRows) else 0

    def _paused(self) -> bool:
        return self.pause_file is not None and Path(self.pause_file).exists()

    def check_planned(self, planned: Offset) -> None:
        """Raise `EventsRenumbered` if the stream is not the one for which the first micro-batch was planned.

        Spark may have planned it before a restart, and then asks for no offset.
        """
        end = time.monotonic() + PATIENCE_S
        # A mirror that was made again has the events a moment later.
        while not self._has_looked and self._checked(planned).last < planned.serial:
            if time.monotonic() > end:
                return  # Reading says that they are missing.
            time.sleep(LOOK_S)

    def _checked(self, begin: Offset) -> StreamView:
        """Return the stream, whose events up to this offset are those that the job has processed.

        Raises `EventsRenumbered` if they are others, and `EventsLost` if some that follow are not kept.
        """
        view, position = self._view(), begin.serial
        if view.last < position:
            if not self._may_still_come(view):
                raise EventsRenumbered(self.stream, begin, view.first, view.last)
            return view
        self._behind_since = math.inf
        if view.first > position + 1 and view.last > position and not self.passes_over_losses:
            raise EventsLost(self.stream, position + 1, view.first - 1)
        if begin.stored_at and (view.last > position or not self._has_looked):
            there = self._stored_at(position, view)
            differs = there not in ("", begin.stored_at)
            if differs and begin.stored_at not in self.log.storing_times(self.stream, position):
                raise EventsRenumbered(self.stream, begin, view.first, view.last, there)
        self._has_looked = True
        return view

    def _may_still_come(self, view: StreamView) -> bool:
        """Tell if events that a job has processed are only on their way: the stream is a mirror, made again.

        The mirror of a stream that has lost its end, or began again, has all there is, and ends before them.
        """
        if not is_mirror(self.stream):
            return False
        if view.lag or not view.is_fed:
            self._behind_since = math.inf
        self._behind_since = min(self._behind_since, time.monotonic())
        return time.monotonic() - self._behind_since < BEHIND_S

    def _stored_at(self, serial: int, view: StreamView) -> str:
        """Return when an event was stored; empty if it is not kept."""
        if serial < view.first:
            return ""
        if serial == view.last:
            return view.last_stored_at
        return next(iter(self.log.storing_times(self.stream, serial)), "")

    def reportLatestOffset(self) -> dict:
        """Return the end of the stream when the batch was planned: Spark reports the backlog from it."""
        return Offset(self._view(BACKLOG_FRESH_S).last).document()

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        """Return equal ranges, one for each task. The first micro-batch after a start also recalls events."""
        begin, planned = Offset.of(start), Offset.of(end)
        self.check_planned(planned)
        ranges = self.split(begin.serial, planned.serial, planned.shares)
        is_first = planned.nudges > begin.nudges
        # A query that starts for the first time begins with the events after its start, and with their times.
        if self.recall and is_first and begin.nudges > 0:
            return [*ranges, Recalled(begin.serial)]
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of a range as Arrow batches: those that fault rules let pass.

        The job's progress is the whole range, whatever rules made of its events.
        """
        if isinstance(partition, Recalled):
            for messages in self._recalled(partition.through):
                yield self.decoded(messages, sign=-1)
            return
        assert isinstance(partition, SerialRange)
        for messages in self.bundles(partition):
            if isinstance(messages[0], LostEvents):
                yield self.decoded(messages)
                continue
            for bundle in self._passing(messages):
                if bundle:
                    yield self.decoded(bundle, shares=partition.shares)

    def ahead(self, partitions: Sequence[InputPartition]) -> list[pa.RecordBatch] | None:
        """Return the events of a planned micro-batch, or None if workers of Spark must read them.

        They do where it is large, and where fault rules look at events: rules stand in the worker's process.
        """
        if not self.read_ahead or any(point.rules for point in (SOURCE_READ, OPERATOR_BATCH, OPERATOR_EVENT)):
            return None
        match partitions:
            case [SerialRange(after, through)] if (through - after) * self.sample <= READ_AHEAD_EVENTS:
                return list(self.read(partitions[0]))
        return None

    def _recalled(self, through: int) -> Iterator[Sequence[Event]]:
        """Yield the last events up to a serial number, as far as they are kept and of the job.

        A job that goes on with the state of another one begins where that one ended: those before count, too.
        """
        begun = int(self.after_serial or 0)
        oldest = max(self._view().first - 1, through - RECALL_LIMIT, begun if begun < through else 0)
        while through > oldest:
            numbers = SerialRange(max(oldest, through - RECALLED_EVENTS), through)
            found = list(self._stored(numbers))
            if found and self.identity:  # Repeats are looked for only where there are events of the job.
                found = list(self.bundles(numbers))
            if found:
                yield from found
                return
            through = numbers.after

    def _passing(self, messages: Sequence[Event]) -> Iterator[Sequence[Event]]:
        if SOURCE_READ.rules:
            messages = SOURCE_READ.through(messages, EVENTS, job=self.job)
        bundles: Sequence[Sequence[Event]] = [messages]
        if OPERATOR_BATCH.rules and messages:
            bundles = OPERATOR_BATCH.through(bundles, BUNDLES, job=self.job)
        for bundle in bundles:
            yield OPERATOR_EVENT.through(bundle, EVENTS, job=self.job) if OPERATOR_EVENT.rules else bundle


def _seconds_between(earlier: str, later: str) -> float:
    """Return the seconds between two times as the server writes them; 0 if one is not known."""
    if not earlier or not later:
        return 0.0
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
