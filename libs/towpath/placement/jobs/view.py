"""The picture of a mesh that placement looks at: sites, links, sources and jobs, as they were `age_s` ago."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

Placement = Mapping[str, str]
"""Job → site. A job runs whole at one site."""

Pair = tuple[str, str]
"""Two sites: from, to."""


@dataclass(frozen=True)
class Site:
    """A site, with what jobs may use of it."""

    name: str
    cores: float
    """Cores that jobs may use, less what others use already. The unit is the core on which `cpu_s_per_event`
    was measured, so a core of twice the clock counts as two."""
    memory_mb: float
    idle_w: float = 0.0
    active_w: float = 0.0
    """Power when all cores are busy."""
    on_battery: bool = False
    battery_share: float = 1.0
    """Charge left, from 0 to 1."""
    stability: float = 1.0
    """From 0 to 1, for callers that avoid unstable sites: see `avoiding`."""
    energy_price: float = 1.0
    """Price of energy there, in times of the usual one."""

    def __post_init__(self) -> None:
        for what in ("cores", "memory_mb", "idle_w", "active_w", "energy_price"):
            _check(f"site {self.name!r}: {what}", getattr(self, what))
        _check(f"site {self.name!r}: battery_share", self.battery_share, 1)
        _check(f"site {self.name!r}: stability", self.stability, 1)

    @property
    def w_per_core(self) -> float:
        """Power that each busy core adds: power is linear in utilisation."""
        return (self.active_w - self.idle_w) / self.cores if self.cores else 0.0


@dataclass(frozen=True)
class Link:
    """The way from one site to another. It also serves the way back unless that has a link of its own."""

    origin: str
    target: str
    latency_s: float
    bytes_per_s: float = math.inf
    loss: float = 0.0
    """Share of packets lost. Each is sent again, so a transfer takes 1 / (1 − loss) times as long."""
    price_per_byte: float = 0.0

    def __post_init__(self) -> None:
        where = f"link {self.origin!r} → {self.target!r}"
        for what in ("latency_s", "bytes_per_s", "price_per_byte"):
            _check(f"{where}: {what}", getattr(self, what))
        if not 0 <= self.loss < 1:
            raise ValueError(f"{where}: loss is {self.loss}; allowed: from 0 to below 1")
        if self.bytes_per_s == 0:
            raise ValueError(f"{where}: bytes_per_s is 0; leave the link out")

    def transfer_s(self, size_bytes: float) -> float:
        """Return the seconds until the last byte has arrived."""
        return (self.latency_s + size_bytes / self.bytes_per_s) / (1 - self.loss)


@dataclass(frozen=True)
class Source:
    """A stream that devices send to one site, where it stays."""

    name: str
    site: str
    events_per_s: float
    bytes_per_event: float = 0.0

    def __post_init__(self) -> None:
        _check(f"source {self.name!r}: events_per_s", self.events_per_s)
        _check(f"source {self.name!r}: bytes_per_event", self.bytes_per_event)


@dataclass(frozen=True)
class Job:
    """A job that needs a place."""

    name: str
    inputs: tuple[str, ...]
    """Names of jobs and sources."""
    cpu_s_per_event: float
    memory_mb: float
    factor: float = 1.0
    """Events out for each event in: the selectivity."""
    bytes_per_event: float = 0.0
    """Size of an event that it publishes."""
    state_bytes: float = 0.0
    """Size of the state that moves with it."""
    check_cpu_s_per_event: float | None = None
    """CPU of a data-quality check, for each event that comes directly from a source. None: no check."""
    check_memory_mb: float = 0.0
    """Memory of the check when it looks at all events."""
    allowed: frozenset[str] | None = None
    """Sites that may run it. None: all."""
    pinned: str | None = None
    """The only site that may run it."""
    output_site: str | None = None
    """The site that keeps what it publishes: jobs read it there, wherever it runs. None: where it runs."""
    fixed_cores: float = 0.0
    """Cores that it needs however few events come, for its micro-batches. They take it nothing of what it can
    do: when there is much to do, micro-batches become larger and fewer."""

    def __post_init__(self) -> None:
        costs = ("cpu_s_per_event", "fixed_cores", "memory_mb")
        for what in (*costs, "factor", "bytes_per_event", "state_bytes"):
            _check(f"job {self.name!r}: {what}", getattr(self, what))
        _check(f"job {self.name!r}: check_cpu_s_per_event", self.check_cpu_s_per_event or 0)
        _check(f"job {self.name!r}: check_memory_mb", self.check_memory_mb)
        if len({*self.inputs}) < len(self.inputs):
            raise ValueError(f"job {self.name!r}: an input is named twice")

    def may_run_at(self, site: str) -> bool:
        """True if the job is allowed at a site."""
        if self.pinned is not None:
            return site == self.pinned
        return self.allowed is None or site in self.allowed


@dataclass(frozen=True)
class MeshView:
    """Everything that a policy knows.

    Raise `ValueError` if a name is unknown or there twice, or if jobs form a cycle.
    """

    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    sources: tuple[Source, ...]
    jobs: tuple[Job, ...]
    age_s: float = 0.0
    """Age of the oldest measurement in it."""
    batch_s: float = 1.0
    """Period of micro-batches: what a link carries at once is the batch of one period."""
    hop_penalty_s: float = 0.0
    """Added to each transfer between two sites: α of EQUALITY, a fifth or a tenth of the mean latency."""
    joules_per_byte: float = 0.0
    """Energy to send a byte from one site to another."""

    def __post_init__(self) -> None:
        for what in ("age_s", "batch_s", "hop_penalty_s", "joules_per_byte"):
            _check(what, getattr(self, what))
        known = {site.name for site in self.sites}
        _check_unique("site", [site.name for site in self.sites])
        _check_unique("job or source", [one.name for one in (*self.sources, *self.jobs)])
        if len({(link.origin, link.target) for link in self.links}) < len(self.links):
            _check_unique("link", [f"{link.origin} → {link.target}" for link in self.links])
        for link in self.links:
            if link.origin not in known or link.target not in known:
                _check_known(f"link {link.origin!r} → {link.target!r}", (link.origin, link.target), known)
        for source in self.sources:
            _check_known(f"source {source.name!r}", (source.site,), known)
        inputs = {one.name for one in (*self.sources, *self.jobs)}
        for job in self.jobs:
            named = (*(job.allowed or ()), *filter(None, (job.pinned, job.output_site)))
            _check_known(f"job {job.name!r}", named, known)
            _check_known(f"job {job.name!r}: input", job.inputs, inputs)
        _ = self.order

    @cached_property
    def site(self) -> Mapping[str, Site]:
        """Name → site."""
        return {site.name: site for site in self.sites}

    @cached_property
    def job(self) -> Mapping[str, Job]:
        """Name → job."""
        return {job.name: job for job in self.jobs}

    @cached_property
    def source(self) -> Mapping[str, Source]:
        """Name → source."""
        return {source.name: source for source in self.sources}

    @cached_property
    def link(self) -> Mapping[Pair, Link]:
        """Pair of sites → link, for both directions."""
        back = {(link.target, link.origin): link for link in self.links}
        return {**back, **{(link.origin, link.target): link for link in self.links}}

    @cached_property
    def order(self) -> tuple[Job, ...]:
        """Jobs, each after its inputs; otherwise in the order of the view."""
        done = {source.name for source in self.sources}
        left = [*self.jobs]
        ordered: list[Job] = []
        while left:
            ready = next((job for job in left if done.issuperset(job.inputs)), None)
            if ready is None:
                raise ValueError(f"jobs wait for each other: {', '.join(job.name for job in left)}")
            left.remove(ready)
            ordered.append(ready)
            done.add(ready.name)
        return tuple(ordered)

    @cached_property
    def rates_out(self) -> Mapping[str, float]:
        """Job or source → events/s that it publishes."""
        rates = {source.name: source.events_per_s for source in self.sources}
        for job in self.order:
            rates[job.name] = job.factor * sum(rates[name] for name in job.inputs)
        return rates

    @cached_property
    def bytes_out(self) -> Mapping[str, float]:
        """Job or source → bytes/s that it publishes."""
        sizes = {one.name: one.bytes_per_event for one in (*self.sources, *self.jobs)}
        return {name: rate * sizes[name] for name, rate in self.rates_out.items()}

    def kept_at(self, placement: Placement) -> dict[str, str]:
        """Return for each job and source the site that keeps what it publishes."""
        outputs = {job.name: job.output_site or placement[job.name] for job in self.jobs}
        return {**outputs, **{source.name: source.site for source in self.sources}}

    def cores_of(self, job: Job) -> float:
        """Return the cores that a job needs, for its micro-batches and its events."""
        return job.fixed_cores + self.event_cores_of(job)

    def event_cores_of(self, job: Job) -> float:
        """Return the cores that a job's events need: events/s in times CPU seconds for each."""
        return job.cpu_s_per_event * sum(self.rates_out[name] for name in job.inputs)

    def check_cores_of(self, job: Job) -> float:
        """Return the cores that a job's check needs to look at all events from its sources."""
        rate = sum(self.source[name].events_per_s for name in job.inputs if name in self.source)
        return rate * (job.check_cpu_s_per_event or 0)

    def transfer_s(self, producer: str, origin: str, target: str) -> float:
        """Return the seconds in which a batch of a job or source gets to a site. Infinite without a link."""
        if origin == target:
            return 0.0
        link = self.link.get((origin, target))
        if link is None:
            return math.inf
        return link.transfer_s(self.bytes_out[producer] * self.batch_s) + self.hop_penalty_s


def avoiding(view: MeshView, sites: Collection[str]) -> MeshView:
    """Return the view without some sites as places: slow, unstable or soon to end. Pinned jobs stay there."""
    left = frozenset(site.name for site in view.sites) - {*sites}
    jobs = (replace(job, allowed=left if job.allowed is None else left & job.allowed) for job in view.jobs)
    return replace(view, jobs=tuple(jobs))


def barring(view: MeshView, moves: Collection[tuple[str, str]]) -> MeshView:
    """Return the view without some places for some jobs, given by job and site. Pinned jobs stay there."""

    def allowed(job: Job) -> frozenset[str]:
        return frozenset(name for name in view.site if job.may_run_at(name) and (job.name, name) not in moves)

    return (
        replace(view, jobs=tuple(replace(job, allowed=allowed(job)) for job in view.jobs)) if moves else view
    )


def _check(what: str, value: float, most: float = math.inf) -> None:
    if not 0 <= value <= most:
        allowed = "0 and more" if most == math.inf else f"from 0 to {most}"
        raise ValueError(f"{what} is {value}; allowed: {allowed}")


def _check_unique(kind: str, names: list[str]) -> None:
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{kind} {twice!r} is there twice; names must be unique")


def _check_known(where: str, names: Iterable[str], known: Collection[str]) -> None:
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise ValueError(f"{where}: {unknown!r} is unknown; known: {', '.join(sorted(known))}")
