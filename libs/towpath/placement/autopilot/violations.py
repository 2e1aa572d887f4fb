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
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from towpath.placement.autopilot.outlook import Outlook
from towpath.placement.jobs.evaluation import arrivals, usage
from towpath.placement.jobs.view import MeshView, Placement

Floats = NDArray[np.float64]

STEP_S = 10.0
"""Waits are looked at this often. Work that waits grows evenly in between."""


@dataclass(frozen=True)
class Prediction:
    """The course of a placement over an outlook."""

    late_s: Mapping[str, float]
    """Job → seconds in which it breaks its goal."""
    begin_s: Mapping[str, float]
    """Job → seconds from now until it breaks its goal. Infinite if it does not, but for failures."""
    joules: float
    """Energy of all sites."""
    priced_joules: float
    """The same, with the price of energy at each site, in times of the usual one."""
    link_bytes: float
    """Bytes over all links."""

    @property
    def total_late_s(self) -> float:
        """Job-seconds of broken goals."""
        return sum(self.late_s.values())


def predict(outlook: Outlook, placement: Placement, goals: Mapping[str, float]) -> Prediction:
    """Return the course of a placement. `goals` has for each job the seconds that its latency may take."""
    late = dict.fromkeys(goals, 0.0)
    work: defaultdict[str, float] = defaultdict(float)
    for job, core_s in outlook.waiting.items():
        work[placement[job]] += core_s
    begin_s = dict.fromkeys(goals, math.inf)
    at_s, joules, priced_joules, link_bytes = 0.0, 0.0, 0.0, 0.0
    for phase in outlook.phases:
        figures = usage(phase.view, placement)
        joules += figures.power_w * phase.seconds
        priced_joules += figures.priced_w * phase.seconds
        link_bytes += sum(figures.link_bytes_per_s.values()) * phase.seconds
        ends_s = _ends(phase.seconds, work, phase.view, figures.event_cores)
        waits = _waits(phase.view, figures.event_cores, work, ends_s)
        latency = arrivals(phase.view, placement, waits, later=np.maximum)
        step_s = phase.seconds / len(ends_s)
        for job, goal_s in goals.items():
            breaking = latency[job] > goal_s
            in_time_s = phase.seconds - step_s * np.count_nonzero(breaking)
            late[job] += phase.seconds - in_time_s * phase.view.site[placement[job]].stability
            if breaking.any():
                begin_s[job] = min(begin_s[job], at_s + step_s * int(breaking.argmax()))
        at_s += phase.seconds
    return Prediction(late, begin_s, joules, priced_joules, link_bytes)


def _ends(seconds: float, work: Mapping[str, float], view: MeshView, cores: Mapping[str, float]) -> Floats:
    """Return when the steps of a phase end: there is one step if no work waits, and none will."""
    is_even = not any(work.values()) and all(cores[site.name] <= site.cores for site in view.sites)
    number = 1 if is_even else max(1, math.ceil(seconds / STEP_S))
    return np.linspace(seconds / number, seconds, number)


def _waits(
    view: MeshView, cores: Mapping[str, float], work: defaultdict[str, float], ends_s: Floats
) -> dict[str, Floats]:
    """Let sites work until the steps end, and return how long work waits at each of them then."""
    waits: dict[str, Floats] = {}
    for site in view.sites:
        left = np.maximum(0.0, work[site.name] + (cores[site.name] - site.cores) * ends_s)
        work[site.name] = float(left[-1])
        waits[site.name] = left / site.cores if site.cores else np.full_like(ends_s, math.inf)
    return waits
