"""Answers of the collector: series, newest values for Prometheus, stored values, and places for jobs."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from aiohttp import web
from pydantic import ValidationError

from towpath.api.coordinator import Coordinator
from towpath.api.reading import no_query, query_of
from towpath.api.responses import answered
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics
from towpath.contracts.placement import ProposePlacement
from towpath.contracts.rest import PlacementQuery, Route, SeriesQuery, ValuesQuery
from towpath.contracts.storage import QueryValues
from towpath.telemetry.exposition import CONTENT_TYPE, exposition

Asked = TypeVar("Asked", QueryMetrics, QueryValues, ProposePlacement)

LISTS = ("metrics", "entities", "groups", "sites", "jobs", "avoid")
"""Parameters that may have several values."""


class CollectorRoutes:
    """Asks the collector."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def query(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send the series that the query selects."""
        return answered(await self._coordinator.ask(selected(query_of(request, SeriesQuery), QueryMetrics)))

    async def query_values(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send the stored values that the query selects."""
        asked = selected(query_of(request, ValuesQuery), QueryValues)
        return answered(await self._coordinator.ask(asked))

    async def propose_placement(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send where a policy wants jobs."""
        asked = selected(query_of(request, PlacementQuery), ProposePlacement)
        return answered(await self._coordinator.ask(asked))

    async def scrape(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send the newest value of each series as text."""
        no_query(request)
        newest = await self._coordinator.ask(QueryMetrics(limit=MAX_POINTS))
        # In a large mesh this is some megabytes of text.
        body = await asyncio.to_thread(exposition, newest.series)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


def selected(query: SeriesQuery | ValuesQuery | PlacementQuery, command: type[Asked]) -> Asked:
    """Return the command of a query. Raises `TowpathError` (invalid)."""
    given: dict[str, Any] = query.model_dump(exclude_none=True)
    for name in LISTS:
        if name in given:
            given[name] = given[name].split(",")
    try:
        return command.model_validate(given)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
