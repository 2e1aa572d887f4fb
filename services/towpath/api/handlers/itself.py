"""The service's description and health, without a token."""

from __future__ import annotations

import json
from functools import cache

from aiohttp import web

from towpath.api.coordinator import Coordinator
from towpath.api.responses import answered
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.export.openapi import openapi
from towpath.contracts.rest import JSON, Health, Route


class ServiceRoutes:
    """Answers requests about the service."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._description = _description()

    async def describe(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send the OpenAPI document."""
        return web.Response(text=self._description, content_type=JSON)

    async def health(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Answer if requests can reach the mesh. Raises `TowpathError` (unreachable) if not."""
        if not self._coordinator.connected:
            raise TowpathError(ErrorCode.UNREACHABLE, "the service has no connection to the hub")
        return answered(Health())


@cache
def _description() -> str:
    """Return the OpenAPI document. It follows from the code and takes 0.1 s, so it is made once."""
    return json.dumps(openapi(), ensure_ascii=False)
