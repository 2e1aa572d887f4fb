"""How good the ways to the sites are, as seen from the hub."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterable

import nats.errors

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import Echo, EchoAnswer, Sample

SMALL_PROBES = 5
"""Their median: one that waits behind a checkpoint says nothing of the link."""

LARGE_BYTES = 64 * 1024

PROBE_S = 2.0
"""For one answer. What does not come in this time is no sample: the site may be cut off."""

TOGETHER = 8
"""Sites that are probed at the same time."""


class Links:
    """Asks every site to send something back."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._sites = sites
        """Blocks: it reads the mesh's state."""
        self._room = asyncio.Semaphore(TOGETHER)

    async def measure(self) -> list[Sample]:
        """Round trips, and bandwidths, of those that answer."""
        sites = await asyncio.to_thread(self._sites)
        return [sample for samples in await asyncio.gather(*map(self._link, sites)) for sample in samples]

    async def _link(self, site: str) -> list[Sample]:
        async with self._room:
            try:
                trips = [await self._trip_s(site, "") for _ in range(SMALL_PROBES)]
                large_s = await self._trip_s(site, "x" * LARGE_BYTES)
            except (TowpathError, TimeoutError, nats.errors.Error, OSError):
                return []
        round_trip_s, at = statistics.median(trips), now().timestamp()
        values = {"link.round_trip": round_trip_s, "link.bandwidth": bandwidth(large_s, round_trip_s)}
        return [Sample(entity=f"link:{site}", metric=name, at=at, value=v) for name, v in values.items()]

    async def _trip_s(self, site: str, payload: str) -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with asyncio.timeout(PROBE_S):
            await self._bus.request(Echo(site=site, payload=payload), deadline_s=PROBE_S)
        return loop.time() - begun


def bandwidth(large_s: float, round_trip_s: float) -> float:
    """Bytes a second of a probe that went there and back in `large_s`, beside a small one's round trip.

    What the small one takes as well is delay, not bandwidth; at least a tenth is left, where noise is more.
    """
    return 2 * LARGE_BYTES / max(large_s - round_trip_s, large_s / 10)


async def echo(command: Echo) -> EchoAnswer:
    """See `Echo`."""
    return EchoAnswer(payload=command.payload)
