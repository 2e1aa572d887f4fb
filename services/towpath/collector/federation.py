"""Query samples of all sites. Every site is asked at once, and answers in time are joined to one."""

from __future__ import annotations

import asyncio
import sqlite3

from towpath.atomic_write import content_state
from towpath.collector.site_answers import credible, points_of, usable
from towpath.collector.site_questions import SiteQuestions
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
        found, unreached = usable(dict(zip(scopes, parts, strict=True)), points_of, command.limit)
        series = [each for part in found.values() for each in part]
        if points_of(series) > command.limit:
            raise _too_many(command, series)
        return SeriesList(
            series=sorted(series, key=lambda each: (each.site, each.entity, each.metric)),
            unreached=unreached,
        )

    async def newest(self) -> list[Series]:
        """Return the newest point of every series of the sites that answer."""
        return (await self.query(QueryMetrics(limit=MAX_POINTS))).series

    async def _read(self, scope: str, command: QueryMetrics) -> list[Series] | TowpathError:
        """Return the series of a site or the hub, or the reason why there are none."""
        wanted = command.model_dump(exclude={"id", "asked_by", "sites"})
        if scope == HUB_SCOPE:
            own = MetricSelection.model_validate(wanted)
            try:
                return await asyncio.to_thread(self._store.read, own, HUB_SCOPE)
            except sqlite3.Error as error:
                return TowpathError(ErrorCode.FAILED, f"not read: {error!r}")
            except TowpathError as error:
                return error
        found = await self._questions.ask(scope, ReadMetrics(site=scope, **wanted))
        if isinstance(found, TowpathError):
            return found
        return credible(scope, found.series, command.limit)


class SavedSites:
    """The present sites of the mesh in a directory. Asking blocks; a file that is the same is not read again.

    With 1,000 sites, reading it takes 0.2 s of a core, and rounds ask every second.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._read: tuple[tuple[int, ...] | None, dict[str, SiteSpec]] = (None, {})

    def names(self) -> list[str]:
        """Return the names of the sites. Raises `TowpathError` when the mesh cannot be read."""
        return [*self._specs()]

    def specs(self) -> list[SiteSpec]:
        """Return the settings of the sites. Raises `TowpathError` when the mesh cannot be read."""
        return [*self._specs().values()]

    def _specs(self) -> dict[str, SiteSpec]:
        present = content_state(self._home.state)
        known, specs = self._read
        if present is None or present != known:
            specs = {name: access.spec for name, access in MeshState.load(self._home).sites.items()}
            self._read = (present, specs)
        return specs


def _too_many(command: QueryMetrics, series: list[Series]) -> TowpathError:
    points = [at for each in series for at, _ in each.points]
    begin = min(points) if command.since is None else command.since.timestamp()
    return too_many(command, len(series), begin, max(points))
