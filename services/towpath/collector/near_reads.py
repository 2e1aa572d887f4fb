"""Plan from where questions read values of sites that are far from the hub, and make copies that are nearer.

The collector asks for all, and it is beside the hub. So the latency of a site is that of its link to the hub.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from towpath.collector.site_records import SiteRecords
from towpath.contracts.message import HUB_SCOPE, now
from towpath.contracts.metrics import MAX_POINTS, MetricSelection
from towpath.contracts.storage import StorageSpec
from towpath.placement.data.near_copies import NearbySites, near_copies
from towpath.placement.data.sampling_ratios import sampling_ratios
from towpath.stored_values.value_streams import LOOK_S
from towpath.telemetry.metric_store import MetricStore

log = logging.getLogger(__name__)

MEASURED_S = 120.0
"""Age up to which a round trip counts. They are measured every 15 s, and their median is taken."""

MS = 1000.0
"""Milliseconds of a second."""


@dataclass(frozen=True)
class PlannedRead:
    """From where to read values of a site."""

    at: str
    """The site itself, or one with a copy of its values."""
    share: float = 1.0
    """Share of the values to read."""


class NearReads:
    """Knows the latencies of sites, and the copies of their values."""

    def __init__(self, store: MetricStore, records: SiteRecords, spec: StorageSpec) -> None:
        """`store` has the hub's measurements of its links."""
        self._store = store
        self._records = records
        self._spec = spec

    async def plan(self, owners: Sequence[str], share: float) -> dict[str, PlannedRead]:
        """Return from where to read, with shares whose mean is at least `share`.

        Sites that are down, or whose latency is not known, are left out: read those at the site, and whole.
        """
        if self._spec.beta_s is None and share >= 1:
            return {}
        latency_ms = await self._latency_ms()
        known = [owner for owner in owners if owner in latency_ms]
        at = known
        if self._spec.beta_s is not None:
            reads = self._sites(latency_ms, self._spec.beta_s).reads(known)
            at = [] if reads is None else [read.node for read in reads.chosen]
        shares = [1.0] * len(at)
        if at and share < 1:
            shares = sampling_ratios([latency_ms[site] for site in at], share)
        planned = map(PlannedRead, at, shares)
        return dict(zip(known, planned, strict=True))

    async def decide(self) -> None:
        """Begin copies that are worth it, and end those that are no longer."""
        if self._spec.beta_s is None:
            for owner, record in [*self._records.by_site.items()]:
                if record.near_at is not None:
                    self._records.near(owner, None)
            return
        sites = self._sites(await self._latency_ms(), self._spec.beta_s)
        # With a hundred sites and short places this takes a solver a second.
        chosen = await asyncio.to_thread(near_copies, sites, self._spec.copies_per_site)
        for owner, site in chosen.items():
            record = self._records.by_site.get(owner)
            if record is None or record.near_at == site:
                continue
            if site is None and record.near_at in self._records.by_site.keys() - sites.latency_ms.keys():
                continue  # It may come back with its copy.
            if site is None:
                log.info("%s needs no copy that is nearer any more", owner)
            else:
                log.info("%s is far away; %s keeps a copy of its values", owner, site)
            self._records.near(owner, site)

    def _sites(self, latency_ms: dict[str, float], beta_s: float) -> NearbySites:
        copies_at = {owner: record.held_at for owner, record in self._records.by_site.items()}
        return NearbySites(latency_ms, copies_at, beta_s * MS, LOOK_S * MS)

    async def _latency_ms(self) -> dict[str, float]:
        """Return the latencies of sites that are up, as far as they are known."""
        recent = MetricSelection(
            metrics=["link.round_trip"], since=now() - timedelta(seconds=MEASURED_S), limit=MAX_POINTS
        )
        try:
            found = await asyncio.to_thread(self._store.read, recent, HUB_SCOPE)
        except sqlite3.Error as error:
            log.warning("latencies are not known: %s", error)
            return {}
        return {
            site: median(round_trip_s for _, round_trip_s in each.points) / 2 * MS
            for each in sorted(found, key=lambda each: each.entity)
            if (site := each.entity.removeprefix("link:")) in self._records.up
        }
