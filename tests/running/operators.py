"""Run an operator on a batch of events in a Spark session, and validate its results against the contracts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from towpath.contracts.job import Assignment
from towpath.contracts.operators import Operator
from towpath.contracts.result import Rejected, Result
from towpath.operators.compilation import compile_job, micro_batch_window
from towpath.operators.rejections import observed
from towpath.streams.decoding import decoder_of
from towpath.streams.encoding import Message, MessageEncoder
from towpath.streams.reading import Reading

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "serial long, stored_at timestamp, value binary"
DEVICE, UPSTREAM = "jfk/site/a", "jfk/clean"


def assignment(operator: dict[str, Any], *inputs: str, epoch: int = 3) -> Assignment:
    names = inputs or (DEVICE,)
    sources = [name.split("/", 1) for name in names]
    return Assignment.model_validate(
        {
            "spec": {
                "name": "job",
                "site": "jfk",
                "inputs": [{"site": site, "topic": topic} for site, topic in sources],
                "output": {"topic": "out"},
                "operator": operator,
            },
            "epoch": epoch,
            "inputs": [
                {
                    "name": f"{site}/{topic}",
                    "site": site,
                    "stream": "IN",
                    "subject": topic.replace("/", "."),
                    "from_device": topic.startswith("site/"),
                }
                for site, topic in sources
            ],
            "output": {"site": "jfk", "stream": "OUT_job", "topic": "out", "rejected_topic": "out/rejected"},
        }
    )


def stream(name: str) -> str:
    """Return the code of an input in message ids."""
    return MessageEncoder.of(assignment({"kind": "forward"}, name), "cloud").codes[0]


STREAM = stream(DEVICE)


def message(serial: int, event: Any, second: float | None = None) -> tuple[int, datetime, bytearray]:
    """Return a message as the source delivers it, stored `second` seconds after the start."""
    body = (
        event
        if isinstance(event, bytes)
        else (event if isinstance(event, str) else json.dumps(event)).encode()
    )
    stored_at = START + timedelta(seconds=serial if second is None else second)
    return serial, stored_at, bytearray(body)


def messages(spark: SparkSession, *events: Any) -> DataFrame:
    rows = [e if isinstance(e, tuple) else message(n, e) for n, e in enumerate(events, 1)]
    return spark.createDataFrame(rows, SCHEMA)


def assigned(operator: Operator, *inputs: str) -> Assignment:
    """The same for an operator that need not be on the wire."""
    made = assignment({"kind": "forward"}, *inputs)
    return made.model_copy(update={"spec": made.spec.model_copy(update={"operator": operator})})


class Outcome:
    """Results and rejected events that a job published, validated against the contract."""

    def __init__(self, results: list[Message], rejected: list[Message]) -> None:
        messages = [*results, *rejected]
        self.bodies = {message.identity: message.body.decode() for message in messages}
        self.ids = self.bodies.keys()
        assert len(self.ids) == len(messages), "two messages have one id"
        self.results = {message.identity: Result.model_validate_json(message.body) for message in results}
        self.rejected = {message.identity: Rejected.model_validate_json(message.body) for message in rejected}

    @property
    def values(self) -> list[dict[str, Any]]:
        return [r.values for r in sorted(self.results.values(), key=lambda r: (r.input or "", r.serial))]

    @property
    def reasons(self) -> list[str]:
        return [r.reason for r in sorted(self.rejected.values(), key=lambda r: r.serial)]


def decoded(messages: DataFrame, reading: Reading) -> DataFrame:
    """Return messages as the source gives them to a plan: a real decoder reads them in Spark's workers."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = decoder_of(reading)
        for batch in batches:
            yield decoder.batch(*(column.to_pylist() for column in batch.columns))

    return messages.mapInArrow(decode, reading.schema())


def compiled(job: Assignment, *inputs: DataFrame) -> DataFrame:
    """Compile a job over the messages of its inputs, streaming or not."""
    return compile_job(job, lambda _, reading: decoded(inputs[reading.position], reading))


def run(operator: dict[str, Any], *inputs: DataFrame, names: tuple[str, ...] = ()) -> Outcome:
    return computed(assignment(operator, *names), *inputs)


def computed(job: Assignment, *inputs: DataFrame) -> Outcome:
    """Run the job over all messages as one micro-batch."""
    made = compiled(job, *inputs)
    window = micro_batch_window(job)
    if window is not None:
        made = window.results(made, 0, 1000)
    encoder = MessageEncoder.of(job, "cloud")
    table = made.toArrow()
    execution = made._jdf.queryExecution()  # type: ignore[operator]
    return Outcome(encoder.results(table), encoder.rejected(observed(execution).rejected))
