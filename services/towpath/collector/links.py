"""How good the ways to the sites are, as seen from the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from towpath.bus import Bus
from towpath.contracts.metrics import Sample
from towpath.mesh.link_probe import LinkProbe


class Links:
    """Asks every site to send something back."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._probe = LinkProbe(bus)
        self._sites = sites
        """Blocks: it reads the mesh's state."""

    async def measure(self) -> list[Sample]:
        """Round trips, and bandwidths, of those that answer."""
        sites = await asyncio.to_thread(self._sites)
        return [sample for site in sites for sample in await self._probe.measure(site)]
