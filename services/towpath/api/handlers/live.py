"""Send the state of the mesh to pages as it changes, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from towpath.api.live_feed import FeedFollower, LiveFeed
from towpath.api.reading import no_query
from towpath.api.settings import ApiSettings
from towpath.api.streaming import EventStream, Stopping
from towpath.bus import Bus
from towpath.contracts.rest import Route


class LiveRoutes:
    """Streams the live feed to clients."""

    def __init__(self, settings: ApiSettings, bus: Bus, stop: asyncio.Event) -> None:
        self._settings = settings
        self._feed = LiveFeed(bus)
        self._stop = stop

    async def follow(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Stream until the client goes, is too slow, or the service ends."""
        no_query(request)
        stream = EventStream(self._stop, write_s=self._settings.write_s)
        response = await stream.begin(request)
        # It is not an error if a client is gone or does not read.
        with contextlib.suppress(Stopping, ConnectionError, TimeoutError):
            await stream.write(b": the mesh follows\n\n")
            async with self._feed.following() as follower:
                await self._pass_on(follower, stream)
            await stream.finish()
        return response

    async def _pass_on(self, follower: FeedFollower, stream: EventStream) -> None:
        while not follower.cut_off:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.keep_alive_s):
                    await stream.unless_stopping(follower.arrived.wait())
            await stream.write(follower.take() or b": nothing new\n\n")
