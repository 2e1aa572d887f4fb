"""Copies of other sites' streams at a site. They have the serial numbers, and the times, of their origin."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from nats.js.api import ExternalStream, StreamSource
from nats.js.errors import NotFoundError

from towpath.contracts import data_plane
from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.job import ResolvedInput
from towpath.streams.pages import page
from towpath.streams.stream_view import StreamView

if TYPE_CHECKING:
    from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)


class Mirrors:
    """The mirrors of one site. All methods are idempotent."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Mirror → lock while it is looked for and made: jobs that move here at the same time may read the
        same input, from different serial numbers on."""

    async def ensure(self, resolved: ResolvedInput, after: int | None) -> str:
        """Return the local stream to read `resolved` from, and make it if necessary.

        Its serial numbers are the origin's.
        """
        if resolved.site == self._streams.site:
            return resolved.stream
        name = _name(resolved)
        async with self._locks[name]:
            try:
                await self._streams.jetstream.stream_info(name)
            except NotFoundError:
                await self._make(resolved, after)
        return name

    async def reach_back(self, resolved: ResolvedInput, after: int) -> None:
        """Make the mirror of another site's stream hold the messages after the serial number `after`.

        One that was made for another job may begin later. It is made again if the origin still has what it
        lacks; its readers find the same serial numbers. Raises `TowpathError` (unreachable) when only the
        origin could help, and is out of reach.
        """
        if resolved.site == self._streams.site:
            return
        async with self._locks[_name(resolved)]:
            try:
                info = await self._streams.jetstream.stream_info(_name(resolved))
            except NotFoundError:
                await self._make(resolved, after)
                return
            begins = (info.config.mirror.opt_start_seq if info.config.mirror else None) or 1
            if begins <= after + 1:
                return
            kept = (await self._streams.view(resolved.site, resolved.stream)).first
            if max(after + 1, kept) < begins:
                await self.drop(resolved)
                await self._make(resolved, max(after + 1, kept) - 1)

    async def renew(self, resolved: ResolvedInput) -> bool:
        """Make the mirror again if its events are not those of its origin. Return True if it was so.

        An origin that began again, or lost its end in a power cut, gives its serial numbers to other events.
        The mirror would go on with them where its own end is. Raises `TowpathError` when there is no mirror,
        or the origin is out of reach.
        """
        if resolved.site == self._streams.site:
            return False
        async with self._locks[_name(resolved)]:
            mirror = await self._streams.view(self._streams.site, _name(resolved))
            origin = await self._streams.view(resolved.site, resolved.stream)
            if await self._is_copy(mirror, origin, resolved):
                return False
            log.warning(
                "%s has other events at %s since it lost its end, or began again: its mirror is made again",
                resolved.stream,
                resolved.site,
            )
            await self.drop(resolved)
            await self._make(resolved, None)
            return True

    async def _is_copy(self, mirror: StreamView, origin: StreamView, resolved: ResolvedInput) -> bool:
        """Tell if the newest message of a mirror is the one with its serial number in the origin."""
        if not mirror.last or mirror.last_stored_at.startswith(_NEVER):
            return True
        if mirror.last > origin.last:
            return False
        there = await page(self._streams.connection, resolved.site, resolved.stream, mirror.last, 1)
        if not there or there[0].serial != mirror.last:
            return True  # It has expired.
        return there[0].headers.get(STORED_AT_HEADER) == mirror.last_stored_at

    async def drop(self, resolved: ResolvedInput) -> None:
        """Delete the mirror of another site's stream, if there is one."""
        if resolved.site != self._streams.site:
            await self._streams.delete(_name(resolved))

    async def _make(self, resolved: ResolvedInput, after: int | None) -> None:
        origin = StreamSource(
            name=resolved.stream,
            # Queries look back when they start, see `StreamReader`.
            opt_start_seq=max(1, after + 1 - data_plane.RECALLED_EVENTS) if after else None,
            external=ExternalStream(api=data_plane.api_prefix(resolved.site), deliver=""),
        )
        config = self._streams.kept(_name(resolved))
        await self._streams.jetstream.add_stream(replace(config, mirror=origin, mirror_direct=True))


_NEVER = "0001-"
"""Beginning of the time of no message."""


def _name(resolved: ResolvedInput) -> str:
    return data_plane.mirror_stream(resolved.site, resolved.stream)
