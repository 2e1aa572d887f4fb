"""Fetches what the site's engine measured of its jobs, each sample once."""

from __future__ import annotations

from towpath.bus import Bus
from towpath.contracts.engine import Measures, ReadMeasures
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import Sample

ANSWER_S = 1.5
"""For one answer. An engine that starts says nothing; it keeps its samples for some minutes."""


class EngineMeasures:
    """Knows which samples of which engine it has."""

    def __init__(self, bus: Bus, site: str) -> None:
        self._bus = bus
        self._site = site
        self._incarnation: str | None = None
        self._after = 0

    async def new(self) -> list[Sample]:
        """Samples since the last time; none while the engine does not answer."""
        try:
            measures = await self._ask()
            if measures.incarnation != self._incarnation:
                # Another engine counts from 1: what was asked for were the numbers of the one before.
                self._incarnation = measures.incarnation
                if self._after:
                    self._after = 0
                    measures = await self._ask()
        except TowpathError:
            return []
        self._after = measures.last
        return measures.samples

    async def _ask(self) -> Measures:
        return await self._bus.request(ReadMeasures(site=self._site, after=self._after), deadline_s=ANSWER_S)
