"""Measure what crosses the links while events are sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from towpath.bus import Bus
from towpath.lab.demonstration.fog import links
from towpath.lab.demonstration.queries.report import Crossing


@dataclass(frozen=True)
class LinkMeter:
    """Counts the bytes over all links from a moment on."""

    bus: Bus
    before: Mapping[str, int]
    begun: float

    @classmethod
    async def begun_now(cls, bus: Bus) -> Self:
        """Return a meter that counts from now on."""
        return cls(bus, await links.passed(bus), time.monotonic())

    async def crossing(self, what: str, events: int) -> Crossing:
        """Return what has crossed the links since, while so many events were sent."""
        passed = await links.passed(self.bus)
        return Crossing(
            what=what,
            events=events,
            seconds=round(time.monotonic() - self.begun, 2),
            link_bytes={site: count - self.before[site] for site, count in passed.items()},
        )
