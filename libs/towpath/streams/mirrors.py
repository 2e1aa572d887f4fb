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
from towpath.contracts.job import ResolvedInput
from towpath.streams.pages import is_another
from towpath.streams.stream_view import StreamView

if TYPE_CHECKING:
    from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)


class Mirrors:
    """The mirrors of one site. All methods are idempotent."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._seen: dict[str, tuple[int, str]] = {}
        """Mirror → serial number and time of its newest message, as its origin had it at the last look."""
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
                info = await self._streams.jetstream.stream_info(name)
            except NotFoundError:
                await self._make(resolved, after)
            else:
                if info.config.mirror_direct:
                    await self._streams.change(name, mirror_direct=False)
        return name

    async def reach_back(self, resolved: ResolvedInput, after: int) -> None:
        """Make the mirror of another site's stream hold the messages after the serial number `after`, and the
        earlier ones that these may repeat.

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
            needed = max(after - resolved.repeats_within, 0) + 1
            if begins <= needed:
                return
            kept = (await self._streams.view(resolved.site, resolved.stream)).first
            if max(needed, kept) < begins:
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
                self._seen[mirror.name] = mirror.last, mirror.last_stored_at
                return False
            self._seen.pop(mirror.name, None)
            log.warning(
                "%s has other events at %s since it lost its end, or began again: its mirror is made again",
                resolved.stream,
                resolved.site,
            )
            await self.drop(resolved)
            await self._make(resolved, None)
            return True

    async def _is_copy(self, mirror: StreamView, origin: StreamView, resolved: ResolvedInput) -> bool:
        """Tell if the newest message of a mirror, now and at the last look, is that of its origin."""
        if mirror.last > origin.last:
            return False
        known = [self._seen.get(mirror.name), (mirror.last, mirror.last_stored_at)]
        for serial, stored_at in [point for point in known if point is not None]:
            if not mirror.first <= serial <= mirror.last:
                continue  # It has no message any more to compare.
            connection, site = self._streams.connection, resolved.site
            if await is_another(connection, site, resolved.stream, serial, stored_at):
                return False
        return True

    async def drop(self, resolved: ResolvedInput) -> None:
        """Delete the mirror of another site's stream, if there is one."""
        if resolved.site != self._streams.site:
            await self._streams.delete(_name(resolved))

    async def _make(self, resolved: ResolvedInput, after: int | None) -> None:
        # Queries look back when they start, see `StreamReader` and `Repeats`.
        earlier = max(data_plane.RECALLED_EVENTS, resolved.repeats_within)
        origin = StreamSource(
            name=resolved.stream,
            opt_start_seq=max(1, after + 1 - earlier) if after else None,
            external=ExternalStream(api=data_plane.api_prefix(resolved.site), deliver=""),
        )
        config = self._streams.kept(_name(resolved))
        # Not `mirror_direct`: the server would answer for the origin's name, too. This site has an IN itself.
        await self._streams.jetstream.add_stream(replace(config, mirror=origin))


def _name(resolved: ResolvedInput) -> str:
    return data_plane.mirror_stream(resolved.site, resolved.stream)
