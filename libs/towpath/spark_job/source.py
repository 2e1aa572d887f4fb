"""The Spark source of a device's events. The driver reads them by number; executors need no connection."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from towpath.spark_job.feed import Feed

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "towpath-device"
MOST_EVENTS = 10_000
"""Events in a micro-batch."""

_PART = 1000


class DeviceSource(DataSource):
    """`spark.readStream.format("towpath-device")` with the option `feed`. An offset is an event's number."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns: an event is a text in JSON."""
        return "number BIGINT, event STRING"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        """Return the reader of a streaming query."""
        return DeviceReader(self.options["feed"])


class DeviceReader(SimpleDataSourceStreamReader):
    """Reads events by number."""

    def __init__(self, feed: str) -> None:
        self._name = feed

    @cached_property
    def _feed(self) -> Feed:
        return Feed(self._name)  # Not earlier: Spark sends readers to other processes.

    def initialOffset(self) -> dict[str, int]:
        """Return the offset of a new query."""
        return {"number": self._feed.ask(first=True)}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        """Return the events that there are, and the offset behind them."""
        events = list(itertools.islice(self._after(start["number"]), MOST_EVENTS))
        return iter(events), {"number": events[-1][0] if events else start["number"]}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        """Return the events of a micro-batch that runs again."""
        return itertools.takewhile(lambda event: event[0] <= end["number"], self._after(start["number"]))

    def commit(self, end: dict[str, int]) -> None:
        """Forget the events of micro-batches that never run again."""
        self._feed.ask(commit=end["number"])

    def _after(self, number: int) -> Iterator[tuple[Any, ...]]:
        while part := self._feed.ask(read=number, most=_PART):
            yield from (tuple(event) for event in part)
            number = part[-1][0]
