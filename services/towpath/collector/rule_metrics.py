"""What rules measure anywhere in the mesh: heard, and kept as samples of the hub."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from towpath.bus import Bus
from towpath.contracts.faults import HUB_SCOPE, Metric
from towpath.contracts.metrics import Sample
from towpath.telemetry.selection import RULE_PREFIX

MOST_WAITING = 50_000
"""Between two rounds: a rule may measure each event. Older ones are forgotten then."""


class RuleMetrics:
    """Hears metrics of all scopes."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks: it reads the mesh's state."""
        self._scopes: set[str] = set()
        """Those whose metrics are heard."""
        self._heard: deque[Sample] = deque(maxlen=MOST_WAITING)

    async def measure(self) -> list[Sample]:
        """What was heard since the last time."""
        for scope in {HUB_SCOPE, *await asyncio.to_thread(self._sites)} - self._scopes:
            # Each by itself: a site's server is allowed its own metrics only, and nothing wider crosses.
            await self._bus.subscribe(Metric, self._hear, site=scope)
            self._scopes.add(scope)
        samples = list(self._heard)
        self._heard.clear()
        return samples

    async def _hear(self, metric: Metric) -> None:
        self._heard.append(sample_of(metric))


def sample_of(metric: Metric) -> Sample:
    """What a rule measured at a site, as a sample that is kept at the hub."""
    return Sample(
        entity=f"rule:{metric.site}/{metric.entity}",
        metric=f"{RULE_PREFIX}{metric.name}",
        at=metric.at.timestamp(),
        value=metric.value,
    )
