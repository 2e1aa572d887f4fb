"""The standard jobs of trials: one for each kind of operator, over the numbered events of a load."""

from __future__ import annotations

from towpath.contracts.job import Input, JobSpec, Output, Standby
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
from towpath.contracts.scenario_load import ScenarioJob, StandardJob
from towpath.lab.harness.events import WATERMARK_S, WINDOW_S

PROCESSING_WINDOW_S = 1.0

COPY_EVERY_S = 5.0
"""Seconds between two copies of a job's state at its standby."""

_FIELDS = {
    "n": FieldType.LONG,
    "key": FieldType.STRING,
    "at": FieldType.TIMESTAMP,
    "value": FieldType.DOUBLE,
}
_AGGREGATES = {
    "events": Aggregate(function=AggregateFunction.COUNT),
    "total": Aggregate(function=AggregateFunction.SUM, field="value"),
}

WINDOWS = Window(
    fields=_FIELDS,
    event_time="at",
    watermark_s=WATERMARK_S,
    size_s=WINDOW_S,
    key=["key"],
    aggregates=_AGGREGATES,
)
"""Windows by the events' own time, per key: state must travel."""

CLEANED = Clean(
    fields={name: FieldRule(type=kind) for name, kind in _FIELDS.items()},
    identity=["n", "key"],
)
"""Each event by itself, identified by its number."""

PROCESSING = ProcessingWindow(fields=_FIELDS, size_s=PROCESSING_WINDOW_S, key=["key"], aggregates=_AGGREGATES)
"""Windows in processing time: they must partition the input."""

OPERATORS: dict[str, Operator] = {"windows": WINDOWS, "cleaned": CLEANED, "processing": PROCESSING}


def spec_of(job: ScenarioJob) -> JobSpec:
    """Return a job as it is deployed. A standard one begins with the events to come."""
    if isinstance(job, JobSpec):
        return job
    assert isinstance(job, StandardJob)
    sites = [job.input_site or job.site, *([job.second_input_site] if job.second_input_site else [])]
    return JobSpec(
        name=job.name,
        site=job.site,
        inputs=[Input(site=site, topic=job.topic, start="latest") for site in sites],
        output=Output(site=job.output_site or job.site, topic=f"drill/{job.name}"),
        operator=OPERATORS[job.workload],
        trigger_s=job.trigger_s,
        standby=None if job.standby is None else Standby(site=job.standby, every_s=COPY_EVERY_S),
    )
