"""From which copies questions at the hub read, and which further copies are worth making.

The sites of a mesh are the spouts of one query, whose bolts are at the hub. The rules for a query are in
`read_placement`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from towpath.placement.data.query_reads import Candidate, ReadingQuery, Reads, Spout
from towpath.placement.data.read_placement import place_reads

LEAST_GAIN = 0.2
"""New copies must lower F by a fifth: a latency that varies must not begin a copy in one round and end it in
the next."""

LEAST_LATENCY_MS = 10.0
"""Shorter latencies count as this one: measurements vary by some milliseconds, which are worth no copy."""

DESTINATIONS = 20
"""The nearest sites that may get new copies. It bounds the work of a round in a mesh of a thousand sites."""


@dataclass(frozen=True)
class NearbySites:
    """Sites that are up, as seen from the hub."""

    latency_ms: Mapping[str, float]
    """Site → measured latency of its link to the hub. Sites whose latency is not known are left out."""
    copies_at: Mapping[str, Collection[str]]
    """Site → the sites that have a copy of its values, for whatever reason."""
    beta_ms: float
    """The staleness that is as bad as twice the latency."""
    interval_ms: float
    """Time between two looks of a copy at its owner."""

    def reads(self, owners: Collection[str], places: Mapping[str, int] | None = None) -> Reads | None:
        """Return the best choice for values of `owners`; None if none of their latencies is known.

        `places` has the number of further copies that each site may get. Without it, no copy is made.
        """
        known = [owner for owner in owners if owner in self.latency_ms]
        if not known:
            return None
        free = [site for site, number in (places or {}).items() if number]
        nearest = sorted(free, key=lambda site: (self.latency_ms[site], site))[:DESTINATIONS]
        spouts = tuple(Spout(owner, tuple(self._candidates(owner, nearest))) for owner in known)
        return place_reads(ReadingQuery(spouts, self.beta_ms, places or {}))

    def _candidates(self, owner: str, destinations: Collection[str]) -> Iterator[Candidate]:
        own_ms = self._counted_ms(owner)
        yield Candidate(owner, own_ms, 0.0, takes_place=False)
        holders = [site for site in self.copies_at.get(owner, ()) if site in self.latency_ms]
        for site in dict.fromkeys([*holders, *destinations]):
            # A copy that is no quicker would only be older.
            if (latency_ms := self._counted_ms(site)) < own_ms:
                staleness_ms = own_ms + latency_ms + self.interval_ms
                yield Candidate(site, latency_ms, staleness_ms, takes_place=site not in holders)

    def _counted_ms(self, site: str) -> float:
        return max(self.latency_ms[site], LEAST_LATENCY_MS)


def near_copies(sites: NearbySites, most_copies: int) -> dict[str, str | None]:
    """Return each site with the one that must have a copy of its values, None if the site itself is best.

    A site gets no further copy if it has `most_copies` of them.
    """
    held = [site for at in sites.copies_at.values() for site in at]
    places = {site: max(0, most_copies - held.count(site)) for site in sites.latency_ms}
    present, best = sites.reads(places), sites.reads(places, places)
    if present is None or best is None:
        return {}
    if best.cost_ms2(sites.beta_ms) > (1 - LEAST_GAIN) * present.cost_ms2(sites.beta_ms):
        best = present
    chosen = {owner: read.node for owner, read in zip(places, best.chosen, strict=True)}
    return {owner: None if owner == node else node for owner, node in chosen.items()}
