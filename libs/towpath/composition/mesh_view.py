"""Make the picture of a mesh that placement looks at, of its jobs and of what was measured. Pure functions.

A job needs the cores that its pipeline says, else its part of what its site's engine uses: the part of all
micro-batches that are under way at a time. Larger micro-batches take longer: how much longer is what an event
costs, and the rest is what micro-batches cost however few events come. A job that falls behind spends all on
its events.

Events come in as fast as jobs read them and their backlogs grow. A site where a job falls behind has no more
cores than its engine uses now, whatever it says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from towpath.composition.measurements import Measurements
from towpath.contracts.commands import JobView
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics_table import AVAILABILITY
from towpath.contracts.pipeline import PipelineJob
from towpath.contracts.site import SiteSpec
from towpath.placement.jobs.view import Job, Link, MeshView, Site, Source

RATES = ("job.event_rate", "job.result_rate", "job.backlog", "process.cpu.utilization")
"""Metrics of which the picture has the mean of some minutes, or how they rose."""

NEWEST = (
    *("job.checkpoint.size", "job.state.memory", "stream.size", "stream.events", "stream.event_rate"),
    *("link.round_trip", "link.bandwidth", "site.battery.charge", AVAILABILITY),
)
"""Metrics of which it has the newest value."""

BATCHES = EVENTS, DURATION = ("job.batch.events", "job.latency.processing.p50")
"""Metrics of which the picture has the course over some minutes: events and duration of micro-batches."""

LEAST_RATE = 0.001
"""Events/s of a source that is silent, so that the needs of its jobs count."""

EVENT_BYTES = 200.0
"""Size of an event where none is known."""

UNLIMITED_MB = 1e9
"""Memory of a site that does not say what it has."""

UNKNOWN_CORES = 2
"""Cores of a site whose engine takes all of its machine, and that does not say how many these are."""

MEBIBYTE = 1024**2

BEHIND_S = 5.0
"""A job has fallen behind when what waits would take it so many seconds."""


@dataclass(frozen=True)
class Picture:
    """The view, and what else a proposal tells."""

    view: MeshView
    stays: Mapping[str, str]
    """Job that must not move → why."""
    waiting: Mapping[str, float]
    """Job → core-seconds of work that wait: its backlog, less what comes between two micro-batches."""
    measured: Measurements


def picture(
    sites: Sequence[SiteSpec],
    jobs: Sequence[JobView],
    described: Mapping[str, PipelineJob],
    measured: Measurements,
    now: float,
    movable: Collection[str] | None = None,
) -> Picture:
    """Return the picture of the sites that are up, and of the jobs at them.

    `described` has the jobs of pipelines. Only `movable` jobs may move; None for all.
    """
    names = {site.name for site in sites}
    present = [job for job in jobs if job.site in names]
    stays = {job.spec.name: why for job in present if (why := _bound(job, described, movable))}
    streams = {(job.output.home_site, job.output.stream): job.spec.name for job in present}
    cores = _cores(present, described, measured)
    idle = MeshView(
        sites=tuple(_site(site, measured) for site in sites),
        links=tuple(_priced(measured.links(sorted(names)), sites)),
        sources=tuple(_sources(present, streams, measured, names)),
        jobs=tuple(_job(job, streams, described, measured, names, stays) for job in present),
        age_s=max(measured.age_s(now), 0.0),
    )
    costs = {job.spec.name: _costs(job, cores, idle, described, measured) for job in present}
    costs = _possible(costs, present, idle, measured)
    waiting = {job.spec.name: _waiting(job, measured, costs[job.spec.name][0]) for job in present}
    view = replace(
        idle,
        jobs=tuple(
            replace(job, cpu_s_per_event=costs[job.name][0], fixed_cores=costs[job.name][1])
            for job in idle.jobs
        ),
        sites=tuple(_limited(site, present, measured) for site in idle.sites),
    )
    return Picture(view, stays, waiting, measured)


def _costs(
    job: JobView,
    cores: Mapping[str, float],
    view: MeshView,
    described: Mapping[str, PipelineJob],
    measured: Measurements,
) -> tuple[float, float]:
    """Return the CPU seconds of an event, and the cores that a job needs beside."""
    name = job.spec.name
    rate = _read(job, measured) or max(sum(view.rates_out[n] for n in view.job[name].inputs), LEAST_RATE)
    slope = measured.slope(job.site, f"job:{name}", EVENTS, DURATION)
    is_said = name in described and described[name].resources.cores
    if slope is None or is_said or _falls_behind(job, measured):
        return cores[name] / rate, 0.0
    cost = max(slope, 0.0)
    return cost, max(cores[name] - cost * rate, 0.0)


def _possible(
    costs: Mapping[str, tuple[float, float]], jobs: Sequence[JobView], view: MeshView, measured: Measurements
) -> dict[str, tuple[float, float]]:
    """Return costs with which jobs cannot have spent more on events than their site has.

    Where jobs wait for each other's micro-batches, these take longer than their events cost.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for job in jobs:
        spent[job.site] += costs[job.spec.name][0] * _read(job, measured)
    had = {site: max(view.site[site].cores, _used(site, measured)) for site in spent}
    shares = {site: min(1.0, had[site] / total) for site, total in spent.items() if total}
    places = {job.spec.name: job.site for job in jobs}
    return {name: (cost * shares.get(places[name], 1.0), fixed) for name, (cost, fixed) in costs.items()}


def _read(job: JobView, measured: Measurements) -> float:
    """Return the events/s that a job reads."""
    return measured.value(job.site, f"job:{job.spec.name}", "job.event_rate") or 0.0


def _waiting(job: JobView, measured: Measurements, cpu_s_per_event: float) -> float:
    """Return the core-seconds of a job's backlog, without what comes within two micro-batches."""
    batch_s = (job.status.batch_s if job.status is not None else None) or 0.0
    usual = 2 * _read(job, measured) * (job.spec.trigger_s + batch_s)
    backlog = measured.newest(job.site, f"job:{job.spec.name}", "job.backlog") or 0.0
    return max(backlog - usual, 0.0) * cpu_s_per_event


def _falls_behind(job: JobView, measured: Measurements) -> bool:
    """True if a job's backlog grows, and is more than it reads in some seconds.

    One that reads nothing at times is not slow: it starts, or is held up.
    """
    entity = f"job:{job.spec.name}"
    if not measured.least(job.site, entity, "job.event_rate"):
        return False
    backlog = measured.newest(job.site, entity, "job.backlog") or 0.0
    rises = measured.rise_per_s(job.site, entity, "job.backlog") > 0
    return rises and backlog > _read(job, measured) * (BEHIND_S + 2 * job.spec.trigger_s)


def _limited(site: Site, jobs: Iterable[JobView], measured: Measurements) -> Site:
    """Return a site that has no more cores than it uses, if a job there falls behind."""
    used = _used(site.name, measured)
    if used and any(job.site == site.name and _falls_behind(job, measured) for job in jobs):
        return replace(site, cores=min(site.cores, used))
    return site


def _bound(job: JobView, described: Mapping[str, PipelineJob], movable: Collection[str] | None) -> str | None:
    """Return why a job must stay where it is."""
    if movable is not None and job.spec.name not in movable:
        return "not asked to move"
    if job.operation is not None:
        return "an operation is under way"
    known = described.get(job.spec.name)
    if known is not None and (known.placement.beside or known.placement.apart_from):
        return "its place depends on other jobs"
    return None


def _site(spec: SiteSpec, measured: Measurements) -> Site:
    cores = spec.capacity.cores or spec.engine.cores or UNKNOWN_CORES
    memory_mb = spec.capacity.memory_mb or UNLIMITED_MB
    power = spec.power
    charge = measured.newest(spec.name, "site", "site.battery.charge") if power.battery else None
    stability = measured.newest(HUB_SCOPE, f"site:{spec.name}", AVAILABILITY)
    return Site(
        spec.name,
        cores,
        memory_mb,
        power.idle_w,
        power.active_w,
        on_battery=power.battery,
        battery_share=1.0 if charge is None else charge,
        stability=1.0 if stability is None else stability,
    )


def _priced(links: Iterable[Link], sites: Iterable[SiteSpec]) -> Iterator[Link]:
    """Yield links with the price of a byte: it passes the links of both sites."""
    prices = {site.name: site.link.price_per_gb / 1e9 for site in sites}
    for link in links:
        yield replace(link, price_per_byte=prices[link.origin] + prices[link.target])


def source_of(entry: tuple[str, str, str | None]) -> str:
    """Return the name of a source: of a site's stream, the messages on a subject, or all of them."""
    site, stream, subject = entry
    return f"{site}/{stream}/{subject or '*'}"


def _sources(
    jobs: Iterable[JobView],
    streams: Mapping[tuple[str, str], str],
    measured: Measurements,
    sites: Collection[str],
) -> Iterator[Source]:
    """Yield the streams that no job here writes. The rate is the largest that one of its readers has."""
    rates: defaultdict[tuple[str, str, str | None], float] = defaultdict(lambda: LEAST_RATE)
    for job in jobs:
        outside = [entry.place for entry in job.inputs if (entry.site, entry.stream) not in streams]
        grows = measured.rise_per_s(job.site, f"job:{job.spec.name}", "job.backlog")
        rate = max(_read(job, measured) + grows, 0.0)
        for place in outside:
            rates[place] = max(rates[place], rate / len(job.inputs))
    for (site, stream, subject), rate in rates.items():
        if site in sites:
            size = event_bytes(site, stream, measured)
            yield Source(source_of((site, stream, subject)), site, rate, size)


def _job(
    job: JobView,
    streams: Mapping[tuple[str, str], str],
    described: Mapping[str, PipelineJob],
    measured: Measurements,
    sites: Collection[str],
    stays: Mapping[str, str],
) -> Job:
    name, known = job.spec.name, described.get(job.spec.name)
    entity = f"job:{name}"
    read = _read(job, measured)
    made = measured.value(job.site, entity, "job.result_rate") or 0.0
    state_mb = (measured.value(job.site, entity, "job.state.memory") or 0.0) / MEBIBYTE
    allowed = {*sites}
    if known is not None:
        allowed &= {*(known.placement.allowed or sites)} - {*known.placement.forbidden}
    inputs = [
        streams.get((entry.site, entry.stream)) or source_of(entry.place)
        for entry in job.inputs
        if entry.site in sites
    ]
    return Job(
        name=name,
        inputs=tuple(dict.fromkeys(each for each in inputs if each != name)),
        cpu_s_per_event=0.0,
        memory_mb=known.resources.memory_mb if known and known.resources.memory_mb else state_mb,
        factor=made / read if read else 0.0,
        bytes_per_event=event_bytes(job.output.site, job.output.stream, measured),
        state_bytes=measured.value(job.site, entity, "job.checkpoint.size") or 0.0,
        allowed=frozenset(allowed | {job.site}),
        pinned=job.site if name in stays else None,
        output_site=job.output.site if job.output.site in sites else None,
    )


def event_bytes(site: str, stream: str, measured: Measurements) -> float:
    """Return the mean size of an event. Too small where the stream has dropped its oldest ones."""
    size = measured.value(site, f"stream:{stream}", "stream.size")
    events = measured.value(site, f"stream:{stream}", "stream.events")
    return size / events if size and events else EVENT_BYTES


def _cores(
    jobs: Sequence[JobView], described: Mapping[str, PipelineJob], measured: Measurements
) -> dict[str, float]:
    """Return the cores that each job needs."""
    busy: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for job in jobs:
        busy[job.site][job.spec.name] = _busy(job)
    found = {}
    for site, shares in busy.items():
        used = _used(site, measured)
        together = sum(shares.values()) or 1.0
        for name, share in shares.items():
            said = described[name].resources.cores if name in described else 0.0
            found[name] = said or used * share / together
    return found


def _used(site: str, measured: Measurements) -> float:
    """Return the cores that the engine of a site uses."""
    return measured.value(site, "process:engine", "process.cpu.utilization") or 0.0


def _busy(job: JobView) -> float:
    """Return the part of the time that a micro-batch of the job is under way."""
    batch_s = job.status.batch_s if job.status is not None else None
    if not batch_s:
        return 0.0
    return min(batch_s / max(job.spec.trigger_s, batch_s), 1.0)
