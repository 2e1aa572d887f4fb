"""Server-sent events: those of the mesh, resumable by serial number, and its state as it changes."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress

from aiohttp import web

from towpath.api.admission import ending
from towpath.api.event_log import KeptEvent, KeptEventReader, KeptRange, span
from towpath.api.live_feed import FeedFollower, LiveFeed
from towpath.api.reading import last_event_id, no_query, query_of
from towpath.api.settings import ApiSettings
from towpath.api.streaming import EventStream, lost
from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.rest import EventsQuery, Route


class EventRoutes:
    """Streams events to clients, each with a reader of its own."""

    def __init__(self, settings: ApiSettings, bus: Bus) -> None:
        self._settings = settings
        self._connection = bus.connection

    async def follow(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Stream events until the client goes, the service ends, or there are no more of those wanted."""
        query = query_of(request, EventsQuery)
        kept = await span(self._connection)
        after = _start(last_event_id(request), query, kept)
        reader = KeptEventReader(self._connection, after=after, subject=query.subject)
        through = None if query.follow else kept.last
        stream = EventStream(ending.get(), write_s=self._settings.write_s, ends=not query.follow)
        async with aclosing(reader), stream.to(request):
            await stream.write(_opening(after, kept))
            await self._stream(reader, stream, through)
        return stream.response

    async def _stream(self, reader: KeptEventReader, stream: EventStream, through: int | None) -> None:
        follow, within_s = through is None, self._settings.keep_alive_s
        while through is None or reader.last < through:
            page = await stream.unless_stopping(reader.page(within_s=within_s, follow=follow))
            if not (page or follow):
                return
            wanted = [event for event in page if through is None or event.serial <= through]
            await stream.write(b"".join(map(encoded, wanted)) or b": nothing new\n\n")


class LiveRoutes:
    """Streams the live feed to clients."""

    def __init__(self, settings: ApiSettings, bus: Bus) -> None:
        self._settings = settings
        self._feed = LiveFeed(bus, settings.autopilot)

    async def follow(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Stream until the client goes, is too slow, or the service ends."""
        no_query(request)
        stream = EventStream(ending.get(), write_s=self._settings.write_s)
        async with stream.to(request):
            await stream.write(b": the mesh follows\n\n")
            async with self._feed.following() as follower:
                await self._pass_on(follower, stream)
        return stream.response

    async def _pass_on(self, follower: FeedFollower, stream: EventStream) -> None:
        while not follower.cut_off:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.keep_alive_s):
                    await stream.unless_stopping(follower.arrived.wait())
            await stream.write(follower.take() or b": nothing new\n\n")


def encoded(event: KeptEvent) -> bytes:
    """Return an event as it goes over the wire: JSON, on one line."""
    text = json.dumps({"subject": event.subject, "body": event.body}, separators=(",", ":"))
    return b"id: %d\ndata: %s\n\n" % (event.serial, text.encode())


def _opening(after: int, kept: KeptRange) -> bytes:
    """Return the first bytes: the stream is open, and events after the client's last one may be gone."""
    return lost(after, kept.first) if 0 < after < kept.first - 1 else b": events follow\n\n"


def _start(resumed: int | None, query: EventsQuery, kept: KeptRange) -> int:
    """Return the serial number after which to begin."""
    field, after = ("Last-Event-ID", resumed) if resumed is not None else ("after", query.after)
    if after is None:
        # A client that does not follow wants the stored events.
        return kept.last if query.follow else 0
    if after > kept.last:
        raise TowpathError(
            ErrorCode.INVALID,
            "no event has this serial number yet",
            field=field,
            value=after,
            allowed=f"0 to {kept.last}",
        )
    return after
