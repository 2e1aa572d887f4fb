"""Fetch the samples of jobs from the site's engines, each sample once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from towpath.bus import Bus
from towpath.contracts.engine import SHARED_ENGINE, Measures, ReadMeasures
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import Sample

ANSWER_S = 1.5
"""Deadline for one answer. A starting engine is silent. Engines keep their samples for some minutes."""


class EngineMeasures:
    """Remembers which samples of which engine it has."""

    def __init__(self, bus: Bus, site: str, engine: str = SHARED_ENGINE) -> None:
        self._bus = bus
        self._site = site
        self._engine = engine
        self._incarnation: str | None = None
        self._after = 0

    async def new(self) -> list[Sample]:
        """Return samples since the last call. None while the engine does not answer."""
        try:
            measures = await self._ask()
            if measures.incarnation != self._incarnation:
                # It is another engine, which counts from 1. The request had the numbers of the one before.
                self._incarnation = measures.incarnation
                if self._after:
                    self._after = 0
                    measures = await self._ask()
        except TowpathError:
            return []
        self._after = measures.last
        return measures.samples

    async def _ask(self) -> Measures:
        command = ReadMeasures(site=self._site, engine=self._engine, after=self._after)
        return await self._bus.request(command, deadline_s=ANSWER_S)


class SiteMeasures:
    """Samples of all engines of a site, which come and go."""

    def __init__(self, bus: Bus, site: str, engines: Callable[[], Sequence[str]]) -> None:
        self._bus = bus
        self._site = site
        self._engines = engines
        self._known: dict[str, EngineMeasures] = {}

    async def new(self) -> list[Sample]:
        """Return samples since the last call."""
        names = self._engines()
        known = self._known
        self._known = {n: known.get(n) or EngineMeasures(self._bus, self._site, n) for n in names}
        found = await asyncio.gather(*(engine.new() for engine in self._known.values()))
        return [sample for samples in found for sample in samples]
