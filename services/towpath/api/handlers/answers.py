"""Answers of running queries as server-sent events, resumable by their serial numbers."""

from __future__ import annotations

import asyncio

from aiohttp import web

from towpath.api.admission import ending
from towpath.api.handlers.queries import QueryRoutes
from towpath.api.reading import last_event_id, path_parameter, query_of
from towpath.api.settings import ApiSettings
from towpath.api.streaming import EventStream, lost, on_one_line
from towpath.bus import Bus
from towpath.contracts.data_plane import output_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.query import AnswersQuery, RunningQueries
from towpath.contracts.rest import Route
from towpath.streams.follower import Follower, StreamGoneError
from towpath.streams.pages import StoredMessage
from towpath.streams.stream_view import StreamView, stream_view

LOOK_S = 0.5
"""Pause between two looks for new answers of one client. A look is one small request to the site."""

NO_STREAM_YET = StreamView("", created="", subjects=(), first=1, last=0, size=0)
"""Stream of queries whose jobs are being started."""


class AnswerRoutes:
    """Streams answers to clients. Each reads the output stream at its own pace, wherever that is."""

    def __init__(self, settings: ApiSettings, bus: Bus, queries: QueryRoutes) -> None:
        self._settings = settings
        self._connection = bus.connection
        self._queries = queries

    async def follow(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Stream answers until the client goes, the service ends, or there are no more of those wanted."""
        query = query_of(request, AnswersQuery)
        resumed = last_event_id(request)
        asked = await self._queries.running(path_parameter(request, "name"))
        kept = await self._kept(asked)
        after, opening = beginning(query, resumed, kept)
        follower = Follower(self._connection, asked.at, output_stream(asked.name), after=after)
        stream = EventStream(ending.get(), write_s=self._settings.write_s, ends=not query.follow)
        async with stream.to(request):
            await stream.write(opening)
            await self._pass_on(follower, stream, None if query.follow else kept.last)
        return stream.response

    async def _kept(self, asked: RunningQueries) -> StreamView:
        try:
            return await stream_view(self._connection, asked.at, output_stream(asked.name)) or NO_STREAM_YET
        except TimeoutError as error:
            raise TowpathError(ErrorCode.SITE_DOWN, f"site {asked.at} does not answer") from error

    async def _pass_on(self, follower: Follower, stream: EventStream, through: int | None) -> None:
        clock = asyncio.get_running_loop().time
        written_at = clock()
        while through is None or follower.last < through:
            messages = await stream.unless_stopping(read(follower, follow=through is None))
            if messages is None or not (messages or through is None):
                return
            wanted = [message for message in messages if through is None or message.serial <= through]
            if wanted or clock() - written_at > self._settings.keep_alive_s:
                await stream.write(b"".join(map(encoded, wanted)) or b": nothing new\n\n")
                written_at = clock()


async def read(follower: Follower, *, follow: bool) -> list[StoredMessage] | None:
    """Return the next answers; none after a pause without news; None if the stream was deleted.

    Nothing comes before the jobs have started, or from a site that does not answer. Without `follow` such a
    site raises `TimeoutError`.
    """
    try:
        messages = await follower.read()
    except TimeoutError:
        if not follow:
            raise
        messages = []
    except StreamGoneError:
        if follower.has_begun:
            return None
        messages = []
    if not messages and follow:
        await asyncio.sleep(LOOK_S)
    return messages


def beginning(query: AnswersQuery, resumed: int | None, kept: StreamView) -> tuple[int, bytes]:
    """Return the serial number after which to begin, and the first bytes that the client gets.

    A client may come back to a stream that began again, or has dropped what came next: it is told.
    """
    after = resumed if resumed is not None else query.after
    newest = max(kept.last - query.newest, 0)
    if after is None:
        return newest, b": answers follow\n\n"
    if after > kept.last:
        return newest, lost(after, kept.first)
    return after, lost(after, kept.first) if 0 < after < kept.first - 1 else b": answers follow\n\n"


def encoded(answer: StoredMessage) -> bytes:
    """Return an answer as it goes over the wire."""
    return b"id: %d\ndata: %s\n\n" % (answer.serial, on_one_line(answer.body))
