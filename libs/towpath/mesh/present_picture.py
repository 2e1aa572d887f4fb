"""Ask coordinator and collector for the picture of the mesh that placement looks at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta

from towpath.bus import Bus
from towpath.composition.measurements import Measurements
from towpath.composition.mesh_view import BATCHES, NEWEST, RATES, Picture, picture
from towpath.contracts.commands import JobList, ListJobs, ListSites
from towpath.contracts.message import now
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics, SeriesList
from towpath.contracts.pipeline_commands import ListPipelines
from towpath.contracts.site import SiteSpec, SiteState

ASK_S = 5.0
"""Deadline of a question to the coordinator."""

RATES_S = 300.0
"""Rates and CPU time are means of so many seconds, because a micro-batch takes much at once."""

POINTS = 5
"""Points of each rate within that time: enough to see what rises."""


COURSE_S, COURSE_POINTS = 600.0, 120
"""The course of micro-batches over so many seconds, in so many points."""


async def present_picture(
    bus: Bus,
    specs: Callable[[], list[SiteSpec]],
    query: Callable[[QueryMetrics], Awaitable[SeriesList]],
    jobs: JobList,
    *,
    rates_s: float = RATES_S,
    movable: Collection[str] | None = None,
) -> Picture:
    """Return the picture of the sites that are up, and of `jobs` at them. Raises `TowpathError`.

    `specs` returns the settings of all sites, and blocks. `query` answers for the collector.
    """
    statuses = (await bus.request(ListSites(), deadline_s=ASK_S)).sites
    pipelines = (await bus.request(ListPipelines(), deadline_s=ASK_S)).pipelines
    up = {status.site for status in statuses if status.state is not SiteState.DOWN}
    sites = [spec for spec in await asyncio.to_thread(specs) if spec.name in up]
    described = {job.name: job for view in pipelines for job in view.spec.jobs}
    measured = await _measured(query, rates_s)
    return picture(sites, jobs.jobs, described, measured, time.time(), movable)


async def present_jobs(bus: Bus) -> JobList:
    """Return the jobs of the mesh. Raises `TowpathError`."""
    return await bus.request(ListJobs(), deadline_s=ASK_S)


async def _measured(query: Callable[[QueryMetrics], Awaitable[SeriesList]], rates_s: float) -> Measurements:
    since = now() - timedelta(seconds=rates_s)
    newest = QueryMetrics(metrics=[*NEWEST], limit=MAX_POINTS)
    rates = QueryMetrics(metrics=[*RATES], since=since, step_s=rates_s / POINTS, limit=MAX_POINTS)
    long = now() - timedelta(seconds=COURSE_S)
    batches = QueryMetrics(metrics=[*BATCHES], since=long, step_s=COURSE_S / COURSE_POINTS, limit=MAX_POINTS)
    found = await asyncio.gather(*map(query, (newest, rates, batches)))
    return Measurements(series for each in found for series in each.series)
