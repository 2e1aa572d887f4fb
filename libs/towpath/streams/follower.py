"""Follow a growing stream anywhere in the mesh: ask for new messages again and again."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client

from towpath.streams.pages import StoredMessage, page
from towpath.streams.stream_view import stream_view

PAGE = 500
"""Messages at a time: a few milliseconds of work, and little memory."""

PAGE_S = 5.0
"""Time for one page. A later answer counts as out of reach."""

LOOK_S = 2.0
"""Seconds between two checks that a stream without news still exists."""


class StreamGoneError(RuntimeError):
    """The stream was deleted, or deleted and created again."""


class Follower:
    """Reads one stream in order, after a serial number. It passes over messages that have expired."""

    def __init__(self, connection: Client, site: str, stream: str, *, after: int = 0) -> None:
        self.connection = connection
        self.site = site
        self.stream = stream
        self.last = after
        """Serial number of the newest message read."""
        self.at_end = False
        """True if the newest page reached the end of the stream."""
        self._created: str | None = None
        self._looked_at = float("-inf")

    @property
    def has_begun(self) -> bool:
        """True if it has met the stream."""
        return self._created is not None

    async def read(self) -> list[StoredMessage]:
        """Return the next messages; none when there is nothing new.

        Raises `StreamGoneError` when the stream does not exist any more, `TimeoutError` when its site
        does not answer.
        """
        await self._look()
        try:
            async with asyncio.timeout(PAGE_S):
                messages = await page(self.connection, self.site, self.stream, self.last + 1, PAGE)
        except TimeoutError:
            self._looked_at = float("-inf")
            raise
        self.at_end = len(messages) < PAGE
        if messages:
            self.last = messages[-1].serial
        return messages

    async def _look(self) -> None:
        """Check now and then that it is still the same stream: a deleted one looks like one without news.

        Raises `StreamGoneError`.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < LOOK_S:
            return
        view = await stream_view(self.connection, self.site, self.stream, timeout_s=PAGE_S)
        if view is None:
            raise StreamGoneError(f"there is no {self.stream} at {self.site}")
        if view.created != (self._created or view.created):
            raise StreamGoneError(f"{self.stream} at {self.site} was made again")
        self._created, self._looked_at = view.created, now
