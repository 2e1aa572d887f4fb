"""Run a small job once when the engine starts.

The first query of a session loads thousands of classes and compiles code. A job that arrives by migration
would be down that long. So an engine that starts while a job's state travels warms up before it is ready. An
engine that starts for a job that is deployed does not: that job has its first results sooner without it, and
warms the engine itself. `docs/measured.md` has the figures.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from towpath.contracts.data_plane import Offset
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.engine.session import register_source
from towpath.operators.compilation import compile_job
from towpath.streams.event_reader import SerialRange
from towpath.streams.passing import ChangedMessage
from towpath.streams.reading import Reading
from towpath.streams.source import StreamReader, StreamSource

EVENTS = 20
"""Made-up events: one small micro-batch."""


def warm_up(session: SparkSession, *, read_ahead: bool) -> None:
    """Run the window job of the contracts' example over a few made-up events. Blocks.

    `read_ahead`: the engine reads them as it reads small micro-batches, without a Python worker.
    """
    register_source(session, WarmUpSource)
    assignment = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
    nowhere = {"url": "", "credentials_file": "", "stream": "", "read_ahead": str(read_ahead).lower()}

    def read(_: ResolvedInput, reading: Reading) -> DataFrame:
        options = {**nowhere, **reading.options()}
        return session.readStream.format(WarmUpSource.name()).options(**options).load()

    with tempfile.TemporaryDirectory(prefix="warm-up-") as directory:
        query = (
            compile_job(assignment, read)
            .writeStream.foreachBatch(lambda frame, _: frame.toArrow() and None)
            .option("checkpointLocation", str(Path(directory) / "checkpoint"))
            .outputMode("append")
            .trigger(processingTime="0 seconds")
            .start()
        )
        query.processAllAvailable()
        query.stop()


class WarmUpSource(StreamSource):
    """A stream of one small micro-batch, with the columns of the real source."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "towpath-warm-up"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader."""
        return _Reader(dict(self.options))


class _Reader(StreamReader):
    def initialOffset(self) -> dict:
        return Offset(0).document()

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        return Offset(EVENTS).document()

    def reportLatestOffset(self) -> dict:
        return Offset(EVENTS).document()

    def check_planned(self, planned: Offset) -> None:
        """Look at nothing: there is no stream."""

    def bundles(self, partition: InputPartition) -> Iterator[list[ChangedMessage]]:
        assert isinstance(partition, SerialRange)
        now = datetime.now(UTC)
        serials = range(partition.after + 1, partition.through + 1)
        yield [ChangedMessage(n, "warm.up", now, _result(f"2026-01-{1 + n:02d}T00:00:00Z")) for n in serials]


def _result(time: str) -> bytes:
    """Return what the example's upstream job publishes."""
    return json.dumps({"values": {"carrier": "AA", "delay": 1.0, "departed_at": time}}).encode()
