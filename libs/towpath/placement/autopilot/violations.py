"""Predict how long jobs will break their latency goals at given places.

The latency of a job is that of the slowest path to it: transfers, as `placement.jobs.evaluation` has them,
and the time that work waits at each site on the way. A site is a fluid queue: work comes in as the cores that
its events need, and is done with the cores that it has. What comes in beyond that waits until there is less.
A job at a site that may fail breaks its goal in the share of time that the site is expected to be down, which
is 1 − `Site.stability`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from towpath.placement.autopilot.outlook import Outlook
from towpath.placement.jobs.evaluation import arrivals, evaluate
from towpath.placement.jobs.view import MeshView, Placement

STEP_S = 10.0
"""Waits are looked at this often. Work that waits grows evenly in between."""


@dataclass(frozen=True)
class Prediction:
    """The course of a placement over an outlook."""

    late_s: Mapping[str, float]
    """Job → seconds in which it breaks its goal."""
    begins_s: float
    """Seconds from now until the first job breaks its goal. Infinite if none does, but for failures."""
    joules: float
    """Energy of all sites."""
    link_bytes: float
    """Bytes over all links."""

    @property
    def total_late_s(self) -> float:
        """Job-seconds of broken goals."""
        return sum(self.late_s.values())


def predict(outlook: Outlook, placement: Placement, goals: Mapping[str, float]) -> Prediction:
    """Return the course of a placement. `goals` has for each job the seconds that its latency may take."""
    late: defaultdict[str, float] = defaultdict(float)
    work: defaultdict[str, float] = defaultdict(float)
    for job, core_s in outlook.waiting.items():
        work[placement[job]] += core_s
    at_s, begins_s, joules, link_bytes = 0.0, math.inf, 0.0, 0.0
    for phase in outlook.phases:
        figures = evaluate(phase.view, placement)
        joules += figures.power_w * phase.seconds
        link_bytes += sum(figures.link_bytes_per_s.values()) * phase.seconds
        for seconds in _steps(phase.seconds):
            waits = _work(phase.view, figures.event_cores, work, seconds)
            breaking = _breaking(phase.view, placement, waits, goals)
            if breaking and math.isinf(begins_s):
                begins_s = at_s
            for job in goals:
                risk = 1 - phase.view.site[placement[job]].stability
                late[job] += seconds if job in breaking else seconds * risk
            at_s += seconds
    return Prediction(dict(late), begins_s, joules, link_bytes)


def _steps(seconds: float) -> Iterator[float]:
    number = max(1, math.ceil(seconds / STEP_S))
    yield from [seconds / number] * number


def _work(
    view: MeshView, cores: Mapping[str, float], work: defaultdict[str, float], seconds: float
) -> dict[str, float]:
    """Let sites work for some seconds, and return how long work waits at each of them then."""
    waits: dict[str, float] = {}
    for site in view.sites:
        work[site.name] = max(0.0, work[site.name] + (cores[site.name] - site.cores) * seconds)
        waits[site.name] = work[site.name] / site.cores if site.cores else math.inf
    return waits


def _breaking(
    view: MeshView, placement: Placement, waits: Mapping[str, float], goals: Mapping[str, float]
) -> set[str]:
    """Return the jobs that break their goals."""
    latency = arrivals(view, placement, waits)
    return {job for job, goal_s in goals.items() if latency[job] > goal_s}
