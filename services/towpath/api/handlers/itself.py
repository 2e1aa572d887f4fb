"""What the service says of itself, without a token: whether it works, and what it can do."""

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
    """Answers for the service."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._description = _description()

    async def describe(self, route: Route, request: web.Request) -> web.StreamResponse:
        """The OpenAPI document."""
        return web.Response(text=self._description, content_type=JSON)

    async def health(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Whether requests can reach the mesh. Raises `TowpathError` (unreachable) when not."""
        if not self._coordinator.connected:
            raise TowpathError(ErrorCode.UNREACHABLE, "no connection to the hub")
        return answered(Health())


@cache
def _description() -> str:
    """The OpenAPI document, made once in a process: it follows from the code, and takes 0.1 s."""
    return json.dumps(openapi(), ensure_ascii=False)
