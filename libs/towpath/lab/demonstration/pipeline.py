"""The jobs of the demonstration: SpecK's road-traffic deployment (its Fig. 7), on departures.

At each airport, events are cleaned (job 1) and summarised by the hour (job 3); the cloud does the same over
all airports (job 4). SpecK's job 2, which forwards events to the cloud, is an input at another site here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import (
    Aggregate,
    AggregateFunction,
    Clean,
    FieldRule,
    FieldType,
    Operator,
    ProcessingWindow,
    Window,
)
from towpath.contracts.pipeline import PipelineJob, PipelineSpec
from towpath.lab.workload.departures import AIRPORTS, max_disorder_s

EDGES = tuple(airport.lower() for airport in AIRPORTS)
CLOUD = "cloud"
SITES = (*EDGES, CLOUD)
MOVING_JOB = "hourly-jfk"
"""The job that changes site while it runs."""

PACE_JOB = "pace-jfk"
"""The job that changes site instead, where a strategy is for processing-time windows only."""

LEAVING_JOB = "leaving"
"""The job that leaves a site before that is lost."""

DEVICE_TOPIC = "site/departures"
LEAVING_DEVICES = "site/leaving"

LEAVING_DEPARTURES = 30_000
"""Most departures that its devices send. Behind them the recording goes back from December to February, and
its windows would have to wait as long."""
CLEAN_TOPIC = "departures/clean"
HOURLY_TOPIC = "departures/hourly"
BY = "origin"
"""Hours are summarised by airport. By carrier, most results would be of a single departure."""
PACE_TOPIC = "departures/pace"

WATERMARK_MARGIN_S = 3600.0
"""Beyond the disorder that the file has."""

CLEAN = Clean(
    fields={
        "id": FieldRule(type=FieldType.LONG, minimum=0),
        "carrier": FieldRule(type=FieldType.STRING, pattern=".{2}"),
        "flight": FieldRule(type=FieldType.LONG, minimum=1),
        "origin": FieldRule(type=FieldType.STRING, one_of=list(AIRPORTS)),
        "dest": FieldRule(type=FieldType.STRING),
        "departed_at": FieldRule(type=FieldType.TIMESTAMP),
        "delay": FieldRule(type=FieldType.DOUBLE, minimum=-120, maximum=2000),
    },
    identity=["id"],
)
"""Cancelled flights have no departure time and no delay: they are rejected, like malformed records."""


def hourly(watermark_s: float, key: str = "carrier") -> Window:
    """Departures, mean and 95th percentile of the delay, by hour of departure and `key`."""
    delay = "delay"
    return Window(
        fields={
            key: FieldType.STRING,
            "delay": FieldType.DOUBLE,
            "departed_at": FieldType.TIMESTAMP,
        },
        event_time="departed_at",
        watermark_s=watermark_s,
        size_s=3600,
        key=[key],
        aggregates={
            "departures": Aggregate(function=AggregateFunction.COUNT),
            "mean_delay": Aggregate(function=AggregateFunction.AVG, field=delay),
            "p95_delay": Aggregate(function=AggregateFunction.PERCENTILE, field=delay, q=0.95),
        },
    )


PACE = ProcessingWindow(
    fields={"carrier": FieldType.STRING, "delay": FieldType.DOUBLE},
    size_s=3.0,
    key=["carrier"],
    aggregates={
        "departures": Aggregate(function=AggregateFunction.COUNT),
        "mean_delay": Aggregate(function=AggregateFunction.AVG, field="delay"),
    },
)
"""Departures and mean delay per carrier, every three seconds of processing time."""


def pipeline(
    per_airport: int, trigger_s: float = 1.0, edges: Sequence[str] = EDGES, *, pace: bool = False
) -> PipelineSpec:
    """Return all jobs. `per_airport` departures decide how long windows must wait for late ones.

    `pace`: with a job that measures how fast departures come in at the airport whose job moves.
    """
    watermark_s = waiting_s(per_airport)
    jobs = [job for edge in edges for job in _edge(edge, watermark_s, trigger_s)]
    if pace:
        edge = edge_of(PACE_JOB)
        cleaned = Input(site=edge, topic=CLEAN_TOPIC)
        jobs.append(_job(PACE_JOB, edge, [cleaned], Output(topic=PACE_TOPIC), PACE, trigger_s))
    everywhere = [Input(site=edge, topic=CLEAN_TOPIC) for edge in edges]
    output, windows = Output(topic=HOURLY_TOPIC), hourly(watermark_s, BY)
    merged = _job("hourly-all", CLOUD, everywhere, output, windows, trigger_s)
    return PipelineSpec(name="departures", jobs=[*jobs, merged])


def leaving_job(devices: str, source: str) -> JobSpec:
    """Return a job that runs at `source` and has its devices, and its results, at another site."""
    sent = Input(site=devices, topic=LEAVING_DEVICES, start="latest")
    output = Output(site=devices, topic="departures/leaving")
    return _job(LEAVING_JOB, source, [sent], output, hourly(waiting_s(LEAVING_DEPARTURES)), 1.0).job_spec()


def edge_of(job: str) -> str:
    """Return the airport of a job, at which it begins."""
    return job.rsplit("-", 1)[1]


def waiting_s(per_airport: int) -> float:
    """Return the seconds that windows must wait for late events among the departures."""
    disorder = max(max_disorder_s(airport, per_airport) for airport in AIRPORTS)
    return float(math.ceil(disorder + WATERMARK_MARGIN_S))


def _edge(edge: str, watermark_s: float, trigger_s: float) -> list[PipelineJob]:
    # What devices sent before the run is not part of it.
    devices = Input(site=edge, topic=DEVICE_TOPIC, start="latest")
    cleaned = Input(site=edge, topic=CLEAN_TOPIC)
    windows = hourly(watermark_s, BY)
    return [
        _job(f"clean-{edge}", edge, [devices], Output(topic=CLEAN_TOPIC), CLEAN, trigger_s),
        _job(f"hourly-{edge}", edge, [cleaned], Output(topic=HOURLY_TOPIC), windows, trigger_s),
    ]


def _job(
    name: str, site: str, inputs: list[Input], output: Output, operator: Operator, trigger_s: float
) -> PipelineJob:
    return PipelineJob(
        name=name, site=site, inputs=inputs, output=output, operator=operator, trigger_s=trigger_s
    )
