"""Figures of a placement: latency, power, bytes over links, checked data, and what is short.

All formulas are here, for one placement and readable. `scores.py` computes the same for many at once.

- Latency (critical path, RAINBOW D4.2 and EQUALITY, Information Systems 105, 2022): the slowest path from a
  source to a job that no other job reads; a step is the transfer of one batch, `MeshView.transfer_s`.
  Execution is neglected, as there: a placement counts only if each site has the cores it needs. EQUALITY's
  link penalty α·n is α for each step between two sites, because n, the sites that receive one site's share
  of a job, is 1 when jobs run whole.
- Power: each site is on, and adds (active − idle) times its utilisation; joules per byte sent, if known.
- Bytes: a site that has several readers of one stream receives it once, as mirrors do. Links may have a price
  of a byte; the price of a placement is that of an hour.
- Checked data (EQUALITY): jobs that read a source check its data with what jobs leave of cores and memory.
  The checks of one site look at the same share of their data. The result is the mean over sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from towpath.placement.jobs.view import Job, MeshView, Pair, Placement, Site

SECONDS_PER_H = 3600.0

TOLERANCE = 1e-9
"""Sums of the same numbers in another order differ by less."""


@dataclass(frozen=True)
class Shortage:
    """A reason why a placement cannot run."""

    lacking: str
    """`cores`, `memory`, `bandwidth`, `link` or `permission`."""
    where: str
    """A site, or a pair of sites."""
    jobs: tuple[str, ...]
    """Jobs that need it together."""
    needed: float
    available: float

    def __str__(self) -> str:
        jobs = ", ".join(self.jobs)
        match self.lacking:
            case "permission":
                return f"{self.where} is not among the sites that may run {jobs}"
            case "link":
                return f"there is no link {self.where}, which {jobs} needs"
        unit = {"cores": "cores", "memory": "MB", "bandwidth": "bytes/s"}[self.lacking]
        return f"{self.where} has {self.available:g} {unit}, and {jobs} needs {self.needed:g}"


@dataclass(frozen=True)
class Usage:
    """The part of an evaluation that says what a placement takes."""

    power_w: float
    """Of all sites, and of sending."""
    added_w: float
    """The part of `power_w` above idle."""
    priced_w: float
    """`power_w`, with the price of energy at each site."""
    cores: Mapping[str, float]
    """Site → cores that its jobs need, without checks."""
    event_cores: Mapping[str, float]
    """Site → the part of `cores` that grows with the events. What is beyond the site's cores waits."""
    checked_shares: Mapping[str, float]
    """Site → share of their data at which its checks can look."""
    link_bytes_per_s: Mapping[Pair, float]
    link_price_per_h: float
    """Of what crosses links."""


@dataclass(frozen=True)
class Evaluation(Usage):
    """Figures of a placement. They hold only if it is feasible."""

    latency_s: float
    """Of the slowest path."""
    mean_latency_s: float
    """Over all jobs that no other job reads, of the slowest path to each."""
    critical_path: tuple[str, ...]
    """The slowest path: a source, then jobs."""
    checked_share: float
    """Share of the sources' data that is checked."""
    shortages: tuple[Shortage, ...]

    @property
    def feasible(self) -> bool:
        """True if nothing is short."""
        return not self.shortages


def evaluate(view: MeshView, placement: Placement) -> Evaluation:
    """Return the figures of a placement. Raise `KeyError` if a job has no site, or an unknown one."""
    at = _jobs_at(view, placement)
    used = usage(view, placement)
    arrived = arrivals(view, placement, {})
    read = {name for job in view.jobs for name in job.inputs}
    ends = {job.name: arrived[job.name] for job in view.order if job.name not in read}
    last = max(ends, key=ends.__getitem__, default=None)
    return Evaluation(
        **vars(used),
        latency_s=max(ends.values(), default=0.0),
        mean_latency_s=sum(ends.values()) / len(ends) if ends else 0.0,
        critical_path=() if last is None else _path(view, placement, arrived, last),
        checked_share=_checked_share(view, placement, used.checked_shares),
        shortages=(*_short_sites(view, at), *_short_links(view, placement, used.link_bytes_per_s)),
    )


def usage(view: MeshView, placement: Placement) -> Usage:
    """Return what a placement takes, as `evaluate` does, in a third of the time."""
    at = _jobs_at(view, placement)
    sent = link_bytes(view, placement)
    shares = {site.name: _share_checked(view, site, at[site.name]) for site in view.sites}
    busy = {site: _added_w(view, site, at[site.name], shares[site.name]) for site in view.sites}
    sending_w = view.joules_per_byte * sum(sent.values())
    added_w = sum(busy.values()) + sending_w
    return Usage(
        power_w=added_w + sum(site.idle_w for site in view.sites),
        added_w=added_w,
        priced_w=sending_w + sum(site.energy_price * (site.idle_w + added) for site, added in busy.items()),
        cores={site: sum(map(view.cores_of, jobs)) for site, jobs in at.items()},
        event_cores={site: sum(map(view.event_cores_of, jobs)) for site, jobs in at.items()},
        checked_shares=shares,
        link_bytes_per_s=sent,
        link_price_per_h=SECONDS_PER_H
        * sum(view.link[pair].price_per_byte * each for pair, each in sent.items() if pair in view.link),
    )


def _jobs_at(view: MeshView, placement: Placement) -> dict[str, list[Job]]:
    at: dict[str, list[Job]] = {site.name: [] for site in view.sites}
    for job in view.jobs:
        at[placement[job.name]].append(job)
    return at


def link_bytes(view: MeshView, placement: Placement) -> dict[Pair, float]:
    """Return the bytes/s over each link that is used."""
    sent: defaultdict[Pair, float] = defaultdict(float)
    for name, origin, target in sorted(_copies(view, placement)):
        if origin != target:
            sent[origin, target] += view.bytes_out[name]
    return dict(sent)


def _copies(view: MeshView, placement: Placement) -> set[tuple[str, str, str]]:
    """Return which stream goes from where to where: to sites that read it, and to the one that keeps it."""
    kept = view.kept_at(placement)
    read = {(name, kept[name], placement[job.name]) for job in view.order for name in job.inputs}
    return read | {(job.name, placement[job.name], kept[job.name]) for job in view.order}


def arrivals(
    view: MeshView,
    placement: Placement,
    waits: Mapping[str, Any],
    later: Callable[[Any, Any], Any] = max,
) -> dict[str, Any]:
    """Return when what each job or source publishes is where it is kept, seconds after the event.

    `waits` has for sites how long work waits there: seconds, or an array of them with `later` for arrays.
    """
    kept = view.kept_at(placement)
    arrived: dict[str, Any] = {source.name: 0.0 for source in view.sources}
    for job in view.order:
        site = placement[job.name]
        times = (arrived[name] + view.transfer_s(name, kept[name], site) for name in job.inputs)
        computed = reduce(later, times, 0.0) + waits.get(site, 0.0)
        arrived[job.name] = computed + view.transfer_s(job.name, site, kept[job.name])
    return arrived


def _path(view: MeshView, placement: Placement, arrived: Mapping[str, float], last: str) -> tuple[str, ...]:
    """Return the way to a job over the inputs that come last."""
    kept = view.kept_at(placement)
    path = [last]
    while (job := view.job.get(path[0])) is not None and job.inputs:
        transfers = {name: view.transfer_s(name, kept[name], placement[job.name]) for name in job.inputs}
        path.insert(0, max(transfers, key=lambda name: arrived[name] + transfers[name]))
    return tuple(path)


def _share_checked(view: MeshView, site: Site, jobs: list[Job]) -> float:
    """Return the share of their data at which the checks of a site can look."""
    checking = [job for job in jobs if job.check_cpu_s_per_event is not None]
    if not checking:
        return 1.0
    free = site.cores - sum(map(view.cores_of, jobs))
    free_mb = site.memory_mb - sum(job.memory_mb for job in jobs)
    needs = (
        (free, sum(map(view.check_cores_of, checking))),
        (free_mb, sum(job.check_memory_mb for job in checking)),
    )
    return min(1.0, *(max(0.0, left) / needed if needed else 1.0 for left, needed in needs))


def _added_w(view: MeshView, site: Site, jobs: list[Job], share_checked: float) -> float:
    cores = sum(map(view.cores_of, jobs)) + share_checked * sum(map(view.check_cores_of, jobs))
    return site.w_per_core * min(cores, site.cores)


def _checked_share(view: MeshView, placement: Placement, shares: Mapping[str, float]) -> float:
    """Return the mean over sources of the largest share that one of their readers checks."""
    best = {source.name: 0.0 for source in view.sources}
    for job in view.jobs:
        for name in job.inputs if job.check_cpu_s_per_event is not None else ():
            if name in best:
                best[name] = max(best[name], shares[placement[job.name]])
    return sum(best.values()) / len(best) if best else 0.0


def _short_sites(view: MeshView, at: Mapping[str, list[Job]]) -> Iterator[Shortage]:
    for site in view.sites:
        jobs = at[site.name]
        names = tuple(job.name for job in jobs)
        for lacking, needed, available in (
            ("cores", sum(map(view.cores_of, jobs)), site.cores),
            ("memory", sum(job.memory_mb for job in jobs), site.memory_mb),
        ):
            if needed > available + TOLERANCE:
                yield Shortage(lacking, site.name, names, needed, available)
        for job in jobs:
            if not job.may_run_at(site.name):
                yield Shortage("permission", site.name, (job.name,), 1, 0)


def _short_links(view: MeshView, placement: Placement, sent: Mapping[Pair, float]) -> Iterator[Shortage]:
    copies = _copies(view, placement)
    for (origin, target), needed in sent.items():
        link = view.link.get((origin, target))
        available = 0.0 if link is None else link.bytes_per_s
        if link is not None and needed <= available * (1 + TOLERANCE):
            continue
        carried = {name for name, *pair in copies if pair == [origin, target]}
        users = tuple(
            job.name
            for job in view.order
            if (placement[job.name] == target and carried.intersection(job.inputs))
            or (placement[job.name] == origin and job.name in carried and job.output_site)
        )
        lacking = "link" if link is None else "bandwidth"
        yield Shortage(lacking, f"{origin} → {target}", users, needed, available)
