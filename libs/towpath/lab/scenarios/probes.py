"""Probes and their tolerances: take measurements, and tell those that are inside steady state."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from towpath.contracts.scenario import (
    LagProbe,
    LatencyProbe,
    MetricProbe,
    OutputGapProbe,
    Probe,
    RestProbe,
    SiteProbe,
    StandbyProbe,
    ThroughputProbe,
)
from towpath.lab.scenarios.sampler import Sampler


@dataclass(frozen=True, slots=True)
class ProbeValue:
    """One look through one probe."""

    probe: str
    value: float | None
    """None: nothing could be measured."""
    inside: bool


def title(probe: Probe) -> str:
    """Return the name of a probe in journals and reports."""
    about = {
        "job": getattr(probe, "job", None),
        "site": getattr(probe, "site", None),
        "name": getattr(probe, "name", None),
        "path": getattr(probe, "path", None),
    }
    return " ".join([probe.probe.replace("_", " "), *(value for value in about.values() if value)])


def tolerance(probe: Probe) -> str:
    """Return the tolerance of a probe as text."""
    match probe:
        case ThroughputProbe():
            return f"within {probe.within_percent:g} % of the load"
        case OutputGapProbe() | LatencyProbe() | StandbyProbe():
            return f"at most {probe.at_most_s:g} s"
        case LagProbe():
            return f"at most {probe.at_most_events} events"
        case SiteProbe():
            return "yes"
        case MetricProbe():
            low, high = limits(probe)
            return f"from {low:g} to {high:g}"
        case RestProbe():
            return f"status {' or '.join(map(str, statuses(probe)))}"


def limits(probe: Probe) -> tuple[float, float]:
    """Return the smallest and largest value inside the tolerance. Throughput is in percent of the load."""
    match probe:
        case ThroughputProbe():
            return 100 - probe.within_percent, 100 + probe.within_percent
        case OutputGapProbe() | LatencyProbe() | StandbyProbe():
            return 0.0, probe.at_most_s
        case LagProbe():
            return 0.0, probe.at_most_events
        case SiteProbe():
            return 1.0, 1.0
        case MetricProbe():
            low = -math.inf if probe.at_least is None else probe.at_least
            return low, math.inf if probe.at_most is None else probe.at_most
        case RestProbe():
            return min(statuses(probe)), max(statuses(probe))


def statuses(probe: RestProbe) -> list[int]:
    """Return the statuses inside the tolerance. There may be others between them that are not."""
    return probe.status if isinstance(probe.status, list) else [probe.status]


async def measure(probes: Sequence[Probe], sampler: Sampler) -> list[ProbeValue]:
    """Take one measurement with every probe."""
    values = await asyncio.gather(*(_value(probe, sampler) for probe in probes))
    return [judged(probe, value) for probe, value in zip(probes, values, strict=True)]


def judged(probe: Probe, value: float | None) -> ProbeValue:
    """Return a value, and whether it is inside the tolerance. No value is outside."""
    low, high = limits(probe)
    rounded = None if value is None else round(value, 3)
    inside = value is not None and low <= value <= high
    if isinstance(probe, RestProbe):
        inside = value in statuses(probe)
    return ProbeValue(title(probe), rounded, inside)


async def _value(probe: Probe, sampler: Sampler) -> float | None:
    match probe:
        case ThroughputProbe():
            return _throughput(probe, sampler)
        case OutputGapProbe():
            observed = sampler.jobs.get(probe.job)
            return None if observed is None else observed.gap_s(time.time())
        case LatencyProbe():
            observed = sampler.jobs.get(probe.job)
            return None if observed is None else observed.latency_s(time.time() - probe.over_s)
        case LagProbe():
            return sampler.lag(probe.job)
        case SiteProbe():
            return float(sampler.site_up(probe.site))
        case MetricProbe():
            return sampler.metric(probe.name, probe.entity, probe.max_age_s)
        case RestProbe():
            return await sampler.rest_status(probe.path)
        case StandbyProbe():
            return await sampler.copy_age_s(probe.job)


def _throughput(probe: ThroughputProbe, sampler: Sampler) -> float | None:
    """Return it in percent of the load, or of the stored events if the scenario sends none."""
    if probe.job not in sampler.jobs:
        return None
    wanted = (
        sampler.planned_per_s(probe.job, probe.over_s)
        if sampler.devices
        else sampler.stored_per_s(probe.job, probe.over_s)
    )
    processed = sampler.processed_per_s(probe.job, probe.over_s)
    return None if processed is None or not wanted else 100 * processed / wanted
