"""How good the ways to the sites are, as seen from the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import nats.errors

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import Echo, EchoAnswer, Sample
from towpath.faults.clock import real_time
from towpath.telemetry.link_figures import measured
from towpath.telemetry.samples import samples_of

PROBE_S = 2.0
"""For one answer. What does not come in this time is no sample: the site may be cut off."""


class Links:
    """Asks every site to send something back."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks: it reads the mesh's state."""

    async def measure(self) -> list[Sample]:
        """Round trips, and bandwidths, of those that answer. Never two at once: one would slow the other."""
        sites = await asyncio.to_thread(self._sites)
        return [sample for site in sites for sample in await self._link(site)]

    async def _link(self, site: str) -> list[Sample]:
        async def send(payload: str) -> None:
            async with asyncio.timeout(PROBE_S):
                await self._bus.request(Echo(site=site, payload=payload), deadline_s=PROBE_S)

        try:
            values = await measured(send)
        except (TowpathError, TimeoutError, nats.errors.Error, OSError):
            return []
        return samples_of(f"link:{site}", real_time(), values)


async def echo(command: Echo) -> EchoAnswer:
    """See `Echo`."""
    return EchoAnswer(payload=command.payload)
