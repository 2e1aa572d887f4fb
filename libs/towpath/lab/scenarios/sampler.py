"""Sample a mesh twice a second during a run: heartbeats, streams, results, metrics."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

import aiohttp
from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.composition.graph import writers_of
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobState, JobStatus
from towpath.contracts.metrics import Metric
from towpath.contracts.operators import Query
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.standby import ListStandbys
from towpath.lab.harness.load import Device
from towpath.lab.harness.observer import ObservedJob
from towpath.mesh.state import MeshState
from towpath.streams.pages import last_serial
from towpath.telemetry.tracing import untraced

HEARD_S = 3.5
"""Seconds without a heartbeat after which a site counts as down. Heartbeats come every second."""

REMEMBERED = 200
"""Positions of a job, or of a stream, that are kept: those of some minutes."""

ANSWER_S = 1.0


@dataclass(frozen=True, slots=True)
class SerialsAt:
    """The position of a job, or of a stream, at a moment."""

    at: float
    serials: int
    """Newest serial number processed, summed over the inputs of a job; newest one stored in a stream."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of a metric at a moment."""

    at: float
    value: float


@dataclass
class Sampler:
    """Hears a mesh, and answers what probes ask."""

    mesh: MeshState
    bus: Bus
    jobs: dict[str, ObservedJob] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    metrics: dict[tuple[str, str], MetricValue] = field(default_factory=dict)
    """Entity and name → newest value; the newest of all last."""
    _heard: dict[str, SiteStatus] = field(default_factory=dict)
    _heard_at: dict[str, float] = field(default_factory=dict)
    _progress: dict[str, deque[SerialsAt]] = field(default_factory=dict)
    _stored: dict[tuple[str, str], deque[SerialsAt]] = field(default_factory=dict)
    """Site and stream → what it held when."""

    async def listen(self, bus: Bus) -> None:
        """Hear heartbeats and metrics from now on, until the bus is closed."""
        await bus.subscribe(SiteStatus, self._on_heartbeat)
        await bus.subscribe(Metric, self._on_metric)

    def upstream_first(self) -> list[ObservedJob]:
        """Return the jobs in the order of the data: each after those whose results it reads."""
        return [self.jobs[name] for name in TopologicalSorter(self._writers()).static_order()]

    def know_sources(self) -> None:
        """Tell each job that answers queries which jobs make panes for it."""
        for name, writers in self._writers().items():
            if isinstance(self.jobs[name].spec.operator, Query):
                self.jobs[name].sources = [self.jobs[writer] for writer in sorted(writers)]

    async def look(self, behind: Iterable[str]) -> None:
        """Look at results, and ask how much is stored for the jobs of these names.

        A silent stream keeps its last position. Questions cross the links that a run may be about.
        """
        for job in self.jobs.values():
            job.look()
        asked = [self.jobs[name] for name in behind if name in self.jobs]
        inputs = {(entry.site, entry.stream) for job in asked for entry in job.view.inputs}
        await asyncio.gather(*(self._ask_stored(site, stream) for site, stream in inputs))

    def site_up(self, site: str) -> bool:
        """True if the site was heard recently and says that it is up."""
        status = self._heard.get(site)
        fresh = time.time() - self._heard_at.get(site, 0.0) < HEARD_S
        return status is not None and fresh and status.state is SiteState.UP

    def status(self, job: str) -> JobStatus | None:
        """Return the job's status at the site that is further: while it moves, two sites have it."""
        found = [s for h in self._heard.values() for s in h.jobs if s.job == job and s.serials]
        return max(found, key=lambda s: sum(s.serials.values()), default=None)

    def lag(self, job: str) -> int | None:
        """Return the number of events stored and not processed. None while it is not known."""
        observed, status = self.jobs.get(job), self.status(job)
        if observed is None or status is None:
            return None
        behind = 0
        for entry in observed.view.inputs:
            known = self._stored.get((entry.site, entry.stream))
            if known is None:
                return None
            behind += max(0, known[-1].serials - status.serials.get(entry.name, observed.after[entry.name]))
        return behind

    def processed_per_s(self, job: str, over_s: float) -> float | None:
        """Return the mean over the last `over_s` seconds. None if the job was not heard twice in them."""
        return _per_s(self._progress.get(job, ()), over_s)

    def stored_per_s(self, job: str, over_s: float) -> float | None:
        """Return the rate of events stored for the job over the last `over_s` seconds. None if not known."""
        inputs = {(entry.site, entry.stream) for entry in self.jobs[job].view.inputs}
        rates = [_per_s(self._stored.get(stream, ()), over_s) for stream in inputs]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if len(known) == len(rates) else None

    def planned_per_s(self, job: str, over_s: float) -> float:
        """Return the rate of the job's planned loads over the last `over_s` seconds."""
        observed, now = self.jobs[job], time.time()
        read = {(entry.site, entry.topic) for entry in observed.spec.inputs}
        own = [d for d in self.devices if (d.load.site, d.load.topic) in read]
        # A job further down a pipeline takes in what all loads send.
        return sum(device.planned(now - over_s, now) for device in own or self.devices) / over_s

    def metric(self, name: str, entity: str | None, max_age_s: float) -> float | None:
        """Return its newest value. None if there is none, or it is older than `max_age_s` seconds."""
        found = (v for (e, n), v in reversed(self.metrics.items()) if n == name and entity in (None, e))
        newest = next(found, None)
        return newest.value if newest is not None and time.time() - newest.at <= max_age_s else None

    def take_metric(self, entity: str, name: str, value: float) -> None:
        """Take a metric's value in."""
        # Behind all others: the newest is found first.
        self.metrics.pop((entity, name), None)
        self.metrics[entity, name] = MetricValue(time.time(), value)

    async def rest_status(self, path: str) -> int | None:
        """Return the status of an answer of the REST interface. None without an answer."""
        headers = {"Authorization": f"Bearer {self.mesh.api_token}"}
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=timeout) as client,
                client.get(self.mesh.api_url + path, ssl=self.mesh.api_check()) as response,
            ):
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def copy_age_s(self, job: str) -> float | None:
        """Return the age of the copy at a job's standby; 0 if the job runs there. None if it is not known."""
        try:
            with untraced():
                answer = await self.bus.request(ListStandbys(), deadline_s=ANSWER_S)
        except TowpathError:
            return None
        view = next((each for each in answer.standbys if each.job == job), None)
        return 0.0 if view and view.site == view.standby else view and view.behind_s

    def _writers(self) -> dict[str, set[str]]:
        return writers_of(job.spec for job in self.jobs.values())

    async def _ask_stored(self, site: str, stream: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                serial = await last_serial(self.bus.connection, site, stream)
        except (TimeoutError, NatsError):
            return
        known = self._stored.setdefault((site, stream), deque(maxlen=REMEMBERED))
        known.append(SerialsAt(time.time(), serial))

    async def _on_heartbeat(self, status: SiteStatus) -> None:
        now = time.time()
        self._heard[status.site], self._heard_at[status.site] = status, now
        for job in status.jobs:
            if job.state is JobState.RUNNING and job.serials:
                known = self._progress.setdefault(job.job, deque(maxlen=REMEMBERED))
                serials = sum(job.serials.values())
                # While two sites run a job, the one behind says nothing new.
                if not known or serials >= known[-1].serials:
                    known.append(SerialsAt(now, serials))

    async def _on_metric(self, metric: Metric) -> None:
        self.take_metric(metric.entity, metric.name, metric.value)


def _per_s(course: Sequence[SerialsAt], over_s: float) -> float | None:
    since = time.time() - over_s - 1.0  # What was heard is up to a second old.
    recent = [p for p in course if p.at >= since]
    if len(recent) < 2 or recent[-1].at - recent[0].at < over_s / 2:
        return None
    return max(0.0, recent[-1].serials - recent[0].serials) / (recent[-1].at - recent[0].at)
