"""Run an operator on a batch of events in a Spark session, and validate its results against the contracts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from towpath.contracts.job import Assignment
from towpath.contracts.operators import Operator
from towpath.contracts.result import Rejected, Result
from towpath.operators.compilation import compile_job, micro_batch_window
from towpath.operators.publication import Publication

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "serial long, topic string, stored_at timestamp, value binary"
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
    return Publication.of(assignment({"kind": "forward"}, name), "cloud").identities.inputs[0]


STREAM = stream(DEVICE)


def message(serial: int, event: Any, second: float | None = None) -> tuple[int, str, datetime, bytearray]:
    """Return a message as the source delivers it, stored `second` seconds after the start."""
    body = (
        event
        if isinstance(event, bytes)
        else (event if isinstance(event, str) else json.dumps(event)).encode()
    )
    stored_at = START + timedelta(seconds=serial if second is None else second)
    return serial, "t", stored_at, bytearray(body)


def messages(spark: SparkSession, *events: Any) -> DataFrame:
    rows = [e if isinstance(e, tuple) else message(n, e) for n, e in enumerate(events, 1)]
    return spark.createDataFrame(rows, SCHEMA)


def assigned(operator: Operator, *inputs: str) -> Assignment:
    """The same for an operator that need not be on the wire."""
    made = assignment({"kind": "forward"}, *inputs)
    return made.model_copy(update={"spec": made.spec.model_copy(update={"operator": operator})})


class Outcome:
    """Results and rejected events that a job published, validated against the contract."""

    def __init__(self, rows: list[Any]) -> None:
        self.ids = {r.message_id for r in rows}
        self.bodies = {r.message_id: r.body for r in rows}
        assert len(self.ids) == len(rows), "two messages have one id"
        self.results = {r.message_id: Result.model_validate_json(r.body) for r in rows if not r.rejected}
        self.rejected = {r.message_id: Rejected.model_validate_json(r.body) for r in rows if r.rejected}

    @property
    def values(self) -> list[dict[str, Any]]:
        return [r.values for r in sorted(self.results.values(), key=lambda r: (r.input or "", r.serial))]

    @property
    def reasons(self) -> list[str]:
        return [r.reason for r in sorted(self.rejected.values(), key=lambda r: r.serial)]


def run(operator: dict[str, Any], *inputs: DataFrame, names: tuple[str, ...] = ()) -> Outcome:
    return computed(assignment(operator, *names), *inputs)


def computed(job: Assignment, *inputs: DataFrame) -> Outcome:
    """Run the job over all messages as one micro-batch."""
    made = compile_job(job, list(inputs), "cloud")
    window = micro_batch_window(job, "cloud")
    if window is not None:
        made = window.messages(made, 0, 1000)
    assert made.columns == ["position", "message_id", "rejected", "body"]
    return Outcome(made.collect())
