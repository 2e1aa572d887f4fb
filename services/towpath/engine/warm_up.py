"""Run a small job once when the engine starts, and keep its processes.

The first query of a session loads thousands of classes, starts Python workers and compiles code. It takes ten
seconds, and the second one takes one. Without the warm-up, a job that arrives by migration would be down that
long.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from towpath.contracts.data_plane import Offset
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.engine.query import compiling
from towpath.operators.compilation import compile_job
from towpath.streams.decoding import decoder_of
from towpath.streams.reading import Reading
from towpath.streams.source import FORMAT, StreamSource

log = logging.getLogger(__name__)

KEEP_WARM_S = 40.0
"""Less than the minute after which Spark ends an idle Python process."""


def warm_up(session: SparkSession) -> None:
    """Run the window job of the contracts' example over a few made-up events. Blocks."""
    session.dataSource.register(WarmUpSource)
    assignment = Assignment.model_validate(EXAMPLE_ASSIGNMENT)

    def read(_: ResolvedInput, reading: Reading) -> DataFrame:
        return session.readStream.format(WarmUpSource.name()).options(**reading.options()).load()

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
    look_at_source(session)


class WarmUpSource(StreamSource):
    """A stream of one small micro-batch, with the columns of the real source."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "towpath-warm-up"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader."""
        return _Reader(Reading.of(self.options))


class _Reader(DataSourceStreamReader):
    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def initialOffset(self) -> dict:
        return Offset(0).document()

    def latestOffset(self) -> dict:  # type: ignore[override]
        return Offset(20).document()

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [InputPartition((Offset.of(start).serial, Offset.of(end).serial))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        after, through = partition.value
        hours = (f"2026-01-{1 + n % 28:02d}T00:00:00Z" for n in range(after, through))
        values = [{"carrier": "AA", "delay": 1.0, "departed_at": hour} for hour in hours]
        events = [json.dumps({"values": value}).encode() for value in values]
        decoder = decoder_of(self.reading)
        yield decoder.batch(range(after + 1, through + 1), [datetime.now(UTC)] * len(events), events)


async def keep_warm(session: SparkSession) -> None:
    """Let Spark look at the source repeatedly, until cancelled.

    A job's plan needs a Python process that looks at the source. Spark ends it after an idle minute. The next
    job, or the next change of one, would then wait for another process to start.
    """
    while True:
        await asyncio.sleep(KEEP_WARM_S)
        try:
            await asyncio.to_thread(look_at_source, session)
        except Exception as error:
            log.warning("the source could not be looked at: %s: %s", type(error).__name__, error)


def look_at_source(session: SparkSession) -> None:
    """Let Spark look at the source, as every job does first. Blocks for 30 ms, or 1 s if a process starts."""
    with compiling:
        reading = Reading(None, from_device=True)
        session.readStream.format(FORMAT).options(**reading.options()).load()
