"""Look at the mesh, and ahead: rates, batteries, announced windows, coverage, and sites that fail."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from towpath.autopilot.history import History, Points
from towpath.autopilot.memory import Memory
from towpath.autopilot.settings import AutopilotSettings
from towpath.autopilot.tracks import Tracks
from towpath.bus import Bus
from towpath.composition.mesh_view import Picture
from towpath.contracts.commands import JobList, JobView, ListOperations, OperationKind
from towpath.contracts.metrics import QueryMetrics, SeriesList
from towpath.mesh.present_picture import ASK_S, present_picture
from towpath.placement.autopilot.forecasts import empty_in_s, forecast_rates
from towpath.placement.autopilot.outlook import Cause, Outlook, Window, outlook
from towpath.placement.autopilot.situation import Situation
from towpath.placement.data.node_history import DAY_S
from towpath.placement.jobs.view import barring
from towpath.telemetry.selection import matches

RATES_S = 30.0
"""Rates are means of so many seconds at most: an overload has to be seen soon."""

STEPS = 10
"""Forecasts of rates have so many steps within the horizon."""

RESERVE = 0.05
"""A battery counts as empty with this share left."""

MOVE_S = 8.0
"""A move takes so long while none was measured."""

LEAST_GOAL_S = 0.5
"""Transfers and waiting may take so long, however slow micro-batches are: moving does not change those."""

LOOK_BACK = 100
"""Operations from which the duration of moves is known."""


@dataclass(frozen=True)
class Sight:
    """The present, and the time ahead."""

    picture: Picture
    windows: tuple[Window, ...]
    situation: Situation


class Foresight:
    """Makes outlooks."""

    def __init__(self, bus: Bus, settings: AutopilotSettings, memory: Memory) -> None:
        self._bus = bus
        self._settings = settings
        self._memory = memory
        self._step_s = settings.spec.horizon_s / STEPS
        self._history = History(self._query, self._step_s)
        self._tracks = Tracks(bus)

    async def look(self, jobs: JobList, unchanged_s: float, stay: Collection[str] = ()) -> Sight:
        """Return the present and the time ahead. Raises `TowpathError`.

        Jobs are where they are for `unchanged_s`: older measurements do not count. Some must `stay`.
        """
        now_s, spec = time.time(), self._settings.spec
        names = (job.spec.name for job in jobs.jobs if job.spec.name not in stay)
        movable = [name for name in names if matches(name, spec.jobs)]
        picture = await present_picture(
            self._bus,
            self._settings.sites,
            self._query,
            jobs,
            rates_s=min(RATES_S, unchanged_s),
            movable=movable,
        )
        failed = self._memory.failed(spec.horizon_s) - {(job.spec.name, job.site) for job in jobs.jobs}
        picture = replace(picture, view=barring(picture.view, failed))
        rates, charges = await self._history.read(picture.view, now_s)
        durations = await self._durations()
        coverage = await self._tracks.windows(now_s, spec.horizon_s)
        windows = (*self._announced(now_s), *self._batteries(charges, now_s), *coverage)
        current = {job.spec.name: job.site for job in jobs.jobs if job.spec.name in picture.view.job}
        situation = Situation(
            await asyncio.to_thread(self._outlook, picture, rates, windows, now_s),
            current,
            goals={job.spec.name: self._goal_s(job) for job in jobs.jobs if job.spec.name in current},
            rules=self._settings.rules,
            move_s=lambda move: durations.get(move.job, durations.get("", MOVE_S)),
        )
        return Sight(picture, windows, situation)

    def _goal_s(self, job: JobView) -> float:
        """Return how long transfers and waiting may take: the goal, less the usual micro-batch."""
        batch_s = (job.status.batch_s if job.status is not None else None) or 0.0
        own = job.spec.qos.latency_p99_s if job.spec.qos is not None else None
        return max((own or self._settings.spec.latency_s) - job.spec.trigger_s - batch_s, LEAST_GOAL_S)

    async def _query(self, command: QueryMetrics) -> SeriesList:
        return await self._bus.request(command, deadline_s=ASK_S)

    def _outlook(
        self, picture: Picture, known: Mapping[str, Points], windows: tuple[Window, ...], now_s: float
    ) -> Outlook:
        rates = {
            name: forecast_rates(history, now_s, self._step_s, STEPS, DAY_S).upper
            for name, history in known.items()
        }
        horizon_s = self._settings.spec.horizon_s
        return outlook(picture.view, horizon_s, rates, self._step_s, windows, picture.waiting)

    def _announced(self, now_s: float) -> Iterator[Window]:
        for each in self._memory.windows():
            begins, ends = each.begins.timestamp(), each.ends.timestamp()
            yield Window(each.site, Cause(each.cause.value), begins - now_s, ends - now_s, each.factor)

    def _batteries(self, charges: Mapping[str, Points], now_s: float) -> Iterator[Window]:
        for site, history in charges.items():
            empty_s = empty_in_s([(at_s, charge - RESERVE) for at_s, charge in history], now_s)
            if empty_s < self._settings.spec.horizon_s:
                yield Window(site, Cause.BATTERY, empty_s, self._settings.spec.horizon_s)

    async def _durations(self) -> dict[str, float]:
        """Return how long moves took, seconds: of each job, and of all as ''."""
        asked = ListOperations(kind=OperationKind.MIGRATE, limit=LOOK_BACK)
        found: defaultdict[str, list[float]] = defaultdict(list)
        for each in (await self._bus.request(asked, deadline_s=ASK_S)).operations:
            if each.figures is not None:
                found[each.job].append(each.figures.total_s)
                found[""].append(each.figures.total_s)
        return {name: statistics.median(times) for name, times in found.items()}
