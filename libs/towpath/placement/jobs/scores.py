"""The formulas of `evaluation.py` for many placements at once, as arrays: what searches compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from towpath.placement.jobs.evaluation import SECONDS_PER_H, TOLERANCE
from towpath.placement.jobs.view import Job, MeshView, Placement

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
"""One row per placement, one column per job in `MeshView.order`: numbers of sites."""

LEAST_EXCESS = 1e-6
"""An excess is at least this, so that no rounding takes it for none."""

LEAST_SHARE = 0.01
"""Charge below which batteries are alike."""


@dataclass(frozen=True)
class Scores:
    """Figures of placements, one number each."""

    excess: Floats
    """Shortages, in shares of what all jobs need. 0 if the placement is feasible."""
    latency_s: Floats
    mean_latency_s: Floats
    checked_share: Floats
    added_w: Floats
    battery_cores: Floats
    """Cores used at sites on battery, each divided by the charge left."""
    link_price_per_h: Floats
    crowding: Floats
    """Sum of cores used times utilisation: least if each site is used in proportion to its cores."""


Objective = Callable[[Scores], Sequence[Floats]]
"""Returns what is to be small, most important first."""


class Scorer:
    """The arrays of a view."""

    def __init__(self, view: MeshView) -> None:
        self.view = view
        self.sites = [site.name for site in view.sites]
        number = {name: place for place, name in enumerate(self.sites)}
        self._columns = {job.name: column for column, job in enumerate(view.order)}
        self._source_sites = {source.name: number[source.site] for source in view.sources}
        self._output_sites = {job.name: number[job.output_site] for job in view.jobs if job.output_site}
        self.cores = np.array([site.cores for site in view.sites], dtype=np.float64)
        self.memory_mb = np.array([site.memory_mb for site in view.sites], dtype=np.float64)
        self.job_cores = np.array([view.cores_of(job) for job in view.order], dtype=np.float64)
        self.job_mb = np.array([job.memory_mb for job in view.order], dtype=np.float64)
        self._check_cores = np.array([view.check_cores_of(job) for job in view.order], dtype=np.float64)
        self._check_mb = np.array(
            [job.check_memory_mb if job.check_cpu_s_per_event is not None else 0.0 for job in view.order]
        )
        self._w_per_core = np.array([site.w_per_core for site in view.sites])
        self._burden = np.array(
            [site.on_battery / max(site.battery_share, LEAST_SHARE) for site in view.sites]
        )
        self._bytes_per_s = self._per_pair("bytes_per_s", np.inf, np.inf)
        self._price_per_byte = self._per_pair("price_per_byte", 0.0, 0.0)
        self._transfers = self._transfer_matrices()
        published = sum(view.bytes_out[name] for job in view.jobs for name in (*job.inputs, job.name))
        self._is_limited = bool((self._bytes_per_s < published).any())
        """False if no placement can send more over a link than it carries."""
        self.options = [self._options(job) for job in view.order]
        """Sites at which each job may run and fits alone, as numbers, in the order of jobs."""

    def placement(self, row: Places) -> Placement:
        """Return a row as names."""
        return {job.name: self.sites[place] for job, place in zip(self.view.order, row, strict=True)}

    def row(self, placement: Placement) -> Places:
        """Return a placement as numbers."""
        return np.array([self.sites.index(placement[job.name]) for job in self.view.order], dtype=np.intp)

    def scores(self, places: Places) -> Scores:
        """Return the figures of placements. With fewer columns than jobs, of the first jobs alone."""
        jobs = places.shape[1]
        cores = self._per_site(places, self.job_cores)
        free_mb = self.memory_mb - self._per_site(places, self.job_mb)
        shares, checking = self._checks(places, cores, free_mb)
        busy = np.minimum(cores + shares * checking, self.cores)
        latency_s, mean_latency_s, unlinked = self._latencies(places)
        sent, over, price_per_s = self._links(places)
        total_cores = self.job_cores[:jobs].sum() or 1.0
        total_mb = self.job_mb[:jobs].sum() or 1.0
        short = _above(cores - self.cores) / total_cores + _above(-free_mb) / total_mb
        utilisation = cores / np.where(self.cores > 0, self.cores, np.inf)
        excess = short + over + unlinked
        return Scores(
            excess=np.where(excess > 0, np.maximum(excess, LEAST_EXCESS), 0.0),
            latency_s=latency_s,
            mean_latency_s=mean_latency_s,
            checked_share=self._checked_share(places, shares),
            added_w=busy @ self._w_per_core + self.view.joules_per_byte * sent,
            battery_cores=cores @ self._burden,
            link_price_per_h=SECONDS_PER_H * price_per_s,
            crowding=(cores * utilisation).sum(axis=1),
        )

    def _per_pair(self, what: str, missing: float, same: float) -> Floats:
        """Return a property of links: rows are origins, columns targets."""
        link = self.view.link
        found = [
            [getattr(link[u, v], what) if (u, v) in link else missing for v in self.sites] for u in self.sites
        ]
        values = np.array(found, dtype=np.float64).reshape(len(self.sites), len(self.sites))
        np.fill_diagonal(values, same)
        return values

    def _transfer_matrices(self) -> dict[str, Floats]:
        """Return `MeshView.transfer_s` for each producer: rows are origins, columns targets."""
        latency_s = self._per_pair("latency_s", np.inf, 0.0)
        kept = 1 - self._per_pair("loss", 0.0, 0.0)
        penalty_s = self.view.hop_penalty_s * (1 - np.eye(len(self.sites)))
        names = dict.fromkeys(name for job in self.view.order for name in (*job.inputs, job.name))
        sizes = {name: self.view.bytes_out[name] * self.view.batch_s for name in names}
        return {name: (latency_s + sizes[name] / self._bytes_per_s) / kept + penalty_s for name in names}

    def _options(self, job: Job) -> Places:
        allowed = np.array([job.may_run_at(name) for name in self.sites])
        fits = (self.view.cores_of(job) <= self.cores + TOLERANCE) & (
            job.memory_mb <= self.memory_mb + TOLERANCE
        )
        return np.flatnonzero(allowed & fits)

    def _per_site(self, places: Places, needs: Floats) -> Floats:
        """Return the sum of needs at each site, one row per placement."""
        rows, jobs = places.shape
        flat: Places = (np.arange(rows)[:, None] * len(self.sites) + places).ravel()
        weights = np.broadcast_to(needs[:jobs], places.shape).ravel()
        sums = np.bincount(flat, weights, minlength=rows * len(self.sites))
        return sums.reshape(rows, len(self.sites)).astype(np.float64, copy=False)

    def _checks(self, places: Places, cores: Floats, free_mb: Floats) -> tuple[Floats, Floats]:
        """Return the share that the checks of each site look at, and the cores for all of it."""
        if not self._check_cores.any() and not self._check_mb.any():
            return np.ones_like(cores), np.zeros_like(cores)
        checking = self._per_site(places, self._check_cores)
        checking_mb = self._per_site(places, self._check_mb)
        shares = np.minimum(
            _share(self.cores - cores, checking),
            _share(free_mb, checking_mb),
        )
        return shares, checking

    def _latencies(self, places: Places) -> tuple[Floats, Floats, Floats]:
        """Return the latency of the slowest path, the mean over ends, and the number of missing links."""
        arrivals: dict[str, Floats | float] = dict.fromkeys(self._source_sites, 0.0)
        ends: dict[str, Floats] = {}
        unlinked = np.zeros(len(places))
        for column, job in enumerate(self.view.order[: places.shape[1]]):
            arrival = np.zeros(len(places))
            for name in job.inputs:
                transfer = self._transfers[name][self._kept_at(name, places), places[:, column]]
                unlinked += np.isinf(transfer)
                arrival = np.maximum(arrival, arrivals[name] + transfer)
                ends.pop(name, None)
            if job.name in self._output_sites:
                delivery = self._transfers[job.name][places[:, column], self._kept_at(job.name, places)]
                unlinked += np.isinf(delivery)
                arrival += delivery
            arrivals[job.name] = ends[job.name] = arrival
        if not ends:
            return np.zeros(len(places)), np.zeros(len(places)), unlinked
        last = np.stack([*ends.values()])
        return last.max(axis=0), last.mean(axis=0), unlinked

    def _kept_at(self, name: str, places: Places) -> Places:
        """Return where what a job or source publishes is kept."""
        fixed = self._source_sites.get(name, self._output_sites.get(name))
        return places[:, self._columns[name]] if fixed is None else np.full(len(places), fixed)

    def _links(self, places: Places) -> tuple[Floats, Floats, Floats]:
        """Return the bytes/s sent between sites, those above bandwidths as a share of all published, and the
        price of a second."""
        jobs = self.view.order[: places.shape[1]]
        edges = [(name, places[:, column]) for column, job in enumerate(jobs) for name in job.inputs]
        ways = [(name, self._kept_at(name, places), target) for name, target in edges]
        ways += [
            (job.name, places[:, column], self._kept_at(job.name, places))
            for column, job in enumerate(jobs)
            if job.name in self._output_sites
        ]
        is_priced = bool(self._price_per_byte.any())
        if not ways or not (self._is_limited or self.view.joules_per_byte or is_priced):
            return np.zeros(len(places)), np.zeros(len(places)), np.zeros(len(places))
        producers = [*dict.fromkeys(name for name, _, _ in ways)]
        producer = np.array([producers.index(name) for name, _, _ in ways])
        published = np.array([self.view.bytes_out[name] for name in producers])
        origins, targets = (np.stack(ends, axis=1) for ends in list(zip(*ways, strict=True))[1:])
        # Sorted, the edges of a link are neighbours, and among them the readers of one producer.
        copies = np.sort((origins * len(self.sites) + targets) * len(producers) + producer, axis=1)
        links, producer = np.divmod(copies, len(producers))
        is_first = np.diff(copies, axis=1, prepend=-1) != 0
        is_sent = is_first & (links // len(self.sites) != links % len(self.sites))
        sent = published[producer] * is_sent
        running = np.cumsum(sent, axis=1)
        is_last = np.diff(links, axis=1, append=-1) != 0
        up_to_link = np.maximum.accumulate(np.where(is_last, running, 0.0), axis=1)
        per_link = running - np.pad(up_to_link, ((0, 0), (1, 0)))[:, :-1]
        bandwidth = self._bytes_per_s.ravel()[links]
        over = np.where(is_last & (per_link > bandwidth * (1 + TOLERANCE)), per_link - bandwidth, 0.0)
        price_per_s = (sent * self._price_per_byte.ravel()[links]).sum(axis=1)
        return running[:, -1], over.sum(axis=1) / (published.sum() or 1.0), price_per_s

    def _checked_share(self, places: Places, shares: Floats) -> Floats:
        best: dict[str, Floats] = {}
        for column, job in enumerate(self.view.order[: places.shape[1]]):
            if job.check_cpu_s_per_event is None:
                continue
            for name in job.inputs:
                if name in self._source_sites:
                    share = shares[np.arange(len(places)), places[:, column]]
                    best[name] = np.maximum(best.get(name, 0.0), share)
        if not best:
            return np.zeros(len(places))
        return np.sum([*best.values()], axis=0) / len(self._source_sites)


def _above(excess: Floats) -> Floats:
    return np.where(excess > TOLERANCE, excess, 0.0).sum(axis=1)


def _share(left: Floats, needed: Floats) -> Floats:
    ratio = np.maximum(left, 0.0) / np.where(needed > 0, needed, 1.0)
    return np.minimum(np.where(needed > 0, ratio, 1.0), 1.0)
