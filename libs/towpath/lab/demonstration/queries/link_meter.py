"""Measure what crosses the links because of events, and what crosses them anyway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.bus import Bus
from towpath.lab.demonstration.fog import links
from towpath.lab.demonstration.queries.report import Crossing

IDLE_S = 3.0
"""Seconds of a look: sites send a heartbeat each second."""

LOOKS, STEADY = 10, 0.2
"""Looks at most, until two in a row differ by this part at most: new mirrors begin by copying."""


@dataclass
class LinkMeter:
    """Counts the bytes over all links from a moment on. Make one with `idle_meter`."""

    bus: Bus
    idle_bytes_per_s: Mapping[str, float]
    _before: Mapping[str, int] = field(default_factory=dict)
    _begun: float = 0.0

    async def begin(self) -> None:
        """Count from now on."""
        self._before, self._begun = await links.passed(self.bus), time.monotonic()

    async def crossing(self, what: str, events: int) -> Crossing:
        """Return what has crossed the links since, while so many events were sent."""
        passed, seconds = await links.passed(self.bus), time.monotonic() - self._begun
        return Crossing(
            what=what,
            events=events,
            seconds=round(seconds, 2),
            link_bytes={site: count - self._before[site] for site, count in passed.items()},
            idle_bytes_per_s={**self.idle_bytes_per_s},
        )


async def idle_meter(bus: Bus) -> LinkMeter:
    """Return a meter that knows what crosses the links while nothing is sent."""
    before, idle = 0.0, {}
    for _ in range(LOOKS):
        idle = await _look(bus)
        if abs(sum(idle.values()) - before) <= STEADY * before:
            break
        before = sum(idle.values())
    return LinkMeter(bus, idle)


async def _look(bus: Bus) -> dict[str, float]:
    """Return the bytes per second over each link now."""
    meter = LinkMeter(bus, {})
    await meter.begin()
    await asyncio.sleep(IDLE_S)
    seen = await meter.crossing("", 0)
    return {site: round(count / seen.seconds, 1) for site, count in seen.link_bytes.items()}
