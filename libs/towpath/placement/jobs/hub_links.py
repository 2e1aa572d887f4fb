"""Links between all sites of a mesh in which each site has one link, to the hub."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from towpath.placement.jobs.view import Link


def links_over_hub(to_hub: Sequence[Link]) -> tuple[Link, ...]:
    """Return a link for each ordered pair of sites, from links of which each leads from a site to the hub.

    Latencies and prices add up, the narrower link is the bandwidth, and a packet arrives if it survives both.
    """
    return tuple(
        Link(
            origin=first.origin,
            target=second.origin,
            latency_s=first.latency_s + second.latency_s,
            bytes_per_s=min(first.bytes_per_s, second.bytes_per_s),
            loss=1 - (1 - first.loss) * (1 - second.loss),
            price_per_byte=first.price_per_byte + second.price_per_byte,
        )
        for first, second in permutations(to_hub, 2)
    )
