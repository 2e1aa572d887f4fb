"""The links between the sites: their conditions, and the bytes that crossed them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from towpath.bus import Bus
from towpath.contracts.links import LinkConditions, ListLinks, ShapeLink
from towpath.contracts.message import Model

SITE_TO_SITE_MS = 18.6
"""SpecK's mean latency between clusters. From site to site there are two links: to the hub and from it."""

BANDWIDTH_BYTES_PER_S = 250_000
"""Two megabits per second in each direction, the uplink of a roadside box on a mobile network or an old
telephone line. A departure takes about 0.35 kB on its way in a mirror, although servers compress what
crosses such a link: so it passes some 700 events/s. That is what the scenarios differ in, as it is
where edge sites are many and far away. In Cloud, what three edges send at 200 events/s each just fits through
the cloud's link, and twice as much does not; what they forward in Fog, a fifth of the events, takes less
than half of it at all default rates."""

UNLIMITED = LinkConditions()

DEADLINE_S, ATTEMPT_S = 30.0, 5.0


class Crossed(Model):
    """Bytes that crossed links, in both directions; commands and heartbeats are among them."""

    edge_links: int
    """Between the edges and the hub."""
    cloud_link: int
    """Between the cloud and the hub: of what an edge sends to the cloud, the second half of its way."""

    @property
    def total(self) -> int:
        """Over all links."""
        return self.edge_links + self.cloud_link


def conditions(bandwidth_bytes_per_s: int) -> LinkConditions:
    """Return the conditions of each link. Two in a row are as slow as the way between the paper's sites."""
    return LinkConditions(delay_ms=SITE_TO_SITE_MS / 2, bandwidth_bytes_per_s=bandwidth_bytes_per_s)


async def shape(bus: Bus, sites: Sequence[str], to: LinkConditions) -> None:
    """Give the links of these sites the conditions."""
    commands = [ShapeLink(site=site, conditions=to) for site in sites]
    await asyncio.gather(*(bus.request(c, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S) for c in commands))


async def passed(bus: Bus) -> dict[str, int]:
    """Site → bytes that its link has passed in both directions so far."""
    found = await bus.request(ListLinks(), deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
    return {view.site: view.bytes_to_hub + view.bytes_to_site for view in found.links}


def crossed(before: Mapping[str, int], after: Mapping[str, int], cloud: str) -> Crossed:
    """Return the bytes that crossed the links in between."""
    gained = {site: count - before.get(site, 0) for site, count in after.items()}
    return Crossed(
        edge_links=sum(count for site, count in gained.items() if site != cloud),
        cloud_link=gained.get(cloud, 0),
    )
