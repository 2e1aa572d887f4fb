"""Query samples of all sites. Every site is asked at once, and answers in time are joined to one."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable

import nats.errors

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import (
    MAX_POINTS,
    MetricSelection,
    QueryMetrics,
    ReadMetrics,
    Series,
    SeriesList,
)
from towpath.contracts.site import SiteStatus
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.selection import check_metrics, too_many

SITE_S = 3.0
"""Deadline for a site's answer."""

SILENT_SITE_S = 0.5
"""The same for a site that was not heard lately, so that other sites need not wait long for it."""

SILENT_AFTER_S = 5.0
"""Age of the last heartbeat that makes a site silent. Heartbeats come every second."""


class Federation:
    """Answers `QueryMetrics`."""

    def __init__(self, bus: Bus, store: MetricStore, sites: Callable[[], Iterable[str]]) -> None:
        self._bus = bus
        self._store = store
        self._sites = sites
        """Blocks, because it reads the mesh's state."""
        self._heard: dict[str, float] = {}
        """Site → arrival of its last heartbeat, by the monotonic clock."""
        self._began = time.monotonic()

    async def hear(self, heartbeat: SiteStatus) -> None:
        """Note that a site is there."""
        self._heard[heartbeat.site] = time.monotonic()

    async def query(self, command: QueryMetrics) -> SeriesList:
        """Answer with the series of all sites asked.

        Raises `TowpathError`: no such metric or site, or more points than `limit`.
        """
        check_metrics(command.metrics)
        scopes = await self._scopes(command)
        parts = await asyncio.gather(*(self._read(scope, command) for scope in scopes))
        for part in parts:
            if isinstance(part, TowpathError):
                raise part
        series = [each for part in parts if isinstance(part, list) for each in part]
        if sum(len(each.points) for each in series) > command.limit:
            raise _too_many(command, series)
        return SeriesList(
            series=sorted(series, key=lambda each: (each.site, each.entity, each.metric)),
            unreached={s: why for s, why in zip(scopes, parts, strict=True) if isinstance(why, str)},
        )

    async def newest(self) -> list[Series]:
        """Return the newest point of every series of the sites that answer."""
        return (await self.query(QueryMetrics(limit=MAX_POINTS))).series

    async def _scopes(self, command: QueryMetrics) -> list[str]:
        known = [HUB_SCOPE, *sorted(await asyncio.to_thread(self._sites))]
        wanted = known if command.sites is None else list(dict.fromkeys(command.sites))
        for scope in wanted:
            if scope not in known:
                raise TowpathError.unknown("site", scope, known, field="sites")
        return wanted

    async def _read(self, scope: str, command: QueryMetrics) -> list[Series] | str | TowpathError:
        """Return the series of a site or the hub, the reason why it is silent, or the error in the query."""
        wanted = command.model_dump(exclude={"id", "sites"})
        try:
            if scope == HUB_SCOPE:
                own = MetricSelection.model_validate(wanted)
                return await asyncio.to_thread(self._store.read, own, HUB_SCOPE)
            return await self._ask(ReadMetrics(site=scope, **wanted))
        except TowpathError as error:
            return error if error.detail.code is ErrorCode.INVALID else error.detail.one_line()
        except (TimeoutError, nats.errors.Error, OSError, sqlite3.Error) as error:
            return f"not read: {error!r}"

    async def _ask(self, question: ReadMetrics) -> list[Series]:
        deadline_s = self._deadline_s(question.site)
        # Sending has a deadline, too, because the hub may be away.
        async with asyncio.timeout(deadline_s + SILENT_SITE_S):
            return (await self._bus.request(question, deadline_s=deadline_s)).series

    def _deadline_s(self, site: str) -> float:
        silent_s = time.monotonic() - self._heard.get(site, self._began)
        return SITE_S if silent_s < SILENT_AFTER_S else SILENT_SITE_S


def sites_of(home: Home) -> Callable[[], Iterable[str]]:
    """Return a function that lists the present sites of the mesh in this directory. It blocks."""
    return lambda: MeshState.load(home).sites


def _too_many(command: QueryMetrics, series: list[Series]) -> TowpathError:
    points = [at for each in series for at, _ in each.points]
    begin = min(points) if command.since is None else command.since.timestamp()
    return too_many(command, len(series), begin, max(points))
