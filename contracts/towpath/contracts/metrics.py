"""Metrics: what is measured, in which unit, and how it is asked for, wherever it was measured.

A sample belongs to a series: the site that produced it, the entity it is about, and the metric. Each site
keeps its own series; the collector asks them all and answers as if there were one place.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, Field, FiniteFloat, StringConstraints, model_validator

from towpath.contracts.message import ROOT, Command, Message, Model, Scope, SiteName
from towpath.contracts.metrics_table import MetricDefinition

_COLLECTOR = f"{ROOT}.command.collector"

MAX_POINTS = 100_000
"""Of one answer, over all series: some megabytes of JSON."""

STALE_S = 3600.0
"""A series without a sample for so long says nothing of the present: its job has left, or its migration is
history."""

MAX_PROBE_BYTES = 256 * 1024

PATTERN = r"^[A-Za-z0-9_.*:/-]{1,200}$"

Pattern = Annotated[str, StringConstraints(pattern=PATTERN)]
"""A name in which `*` stands for any characters."""


class Aggregation(StrEnum):
    """Meaning of a point: what it says of all samples between it and the next."""

    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    LAST = "last"
    COUNT = "count"
    """Number of samples."""
    RATE = "rate"
    """Growth of a counter per second; a counter that began again counts from 0."""


class MetricSelection(Model):
    """Which series, which time, and how much of it."""

    metrics: list[Pattern] = Field(default=["*"], min_length=1, max_length=50)
    entities: list[Pattern] = Field(default=["*"], min_length=1, max_length=50)
    since: AwareDatetime | None = None
    """Samples from then on; null: only the newest of each series that has one of the last hour."""
    stale: bool = False
    """Also of series whose newest sample is older; with `since` there is no such limit anyway."""
    until: AwareDatetime | None = None
    """Samples before then; null: up to now."""
    step_s: float | None = Field(default=None, gt=0, le=7 * 24 * 3600)
    """One point for so many seconds, at whole multiples of them; null: every sample as it was taken. Where
    single samples are gone, no less than 60: see `Series`."""
    aggregation: Aggregation = Aggregation.MEAN
    """Meaning of a point where `step_s` is given."""
    limit: int = Field(default=20_000, ge=1, le=MAX_POINTS)
    """At most so many points, over all series; more are refused, not cut off."""

    @model_validator(mode="after")
    def _range_fits(self) -> MetricSelection:
        if self.since is None and (self.until is not None or self.step_s is not None):
            raise ValueError("until and step_s need since")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until must be later than since")
        return self


class Series(Model):
    """Samples of one metric of one entity at one site, by time."""

    site: Scope
    """Where it was measured; `hub` for what stands beside it."""
    entity: str
    metric: str
    unit: str
    points: list[tuple[FiniteFloat, FiniteFloat]]
    """Unix seconds and value."""
    by_minute_until: float | None = None
    """Points before this moment (Unix seconds) stand for a whole minute each, by the aggregation that was
    asked for, or the mean: single samples of that time are gone. Null: all points are as asked for."""


class SeriesList(Model):
    """The series that were asked for, by site, entity and metric."""

    series: list[Series]
    unreached: dict[str, str] = {}
    """Site whose samples are not in here → why. They are not lost: it keeps them."""


_EXAMPLE_SELECTION: dict[str, Any] = {
    "metrics": ["job.latency.end_to_end.*"],
    "entities": ["job:hourly-jfk"],
    "since": "2026-01-01T00:00:00Z",
    "step_s": 60,
    "aggregation": "max",
}


class QueryMetrics(MetricSelection, Command[SeriesList]):
    """Samples from anywhere in the mesh. A name that nothing can match is refused with those there are."""

    subject = f"{_COLLECTOR}.query-metrics"
    answer = SeriesList
    example = {"id": "q1", "sites": ["jfk"], **_EXAMPLE_SELECTION}

    sites: list[Scope] | None = Field(default=None, max_length=1000)
    """Only what was measured there; null: everywhere, `hub` included."""


class MetricCatalogue(Model):
    """All metrics."""

    metrics: list[MetricDefinition]
    interval_s: float
    """Between samples."""


class DescribeMetrics(Command[MetricCatalogue]):
    """Which metrics there are, with their units and meanings."""

    subject = f"{_COLLECTOR}.describe-metrics"
    answer = MetricCatalogue
    example = {"id": "q2"}


class ReadMetrics(MetricSelection, Command[SeriesList]):
    """Collector to agent: samples that the site keeps."""

    subject = f"{ROOT}.command.{{site}}.read-metrics"
    answer = SeriesList
    example = {"id": "q3", "site": "jfk", **_EXAMPLE_SELECTION}

    site: SiteName


class EchoAnswer(Model):
    """The payload, unchanged."""

    payload: str = Field(max_length=MAX_PROBE_BYTES)


class Echo(Command[EchoAnswer]):
    """Agent to agent, or to the collector at `hub`: send this back. So links are measured."""

    subject = f"{ROOT}.command.{{site}}.echo"
    answer = EchoAnswer
    example = {"id": "q4", "site": "cloud", "payload": ""}

    site: Scope
    payload: str = Field(default="", max_length=MAX_PROBE_BYTES)


class Sample(Model):
    """One value of one series of the site that is asked."""

    entity: str
    metric: str
    at: float
    """Unix seconds."""
    value: float


class Metric(Message):
    """One measurement. Not kept: who wants a history collects it."""

    subject = f"{ROOT}.metric.{{site}}.{{entity}}.{{name}}"
    example = {
        "site": "jfk",
        "entity": "jfk-engine",
        "name": "batch_processing_s",
        "value": 0.21,
        "at": "2026-01-01T00:00:00Z",
        "labels": {"job": "delays"},
    }

    exempt = True
    site: Scope
    entity: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")
    """The measured thing: a process, a job, a link."""
    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    """Ends with its unit: `_s`, `_bytes`, `_events`."""
    value: float
    at: datetime
    labels: dict[str, str] = {}


METRIC_COMMANDS: tuple[type[Command[Any]], ...] = (QueryMetrics, DescribeMetrics)
"""Served by the collector."""

SITE_METRIC_COMMANDS: tuple[type[Command[Any]], ...] = (ReadMetrics, Echo)
"""Served by agents; the collector serves `Echo` for the hub."""

METRICS: tuple[type[Message], ...] = (Metric,)
"""Published as they are measured, by whichever process measures."""
