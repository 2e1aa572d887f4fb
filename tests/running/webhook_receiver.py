"""A service that takes the results of a webhook, or refuses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass
class Receiver:
    """Takes results in order. Tests say which it refuses."""

    url: str = ""
    refused: set[str] = field(default_factory=set)
    """Bodies that it refuses, as long as they are in here."""
    refused_first: int = 0
    """Requests that it refuses, whatever they bring."""
    keys: list[str] = field(default_factory=list)
    """Idempotency keys of all requests."""
    taken: list[str] = field(default_factory=list)
    """Bodies."""

    async def take(self, request: web.Request) -> web.Response:
        """Answer a request."""
        self.keys.append(request.headers["Idempotency-Key"])
        body = await request.text()
        if body in self.refused or len(self.keys) <= self.refused_first:
            return web.Response(status=503)
        self.taken.append(body)
        return web.Response(status=204)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Serve a receiver."""
    made, application = Receiver(), web.Application()
    application.router.add_post("/", made.take)
    async with TestServer(application) as server:
        made.url = str(server.make_url("/"))
        yield made
