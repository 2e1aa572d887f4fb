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

SENT_AGAIN_BYTES = 4_000_000
"""A stuck mirror is made again if its origin must not send more than this a second time. At 1 Mbit/s it takes
half a minute; a job with more than this to process is not held up."""


ORIGIN_S = 2.0
"""Deadline of an origin's answer when it is looked at. A question that was lost in a cut holds the next one
up for so long, and a train's stop may last ten seconds."""


class Mirrors:
    """The mirrors of one site. All methods are idempotent."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._seen: dict[str, tuple[int, str]] = {}
        """Mirror → serial number and time of its newest message, as its origin had it at the last look."""
        self._unfed: set[str] = set()
        """Mirrors that had not heard from their origin at the last look."""
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
                await self._make(resolved, _begin(resolved, after))
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
                await self._make(resolved, _begin(resolved, after))
                return
            begins = (info.config.mirror.opt_start_seq if info.config.mirror else None) or 1
            needed = max(after - resolved.repeats_within, 0) + 1
            if begins <= needed:
                return
            kept = (await self._streams.view(resolved.site, resolved.stream)).first
            if max(needed, kept) < begins:
                await self.drop(resolved)
                await self._make(resolved, _begin(resolved, max(after + 1, kept) - 1))

    async def renew(self, resolved: ResolvedInput, processed: int) -> bool:
        """Make the mirror again if it would go on wrongly, or not soon. Return True if it was so.

        Wrongly: an origin that began again, or lost its end in a power cut, gives its serial numbers to other
        events. The mirror would go on with them where its own end is.

        Not soon: after a cut of the origin's link, the mirror's server waits 30 s for an answer that was
        lost, and between its attempts up to 2 min. A mirror that was not fed at the last look, and is not now
        that its origin answers, is made again. It then begins where its readers need it: all of them have
        processed the serial numbers up to `processed`.

        Raises `TowpathError` when there is no mirror, or the origin is out of reach.
        """
        if resolved.site == self._streams.site:
            return False
        async with self._locks[_name(resolved)]:
            mirror = await self._streams.view(self._streams.site, _name(resolved))
            was_unfed = mirror.name in self._unfed
            (self._unfed.discard if mirror.is_fed else self._unfed.add)(mirror.name)
            origin = await self._streams.view(resolved.site, resolved.stream, timeout_s=ORIGIN_S)
            begin = max(mirror.begins, _begin(resolved, processed))
            if not await self._is_copy(mirror, origin, resolved):
                why, begin = "has other events since it lost its end, or began again", 1
            elif was_unfed and not mirror.is_fed and _is_little(mirror, begin):
                why = "answers, and does not feed its mirror"
            else:
                self._seen[mirror.name] = mirror.last, mirror.last_stored_at
                return False
            self._seen.pop(mirror.name, None)
            self._unfed.discard(mirror.name)
            log.warning("%s at %s %s: the mirror is made again", resolved.stream, resolved.site, why)
            await self.drop(resolved)
            await self._make(resolved, begin)
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

    async def _make(self, resolved: ResolvedInput, begin: int) -> None:
        origin = fed_by(resolved.site, resolved.stream, self._streams.site, begin)
        config = self._streams.kept(_name(resolved))
        # Not `mirror_direct`: the server would answer for the origin's name, too. This site has an IN itself.
        await self._streams.jetstream.add_stream(replace(config, mirror=origin))


def fed_by(site: str, stream: str, reader: str, begin: int = 1) -> StreamSource:
    """Return a stream of a site as the origin of a mirror at `reader`, from a serial number on."""
    return StreamSource(
        name=stream,
        opt_start_seq=begin if begin > 1 else None,
        external=ExternalStream(
            api=data_plane.gate_prefix(site, reader), deliver=data_plane.mirror_delivery(site, reader)
        ),
    )


def _name(resolved: ResolvedInput) -> str:
    return data_plane.mirror_stream(resolved.site, resolved.stream)


def _begin(resolved: ResolvedInput, after: int | None) -> int:
    """Return the first serial number that a mirror must have for jobs that go on after `after`.

    Queries look back when they start, see `StreamReader` and `Repeats`.
    """
    earlier = max(data_plane.RECALLED_EVENTS, resolved.repeats_within)
    return max(1, (after or 0) + 1 - earlier)


def _is_little(mirror: StreamView, begin: int) -> bool:
    """Tell if a mirror that is made again from a serial number on gets few of its bytes a second time."""
    kept, again = mirror.last + 1 - mirror.first, mirror.last + 1 - begin
    return again * mirror.size <= SENT_AGAIN_BYTES * kept
