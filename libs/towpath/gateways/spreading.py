"""Find the site that takes the results of a group of devices: weighted rendezvous hashing.

Each group ranks all sites by a hash of both names, and the first one has it (Thaler and Ravishankar 1998;
weights as in Schindelhauer and Schomaker 2005). A new site takes only groups that rank it first. A site that
goes leaves its groups to their second. No other group moves. Everyone who knows the sites computes the same,
so no one keeps a table.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

_BITS = 52
"""A double has one more, so that no score divides by the logarithm of 1."""


def site_of(group: str, weights: Mapping[str, float]) -> str:
    """Return the site of a group. `weights`: each site with its share of the groups. Raises `ValueError`."""
    if not weights:
        raise ValueError("no sites to choose from")
    return max(weights, key=lambda site: (_score(group, site, weights[site]), site))


def _score(group: str, site: str, weight: float) -> float:
    digest = hashlib.blake2b(f"{site}\0{group}".encode(), digest_size=8).digest()
    share = ((int.from_bytes(digest) >> (64 - _BITS)) + 0.5) / 2**_BITS
    return -weight / math.log(share)
