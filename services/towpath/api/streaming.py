"""Server-sent events to one client, with deadlines and a proper end when the service ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiohttp import web

from towpath.contracts.rest import EVENT_STREAM
from towpath.tasks import end

T = TypeVar("T")


_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


def on_one_line(body: bytes) -> bytes:
    """Return JSON without line ends: they would end a field of an event. A blank means the same."""
    return body.translate(_LINE_ENDS)


def lost(after: int, first: int) -> bytes:
    """Return the event that tells a client that what came after its last serial number is gone."""
    return b'event: lost\ndata: {"after":%d,"first":%d}\n\n' % (after, first)


class Stopping(Exception):
    """The stream must end: the service ends, and clients resume with the next one; or its token is void."""


class EventStream:
    """The response to one client that follows something."""

    def __init__(self, stop: asyncio.Event, *, write_s: float, ends: bool = False) -> None:
        """With `ends`, the client takes the end of the stream for the end of what there is."""
        self._stop = stop
        self._write_s = write_s
        self._ends = ends
        self.response = web.StreamResponse(
            headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )

    @asynccontextmanager
    async def to(self, request: web.Request) -> AsyncIterator[None]:
        """Send the headers first, and the end of the stream last.

        It is not an error if the client is gone or does not read, if the stream must end, or if what is sent
        cannot be read any more: the block is left.
        """
        await self.response.prepare(request)
        try:
            yield
            await self.response.write_eof()
        except (Stopping, ConnectionError, TimeoutError):
            if self._ends and request.transport is not None:
                request.transport.abort()  # An end in good order would say that this was all.

    async def write(self, text: bytes) -> None:
        """Write text. Return when the connection's buffer has room again: a slow client holds no memory.

        Raises `TimeoutError` when the client does not read, and `Stopping`.
        """
        async with asyncio.timeout(self._write_s):
            await self.unless_stopping(self.response.write(text))

    async def unless_stopping(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. Raises `Stopping` if the stream must end first."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise Stopping
            return working.result()
        finally:
            await end((working, stopping))
