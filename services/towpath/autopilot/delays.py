"""Measure how far the runs of jobs are behind the events that come in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from math import inf, isfinite

from towpath.bus import Bus
from towpath.composition.measurements import Measurements
from towpath.contracts.commands import JobView
from towpath.contracts.message import now
from towpath.contracts.metrics import QueryMetrics
from towpath.mesh.present_picture import ASK_S
from towpath.placement.autopilot.twins import expected_delay_s, limit_s

LATENCY, BATCH = "job.latency.end_to_end.p99", "job.latency.processing.p95"
BACKLOG, RATE = "job.backlog", "job.event_rate"

RECENT_S = 15.0
"""Measurements of so many seconds count: an agent takes one in two to five."""


@dataclass(frozen=True)
class Delays:
    """The delays of runs of jobs, seconds."""

    measured: Measurements

    def of_run(self, job: JobView, site: str) -> float:
        """Return the delay of a job's run at a site, from its micro-batches. Infinite if it says nothing."""
        entity = f"job:{job.spec.name}"
        batch_s = self.measured.value(site, entity, BATCH) or 0.0
        backlog = self.measured.newest(site, entity, BACKLOG)
        if backlog is None:
            return inf
        if self.measured.count(site, entity, BACKLOG) < 2:
            return job.spec.trigger_s + batch_s  # It has just begun: a backlog says nothing yet.
        # What comes in: both runs read it, and the backlog of one that stands still rises by it.
        rates = [self.measured.value(each, entity, RATE) or 0.0 for each in self.measured.sites_of(entity)]
        rates.append(self.measured.rise_per_s(site, entity, BACKLOG))
        return expected_delay_s(batch_s, job.spec.trigger_s, backlog, max(rates))

    def of_job(self, job: JobView) -> float:
        """Return the delay of the owner's run: as measured at its results, or as it has to be expected."""
        results_s = self.measured.most(job.site, f"job:{job.spec.name}", LATENCY) or 0.0
        return max(results_s, self.of_run(job, job.site))

    def why_slow(self, job: JobView, jobs: Iterable[JobView]) -> str | None:
        """Return for people why a job is too slow; None if it is not."""
        delay_s, limit = self.of_job(job), self.limit_s(job, jobs)
        if delay_s <= limit:
            return None
        takes = f"take {delay_s:.1f} s" if isfinite(delay_s) else "do not come"
        return f"results of {job.spec.name} at {job.site} {takes}; they may take {limit:.1f} s"

    def limit_s(self, job: JobView, jobs: Iterable[JobView]) -> float:
        """Return the delay above which a job is slow by its quality of service."""
        qos = job.spec.qos
        if qos is None:
            return inf
        equals = [self.of_job(each) for each in jobs if each.spec.operator == job.spec.operator]
        return limit_s(qos.latency_p99_s, qos.straggler, equals)


async def measured_delays(bus: Bus) -> Delays:
    """Return the present delays of all jobs. Raises `TowpathError`."""
    asked = QueryMetrics(
        metrics=[LATENCY, BATCH, BACKLOG, RATE],
        entities=["job:*"],
        since=now() - timedelta(seconds=RECENT_S),
    )
    return Delays(Measurements((await bus.request(asked, deadline_s=ASK_S)).series))
