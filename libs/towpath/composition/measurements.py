"""Measured values, as the picture of a mesh needs them. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations, pairwise
from statistics import fmean, median

from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Series
from towpath.placement.jobs.hub_links import links_over_hub
from towpath.placement.jobs.view import Link, MeshView

LEAST_PAIRS = 6
"""Pairs of values from which it is told how one metric rises with another."""


class Measurements:
    """Measured values: the points of each series."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._points = {(each.site, each.entity, each.metric): each.points for each in series if each.points}

    def value(self, site: str, entity: str, metric: str) -> float | None:
        """Return the mean of a series; None if there is none."""
        points = self._points.get((site, entity, metric))
        return None if points is None else fmean(value for _, value in points)

    def least(self, site: str, entity: str, metric: str) -> float | None:
        """Return the least value of a series; None if there is none."""
        points = self._points.get((site, entity, metric))
        return None if points is None else min(value for _, value in points)

    def most(self, site: str, entity: str, metric: str) -> float | None:
        """Return the greatest value of a series; None if there is none."""
        points = self._points.get((site, entity, metric))
        return None if points is None else max(value for _, value in points)

    def count(self, site: str, entity: str, metric: str) -> int:
        """Return the number of values of a series."""
        return len(self._points.get((site, entity, metric), ()))

    def sites_of(self, entity: str) -> set[str]:
        """Return the sites that have measured something of an entity."""
        return {site for site, of, _ in self._points if of == entity}

    def newest(self, site: str, entity: str, metric: str) -> float | None:
        """Return the newest value of a series; None if there is none."""
        points = self._points.get((site, entity, metric))
        return None if points is None else points[-1][1]

    def rise_per_s(self, site: str, entity: str, metric: str) -> float:
        """Return how fast a series rose, in units per second. Negative if it fell, 0 if that is not known."""
        points = self._points.get((site, entity, metric), [])
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return 0.0
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def slope(self, site: str, entity: str, over: str, of: str) -> float | None:
        """Return how much `of` rises with `over`: the median slope (Theil, Sen); None if little is known."""
        known = dict(self._points.get((site, entity, over), []))
        pairs = [(known[at], y) for at, y in self._points.get((site, entity, of), []) if at in known]
        if len(pairs) < LEAST_PAIRS:
            return None
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(pairs, 2) if a[0] != b[0]]
        return median(slopes) if slopes else None

    def source_rates(self, view: MeshView) -> dict[str, dict[float, float]]:
        """Return the events/s of sources by time: the most that a reader took, and its backlog grew by."""
        found: defaultdict[str, dict[float, float]] = defaultdict(dict)
        for (site, entity, metric), points in self._points.items():
            job = view.job.get(entity.removeprefix("job:"))
            if job is None or metric != "job.event_rate":
                continue
            backlog = dict(self._points.get((site, entity, "job.backlog"), []))
            for (before, _), (at, read) in pairwise(points):
                is_known = before in backlog and at in backlog and at > before
                grows = (backlog[at] - backlog[before]) / (at - before) if is_known else 0.0
                rate = max(read + grows, 0.0) / len(job.inputs)
                for name in view.source.keys() & job.inputs:
                    found[name][at] = max(found[name].get(at, 0.0), rate)
        return found

    def age_s(self, now: float) -> float:
        """Return the age of the series whose newest point is the oldest.

        Bandwidth does not count: it is measured seldom as long as a link stays as it is.
        """
        ages = (
            now - points[-1][0]
            for (_, _, metric), points in self._points.items()
            if metric != "link.bandwidth"
        )
        return max(ages, default=0.0)

    def links(self, sites: Collection[str]) -> Iterator[Link]:
        """Yield the links between sites that were measured, and those over the hub for others."""
        known = {(a, b): link for a in sites for b in sites if (link := self._link(a, b, b)) is not None}
        to_hub = [link for site in sites if (link := self._link(site, HUB_SCOPE, site)) is not None]
        over_hub = {(link.origin, link.target): link for link in links_over_hub(to_hub)}
        yield from {**over_hub, **known}.values()

    def _link(self, site: str, peer: str, target: str) -> Link | None:
        round_trip = self.value(site, f"link:{peer}", "link.round_trip")
        if round_trip is None or site == peer:
            return None
        bandwidth = self.value(site, f"link:{peer}", "link.bandwidth") or float("inf")
        return Link(site, target, round_trip / 2, bandwidth)
