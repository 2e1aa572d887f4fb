"""What rules measure anywhere in the mesh: heard, and kept as samples of the hub."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable

from towpath.bus import Bus
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Metric, Sample
from towpath.telemetry.selection import RULE_PREFIX

MOST_WAITING = 50_000
"""Between two rounds: a rule may measure each event. Older ones are forgotten then."""

LATE_S = 2.0
"""Workers of one engine measure the same thing, and report it one after the other: what comes so much later
than what was measured after it still finds its place. The store takes nothing older than it has."""


class Waiting:
    """Samples from many processes, put in order by series."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: deque[tuple[float, Sample]] = deque(maxlen=MOST_WAITING)
        """Each with when it was heard, seconds of the clock; in this order."""

    def add(self, sample: Sample) -> None:
        """Take in one more."""
        self._heard.append((self._clock(), sample))

    def due(self) -> list[Sample]:
        """Those that waited for `LATE_S`, and what was measured before them, by time; they wait no longer."""
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
    """Hears metrics of all scopes."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks: it reads the mesh's state."""
        self._scopes: set[str] = set()
        """Those whose metrics are heard."""
        self._waiting = Waiting()

    async def measure(self) -> list[Sample]:
        """What was heard, a moment later: see `Waiting`."""
        for scope in {HUB_SCOPE, *await asyncio.to_thread(self._sites)} - self._scopes:
            # Each by itself: a site's server is allowed its own metrics only, and nothing wider crosses.
            await self._bus.subscribe(Metric, self._hear, site=scope)
            self._scopes.add(scope)
        return self._waiting.due()

    async def _hear(self, metric: Metric) -> None:
        self._waiting.add(sample_of(metric))


def sample_of(metric: Metric) -> Sample:
    """What a rule measured at a site, as a sample that is kept at the hub."""
    return Sample(
        entity=f"rule:{metric.site}/{metric.entity}",
        metric=f"{RULE_PREFIX}{metric.name}",
        at=metric.at.timestamp(),
        value=metric.value,
    )
