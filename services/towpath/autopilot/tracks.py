"""Know where vehicles were and where they had no link, from what sites store, and foresee the next gaps.

A site is a vehicle if something there publishes its position as the values `latitude` and `longitude` of
`node:<site>`, see `docs/stored-values.md`. A site that lost its link tells afterwards where that was.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics
from towpath.contracts.storage import QueryValues, ValueSeries, Wanted
from towpath.mesh.present_picture import ASK_S
from towpath.placement.autopilot.coverage import STALE_S, Fix, Gap, gaps_ahead
from towpath.placement.autopilot.outlook import Cause, Window
from towpath.telemetry.intervals import PROBE_INTERVAL_S

LATITUDE, LONGITUDE = "latitude", "longitude"
ROUND_TRIP = "link.round_trip"

TRACK_S = 24 * 3600.0
"""So much of a track is remembered: most vehicles come by again within a day."""

LONGEST_S = (TRACK_S, TRACK_S / 4, TRACK_S / 24)
"""Parts of the past that are asked for at first: less if there are too many positions."""

LOST_S = 3 * PROBE_INTERVAL_S
"""A link that was not measured for so long was gone: two measurements failed."""


@dataclass
class _Vehicle:
    """One site that moves: its positions, and its link."""

    track: list[Fix] = field(default_factory=list[Fix])
    measured_s: list[float] = field(default_factory=list[float])
    """Times at which its link was there, Unix seconds."""

    @property
    def gaps(self) -> list[Gap]:
        """Its times without a link."""
        return [Gap(a, b) for a, b in pairwise(self.measured_s) if b - a > LOST_S]


class Tracks:
    """Foresees gaps of all vehicles. It asks for the past once, and then for what is new."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._vehicles: defaultdict[str, _Vehicle] = defaultdict(_Vehicle)

    async def windows(self, now_s: float, horizon_s: float) -> list[Window]:
        """Return the times ahead in which vehicles will have no link. Raises `TowpathError`.

        None if the mesh stores no values.
        """
        found: list[Window] = []
        for site in await self._moving(now_s):
            vehicle = self._vehicles[site]
            await self._read_on(site, vehicle, now_s)
            gaps = await asyncio.to_thread(gaps_ahead, vehicle.track, vehicle.gaps, now_s, horizon_s)
            found += (Window(site, Cause.COVERAGE, gap.begin_s, gap.end_s) for gap in gaps)
        return found

    async def _moving(self, now_s: float) -> list[str]:
        """Return the sites that tell their position now."""
        try:
            newest = await self._values(QueryValues(metrics=[LATITUDE], entities=["node:*"]))
        except TowpathError as error:
            if error.detail.code is ErrorCode.NOT_ALLOWED:
                return []
            raise
        return [each.site for each in newest if each.points[-1][0] > now_s - STALE_S]

    async def _read_on(self, site: str, vehicle: _Vehicle, now_s: float) -> None:
        """Add positions and measurements that are new, and forget old ones."""
        vehicle.track += await self._new_fixes(site, vehicle, now_s)
        begin_s = vehicle.measured_s[-1] if vehicle.measured_s else now_s - TRACK_S
        asked = QueryMetrics(
            metrics=[ROUND_TRIP],
            entities=[f"link:{HUB_SCOPE}"],
            sites=[site],
            since=datetime.fromtimestamp(begin_s, UTC),
            step_s=PROBE_INTERVAL_S,
            limit=MAX_POINTS,
        )
        for series in (await self._bus.request(asked, deadline_s=ASK_S)).series:
            # No time to come: nothing else would be asked for until it is there.
            vehicle.measured_s += (at_s for at_s, _ in series.points if begin_s < at_s <= now_s)
        vehicle.track = [fix for fix in vehicle.track if fix.at_s > now_s - TRACK_S]
        vehicle.measured_s = [at_s for at_s in vehicle.measured_s if at_s > now_s - TRACK_S]

    async def _new_fixes(self, site: str, vehicle: _Vehicle, now_s: float) -> list[Fix]:
        if vehicle.track:
            return await self._fixes(site, vehicle.track[-1].at_s, now_s)
        for seconds in LONGEST_S[:-1]:
            try:
                return await self._fixes(site, now_s - seconds, now_s)
            except TowpathError as error:
                if error.detail.code is not ErrorCode.INVALID:
                    raise
        return await self._fixes(site, now_s - LONGEST_S[-1], now_s)

    async def _fixes(self, site: str, after_s: float, now_s: float) -> list[Fix]:
        """Return the positions after a time until now. Raises `TowpathError` if there are too many."""
        series = await self._values(
            QueryValues(
                wanted=Wanted.RANGE,
                metrics=[LATITUDE, LONGITUDE],
                entities=[f"node:{site}"],
                sites=[site],
                since=datetime.fromtimestamp(after_s, UTC),
                limit=MAX_POINTS,
            )
        )
        points = {each.metric: dict(each.points) for each in series}
        north, east = points.get(LATITUDE, {}), points.get(LONGITUDE, {})
        both = sorted(at_s for at_s in north.keys() & east.keys() if after_s < at_s <= now_s)
        return [Fix(at_s, north[at_s], east[at_s]) for at_s in both]

    async def _values(self, asked: QueryValues) -> list[ValueSeries]:
        """Return the values of sites themselves, and not of other things at them."""
        found = await self._bus.request(asked, deadline_s=ASK_S)
        return [each for each in found.series if each.entity == f"node:{each.site}" and each.points]
