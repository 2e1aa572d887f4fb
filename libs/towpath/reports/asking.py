"""Ask the mesh for the facts of reports. A report names facts that are missing and is made without them."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta

from towpath.bus import Bus
from towpath.contracts.commands import ListJobs, OperationView, ShowOperation
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics, Series
from towpath.contracts.pipeline import PipelineVersion
from towpath.contracts.pipeline_commands import ShowPipeline, ShowPipelineHistory
from towpath.contracts.traces import ShowTrace, Trace
from towpath.reports.facts import MigrationFacts, PipelineFacts, ReadSeries

LOOK_S = 30.0
"""Deadline for the coordinator. It is longer than a restart of the coordinator takes."""

ATTEMPT_S = 5.0

MEASURES_S = 12.0
"""Deadline for measurements of all sites. The collector waits some seconds for each."""

AROUND = timedelta(seconds=60)
"""Time shown before a migration and after it."""

PIPELINE_SPAN = timedelta(hours=1)
PIPELINE_STEP_S = 30.0

FINE_POINTS = 600
"""Points of a curve. A longer time has coarser steps."""

ENTITIES = 50
"""Entities per query: as many as a query may name."""

JOB_METRICS = ("job.event_rate", "job.result_rate", "job.latency.end_to_end.p95", "job.backlog")
"""Metrics shown of a job."""


async def migration_facts(bus: Bus, operation: str) -> MigrationFacts:
    """Return all facts about a migration. Raises `TowpathError` when the coordinator does not know it."""
    view = await bus.request(ShowOperation(operation=operation), deadline_s=LOOK_S, attempt_s=ATTEMPT_S)
    measured, traced = await asyncio.gather(measured_around(bus, view), _traced(bus, operation))
    trace, why = traced
    return MigrationFacts(view, measured, trace, why)


async def measured_around(bus: Bus, view: OperationView) -> ReadSeries:
    """Return measurements of an operation's job, from some time before it to some time after it."""
    since, until = view.begun_at - AROUND, (view.ended_at or now()) + AROUND
    span_s = (until - since).total_seconds()
    step_s = math.ceil(span_s / FINE_POINTS) if span_s > 2 * FINE_POINTS else None
    return await measured(bus, [view.job], since, until, step_s)


async def pipeline_facts(bus: Bus, pipeline: str) -> PipelineFacts:
    """Return all facts about a pipeline. Raises `TowpathError` when the coordinator does not know it."""
    view = await bus.request(ShowPipeline(pipeline=pipeline), deadline_s=LOOK_S, attempt_s=ATTEMPT_S)
    since = now() - PIPELINE_SPAN
    names = [job.name for job in view.spec.jobs]
    versions, listed, found = await asyncio.gather(
        pipeline_versions(bus, pipeline, deadline_s=LOOK_S, attempt_s=ATTEMPT_S),
        bus.request(ListJobs(), deadline_s=LOOK_S, attempt_s=ATTEMPT_S),
        measured(bus, names, since, None, PIPELINE_STEP_S),
    )
    jobs = [job for job in listed.jobs if job.spec.name in names]
    return PipelineFacts(view, versions, jobs, found)


async def measured(
    bus: Bus, jobs: list[str], since: datetime, until: datetime | None, step_s: float | None
) -> ReadSeries:
    """Return measurements of jobs from all sites, with points every `step_s` seconds. None: as sampled."""
    series: list[Series] = []
    unreached: dict[str, str] = {}
    for begin in range(0, len(jobs), ENTITIES):
        query = QueryMetrics(
            metrics=list(JOB_METRICS),
            entities=[f"job:{job}" for job in jobs[begin : begin + ENTITIES]],
            since=since,
            until=until,
            step_s=step_s,
            limit=MAX_POINTS,
        )
        try:
            found = await bus.request(query, deadline_s=MEASURES_S)
        except TowpathError as error:
            return ReadSeries(series, unreached, f"the collector could not be asked ({error.detail.message})")
        series += found.series
        unreached |= found.unreached
    return ReadSeries(series, unreached)


async def _traced(bus: Bus, operation: str) -> tuple[Trace | None, str | None]:
    try:
        return await bus.request(ShowTrace(about=operation), deadline_s=MEASURES_S), None
    except TowpathError as error:
        return None, error.detail.message


async def pipeline_versions(
    bus: Bus, pipeline: str, *, deadline_s: float, attempt_s: float
) -> list[PipelineVersion]:
    """Return versions, newest first. Raises `TowpathError` if the coordinator does not know the pipeline."""
    found: list[PipelineVersion] = []
    before: int | None = None
    while True:
        question = ShowPipelineHistory(pipeline=pipeline, before=before)
        answer = await bus.request(question, deadline_s=deadline_s, attempt_s=attempt_s)
        found += answer.versions
        if answer.older is None:
            return found
        before = answer.older + 1
