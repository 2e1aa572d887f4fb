"""Join answers of coordinator and collector into the view of `towpath top`. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from towpath.contracts.commands import JobView, OperationKind, OperationState, OperationView, StrategyName
from towpath.contracts.job import JobState
from towpath.contracts.message import Model
from towpath.contracts.metrics import SeriesList
from towpath.contracts.site import SiteState, SiteStatus

STALE_S = 20.0
"""A sample that is so much older than its site's newest is out of date: the job may have left."""

STALE_LINK_S = 60.0
"""The same for links. They are measured less often."""

MB = 1024**2
"""Of heartbeats, bytes."""


class SiteRow(Model):
    """A site."""

    site: str
    state: SiteState
    cores: float | None = None
    """Share used by its processes; null: not known."""
    memory_bytes: float | None = None
    """Resident memory of its processes."""
    machine_cores: float | None = None
    """Used on its machine by all processes."""
    memory_available_bytes: float | None = None
    """Free on its machine."""
    error: str | None = None


class JobRow(Model):
    """A job, with figures of the site where it runs."""

    job: str
    site: str
    state: JobState | None
    events_per_s: float | None = None
    results_per_s: float | None = None
    latency_p95_s: float | None = None
    """Time from the storing of the newest event in a result to the storing of the result, 95th percentile."""
    backlog: float | None = None
    """Events."""
    state_bytes: float | None = None
    """Memory of the state."""
    checkpoint_bytes: float | None = None
    error: str | None = None


class OperationRow(Model):
    """An operation under way on a job."""

    operation: str
    kind: OperationKind
    job: str
    state: OperationState
    source: str | None
    target: str | None
    strategy: StrategyName | None
    step: str | None
    """The newest step in its journal."""
    since_s: float


class LinkRow(Model):
    """The link from one site, or the hub, to another."""

    source: str
    target: str
    round_trip_s: float | None = None
    bandwidth_bytes_per_s: float | None = None


class MeshView(Model):
    """Everything `towpath top` shows."""

    at: datetime
    figures: Literal["collector", "heartbeats"]
    """Source of the figures. Heartbeats have fewer."""
    sites: list[SiteRow]
    jobs: list[JobRow]
    operations: list[OperationRow]
    links: list[LinkRow]
    notes: list[str] = []
    """Missing parts, with the reasons."""


class Newest:
    """Return the newest sample of each series, without outdated ones."""

    def __init__(self, found: SeriesList | None) -> None:
        self._values: dict[tuple[str, str, str], float] = {}
        newest: defaultdict[str, float] = defaultdict(float)
        series = [one for one in found.series if one.points] if found else []
        for one in series:
            newest[one.site] = max(newest[one.site], one.points[-1][0])
        for one in series:
            at, value = one.points[-1]
            limit = STALE_LINK_S if one.entity.startswith("link:") else STALE_S
            if at >= newest[one.site] - limit:
                self._values[(one.site, one.entity, one.metric)] = value

    def of(self, site: str, entity: str, metric: str) -> float | None:
        """Return a value, if there is one."""
        return self._values.get((site, entity, metric))

    def sum_over(self, site: str, kind: str, metric: str) -> float | None:
        """Return the sum over all entities of a kind at a site; None if there is none."""
        wanted = (site, metric)
        values = [
            value
            for (place, entity, name), value in self._values.items()
            if (place, name) == wanted and entity.startswith(f"{kind}:")
        ]
        return sum(values) if values else None

    def links(self) -> list[tuple[str, str]]:
        """Return the ends of measured links: from, to."""
        return sorted(
            {(site, entity.removeprefix("link:")) for site, entity, _ in self._values if "link:" in entity}
        )


def site_rows(sites: Iterable[SiteStatus], newest: Newest) -> list[SiteRow]:
    """Return a row for each site, by name."""
    return [_site_row(status, newest) for status in sorted(sites, key=lambda status: status.site)]


def _site_row(status: SiteStatus, newest: Newest) -> SiteRow:
    name = status.site
    memory = newest.sum_over(name, "process", "process.memory.usage")
    if memory is None and status.processes:
        memory = sum(process.memory_mb for process in status.processes) * MB
    return SiteRow(
        site=name,
        state=status.state,
        cores=newest.sum_over(name, "process", "process.cpu.utilization"),
        memory_bytes=memory,
        machine_cores=newest.of(name, "site", "site.cpu.utilization"),
        memory_available_bytes=newest.of(name, "site", "site.memory.available"),
        error=status.error,
    )


def job_rows(jobs: Iterable[JobView], newest: Newest, results_per_s: Mapping[str, float]) -> list[JobRow]:
    """Return a row for each job, by name. `results_per_s` is used if the collector knows no rate."""
    return [
        _job_row(view, newest, results_per_s.get(view.spec.name))
        for view in sorted(jobs, key=lambda view: view.spec.name)
    ]


def _job_row(view: JobView, newest: Newest, counted_per_s: float | None) -> JobRow:
    def measured(metric: str) -> float | None:
        return newest.of(view.site, f"job:{view.spec.name}", metric)

    status = view.status
    events = measured("job.event_rate")
    results = measured("job.result_rate")
    return JobRow(
        job=view.spec.name,
        site=view.site,
        state=view.state,
        events_per_s=events if events is not None else status and status.events_per_s,
        results_per_s=results if results is not None else counted_per_s,
        latency_p95_s=measured("job.latency.end_to_end.p95"),
        backlog=measured("job.backlog"),
        state_bytes=measured("job.state.memory"),
        checkpoint_bytes=measured("job.checkpoint.size"),
        error=status and status.error,
    )


def operation_rows(views: Iterable[OperationView], now: datetime) -> list[OperationRow]:
    """Return a row for each operation that has not ended, the oldest first."""
    return [
        OperationRow(
            operation=view.operation,
            kind=view.kind,
            job=view.job,
            state=view.state,
            source=view.source,
            target=view.target,
            strategy=view.strategy,
            step=view.journal[-1].step if view.journal else None,
            since_s=max(0.0, (now - view.begun_at).total_seconds()),
        )
        for view in sorted(views, key=lambda view: view.begun_at)
        if view.ended_at is None
    ]


def link_rows(newest: Newest) -> list[LinkRow]:
    """Return a row for each measured direction."""
    return [
        LinkRow(
            source=source,
            target=target,
            round_trip_s=newest.of(source, f"link:{target}", "link.round_trip"),
            bandwidth_bytes_per_s=newest.of(source, f"link:{target}", "link.bandwidth"),
        )
        for source, target in newest.links()
    ]


def result_rates(before: Sequence[JobView], after: Sequence[JobView], seconds: float) -> dict[str, float]:
    """Return job → results per second between two looks, without queries that restarted in between."""
    if seconds <= 0:
        return {}
    counts = {view.spec.name: (view.epoch, view.status.results) for view in before if view.status}
    rates: dict[str, float] = {}
    for view in after:
        epoch, count = counts.get(view.spec.name, (None, 0))
        if view.status is not None and epoch == view.epoch and view.status.results >= count:
            rates[view.spec.name] = (view.status.results - count) / seconds
    return rates
