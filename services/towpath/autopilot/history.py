"""Ask the collector for the history of rates and charges: sites keep their samples for days."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from towpath.composition.measurements import Measurements
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics, Series, SeriesList
from towpath.placement.autopilot.forecasts import CHARGE_S, MOST_TREND_VALUES
from towpath.placement.data.node_history import DAY_S
from towpath.placement.jobs.view import MeshView
from towpath.telemetry.rollup import MINUTE_S

Points = list[tuple[float, float]]
"""Unix seconds and value."""

RATE, BACKLOG, CHARGE = "job.event_rate", "job.backlog", "site.battery.charge"

DAYS_S = 3 * DAY_S
"""History for seasons of a day. A site with 10 jobs reads it in half a second."""

AT_ONCE = 20
"""Jobs of one question: the minutes of three days of as many fit into an answer."""


class History:
    """The past of sources and batteries: by the minute for days, and in the steps of forecasts lately."""

    def __init__(self, query: Callable[[QueryMetrics], Awaitable[SeriesList]], step_s: float) -> None:
        """`query` answers for the collector; forecasts have steps of `step_s`."""
        self._query = query
        self._step_s = min(step_s, MINUTE_S)
        self._lately_s = max(MOST_TREND_VALUES * self._step_s, CHARGE_S)
        self._days: Mapping[str, Mapping[float, float]] = {}
        self._days_until_s = 0.0

    async def read(self, view: MeshView, now_s: float) -> tuple[dict[str, Points], dict[str, Points]]:
        """Return the events/s of each source, and the charge of each battery. Raises `TowpathError`."""
        if now_s >= self._days_until_s:
            # Before the question: if it is not answered, later looks go on without.
            self._days_until_s = now_s + self._lately_s / 2
            days = await self._series(view, [RATE], now_s - DAYS_S, now_s, MINUTE_S)
            self._days = Measurements(days).source_rates(view)
        metrics = [RATE, BACKLOG, CHARGE]
        series = await self._series(view, metrics, now_s - self._lately_s, now_s, self._step_s)
        lately = Measurements(series).source_rates(view)
        rates = {
            each.name: [
                *{**self._days.get(each.name, {}), **lately.get(each.name, {})}.items(),
                (now_s, each.events_per_s),
            ]
            for each in view.sources
        }
        charges = {each.site: each.points for each in series if each.metric == CHARGE}
        return rates, {
            each.name: [*charges.get(each.name, []), (now_s, each.battery_share)]
            for each in view.sites
            if each.on_battery
        }

    async def _series(
        self, view: MeshView, metrics: list[str], begin_s: float, now_s: float, step_s: float
    ) -> list[Series]:
        """Return the whole steps of the jobs that read sources, and of sites."""
        readers = [job.name for job in view.jobs if not view.source.keys().isdisjoint(job.inputs)]
        found: list[Series] = []
        for first in range(0, len(readers), AT_ONCE):
            asked = QueryMetrics(
                metrics=metrics,
                entities=["site", *(f"job:{name}" for name in readers[first : first + AT_ONCE])],
                since=datetime.fromtimestamp(begin_s, UTC),
                until=datetime.fromtimestamp(now_s // step_s * step_s, UTC),
                step_s=step_s,
                limit=MAX_POINTS,
            )
            found += (await self._query(asked)).series
        return found
