"""The one class that the script of a package needs to become a Spark job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json

from towpath.spark_job.feed import Feed
from towpath.spark_job.source import FORMAT, DeviceSource

JOB_VARIABLE = "TOWPATH_JOB"
"""Environment variable with the settings, see `towpath.gateway.spark.commands`."""


class Job:
    """A job on the cluster of this application. Make one, give `run` a query, and that is the script."""

    def __init__(self) -> None:
        """Start Spark's driver. That takes some seconds."""
        settings = json.loads(os.environ[JOB_VARIABLE])
        self.properties: Mapping[str, Any] = settings["properties"]
        """The application's properties. The script is started again when they change."""
        self._checkpoint: str = settings["checkpoint"]
        self._feed: str = settings["feed"]
        builder = SparkSession.builder.appName("towpath-device")
        for name, value in settings["spark"].items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("WARN")
        self.spark.dataSource.register(DeviceSource)

    def events(self, schema: str) -> DataFrame:
        """Return the application's input as a stream with the columns of `schema`, such as `celsius DOUBLE`.

        A column has the event's field of that name, or null if there is none of that type. `topic` is the
        event's topic. `arrived` is the time in seconds when the device got it.
        """
        source = self.spark.readStream.format(FORMAT).option("feed", self._feed).load()
        return source.select(from_json(col("event"), schema).alias("event")).select("event.*")

    def run(self, results: DataFrame, *, every_s: float = 1.0, mode: str = "append") -> None:
        """Run a streaming query until stopped, a micro-batch every `every_s` seconds. Its rows are results.

        State and progress survive all restarts. Results get the fields `batch` and `row`, under which they
        come again if a kill makes them come again.
        """
        output = Feed(self._feed)

        def hand_over(rows: DataFrame, batch: int) -> None:
            texts = rows.select(to_json(struct("*"))).collect()
            output.ask(batch=batch, results=[json.loads(text) for (text,) in texts])

        query = (
            results.writeStream.outputMode(mode)
            .option("checkpointLocation", self._checkpoint)
            .trigger(processingTime=f"{every_s} seconds")
            .foreachBatch(hand_over)
            .start()
        )
        Feed(self._feed).ask(started=True)
        query.awaitTermination()
