"""Receive the metrics that rules measure in the mesh, and store them as samples of the hub."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable

from towpath.bus import Bus
from towpath.bus.authenticity import Refusals
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Metric, Sample
from towpath.telemetry.intervals import KEPT_S
from towpath.telemetry.selection import RULE_PREFIX

MOST_WAITING = 50_000
"""Samples between two rounds, because a rule may measure each event. Beyond this, the oldest are dropped."""

MOST_SERIES = 1000
"""Series of one site that are kept at a time: a stolen site may make up names."""

LATE_S = 2.0
"""Time to wait for late samples.

Workers of one engine measure the same thing and report it one after the other. The store takes nothing
older than its newest sample, so samples of this time are put in order first."""


class SampleQueue:
    """Puts samples from many processes in order by series."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: deque[tuple[float, Sample]] = deque(maxlen=MOST_WAITING)
        """Samples with their time of arrival, in seconds of the clock, in this order."""

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        self._heard.append((self._clock(), sample))

    def due(self) -> list[Sample]:
        """Remove and return samples that waited for `LATE_S`, and those measured before them, by time."""
        now, newest = self._clock(), dict[tuple[str, str], float]()
        for heard_at, sample in self._heard:
            if heard_at + LATE_S > now:
                break
            series = sample.entity, sample.metric
            newest[series] = max(sample.at, newest.get(series, sample.at))
        due: list[Sample] = []
        waiting: list[tuple[float, Sample]] = []
        for heard_at, sample in self._heard:
            until = newest.get((sample.entity, sample.metric))
            if until is not None and sample.at <= until:
                due.append(sample)
            else:
                waiting.append((heard_at, sample))
        self._heard.clear()
        self._heard.extend(waiting)
        return sorted(due, key=lambda sample: sample.at)


class RuleMetrics:
    """Receives metrics of all scopes."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._refusals = Refusals("collector", bus.publish)
        self._sites = sites
        """Blocks, because it reads the mesh's state."""
        self._scopes: set[str] = set()
        """Scopes whose metrics are received."""
        self._waiting = SampleQueue()
        self._known: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        """Scope → its series, and when each was heard last."""

    async def measure(self) -> list[Sample]:
        """Return received samples, a moment later: see `SampleQueue`."""
        for scope in {HUB_SCOPE, *await asyncio.to_thread(self._sites)} - self._scopes:
            # One subscription per scope: a site's server is allowed its own metrics only, and nothing wider
            # crosses.
            await self._bus.subscribe(Metric, self._hear, site=scope)
            self._scopes.add(scope)
        return self._waiting.due()

    async def _hear(self, metric: Metric) -> None:
        now, known = time.time(), self._known[metric.site]
        sample = sample_of(metric, now)
        series = sample.entity, sample.metric
        if series not in known and len(known) >= MOST_SERIES:
            forgotten = [each for each, heard_at in known.items() if heard_at < now - KEPT_S]
            for each in forgotten:
                del known[each]
            if not forgotten:
                why = f"it measures more than {MOST_SERIES} things"
                await self._refusals.tell("Metric", metric.to_subject(), who=metric.site, why=why)
                return
        known[series] = now
        self._waiting.add(sample)


def sample_of(metric: Metric, now: float) -> Sample:
    """Return what a rule measured at a site as a sample of the hub, by whose clock it is `now`."""
    return Sample(
        entity=f"rule:{metric.site}/{metric.entity}",
        metric=f"{RULE_PREFIX}{metric.name}",
        at=min(metric.at.timestamp(), now),
        value=metric.value,
    )
