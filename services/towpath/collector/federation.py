"""Query samples of all sites. Every site is asked at once, and answers in time are joined to one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable

from towpath.collector.site_questions import SiteQuestions
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import (
    MAX_POINTS,
    MetricSelection,
    QueryMetrics,
    ReadMetrics,
    Series,
    SeriesList,
)
from towpath.contracts.site import SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.selection import check_metrics, too_many


class Federation:
    """Answers `QueryMetrics`."""

    def __init__(self, questions: SiteQuestions, store: MetricStore) -> None:
        self._questions = questions
        self._store = store

    async def query(self, command: QueryMetrics) -> SeriesList:
        """Answer with the series of all sites asked.

        Raises `TowpathError`: no such metric or site, or more points than `limit`.
        """
        check_metrics(command.metrics)
        scopes = await self._questions.scopes(command.sites, beside=[HUB_SCOPE])
        parts = await asyncio.gather(*(self._read(scope, command) for scope in scopes))
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

    async def _read(self, scope: str, command: QueryMetrics) -> list[Series] | str:
        """Return the series of a site or the hub, or the reason why it is silent."""
        wanted = command.model_dump(exclude={"id", "asked_by", "sites"})
        if scope == HUB_SCOPE:
            own = MetricSelection.model_validate(wanted)
            try:
                return await asyncio.to_thread(self._store.read, own, HUB_SCOPE)
            except sqlite3.Error as error:
                return f"not read: {error!r}"
        found = await self._questions.ask(scope, ReadMetrics(site=scope, **wanted))
        return found if isinstance(found, str) else found.series


def sites_of(home: Home) -> Callable[[], Iterable[str]]:
    """Return a function that lists the present sites of the mesh in this directory. It blocks."""
    return lambda: MeshState.load(home).sites


def specs_of(home: Home) -> Callable[[], list[SiteSpec]]:
    """Return a function that returns the settings of the present sites. It blocks."""
    return lambda: [access.spec for access in MeshState.load(home).sites.values()]


def _too_many(command: QueryMetrics, series: list[Series]) -> TowpathError:
    points = [at for each in series for at, _ in each.points]
    begin = min(points) if command.since is None else command.since.timestamp()
    return too_many(command, len(series), begin, max(points))
