"""Copies of other sites' streams at a site. They have the serial numbers, and the times, of their origin."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from nats.js.api import ExternalStream, StreamSource
from nats.js.errors import NotFoundError

from towpath.boot_clock import seconds_since_boot
from towpath.contracts import data_plane
from towpath.contracts.job import ResolvedInput
from towpath.streams.pages import is_another
from towpath.streams.stream_view import StreamView, stream_view, stream_views

if TYPE_CHECKING:
    from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

SENT_AGAIN_BYTES = 4_000_000
"""A stuck mirror is made again if its origin must not send more than this a second time. At 1 Mbit/s it takes
half a minute; a job with more than this to process is not held up."""


HELD_S = 60.0
"""A failover takes some seconds until it tells readers where their stream is now. If it takes longer, because
the standby is struck as well, mirrors take from the lost site again, should it be back."""

SETTLES_S = 5.0
"""Time for a new mirror to be fed: a few round trips, over links that lose packets."""

ORIGIN_S = 2.0
"""Deadline of an origin's answer when it is looked at. A question that was lost in a cut holds the next one
up for so long, and a train's stop may last ten seconds."""


@dataclass(frozen=True)
class MirrorSpec:
    """A mirror as it is to be."""

    name: str
    """Of the mirror."""
    site: str
    """Where its origin is."""
    stream: str
    repeats_within: int = 0
    """As in `ResolvedInput`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Of the mirror."""

    @classmethod
    def of(cls, resolved: ResolvedInput, here: str) -> Self | None:
        """Return the mirror that an input is read from at the site `here`; None if it has the stream."""
        name = resolved.local_stream(here)
        if name == resolved.stream:
            return None
        return cls(name, resolved.origin, resolved.stream, resolved.repeats_within)

    def begin(self, after: int | None) -> int:
        """Return the first serial number that it must have for jobs that go on after `after`.

        Queries look back when they start, see `StreamReader` and `Repeats`.
        """
        earlier = max(data_plane.RECALLED_EVENTS, self.repeats_within)
        return max(1, (after or 0) + 1 - earlier)


class Mirrors:
    """The mirrors of one site. All methods are idempotent."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._seen: dict[str, tuple[int, str]] = {}
        """Mirror → serial number and time of its newest message, as its origin had it at the last look."""
        self._unfed: set[str] = set()
        """Mirrors that had not heard from their origin at the last look."""
        self._made_at: dict[str, float] = {}
        """Mirror → when it was made again, by the monotonic clock."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Mirror → lock while it is looked for and made: jobs that move here at the same time may read the
        same input, from different serial numbers on."""

    async def ensure(self, resolved: ResolvedInput, after: int | None) -> str:
        """Return the local stream to read `resolved` from, and make it if necessary.

        Its serial numbers are the origin's.
        """
        mirrored = MirrorSpec.of(resolved, self._streams.site)
        if mirrored is not None:
            await self.make(mirrored, mirrored.begin(after))
        return resolved.local_stream(self._streams.site)

    async def make(self, mirrored: MirrorSpec, begin: int) -> None:
        """Make a mirror that begins at a serial number, if there is none of that name."""
        async with self._locks[mirrored.name]:
            try:
                info = await self._streams.jetstream.stream_info(mirrored.name)
            except NotFoundError:
                await self._make(mirrored, begin)
            else:
                if info.config.mirror_direct:
                    await self._streams.change(mirrored.name, mirror_direct=False)

    async def reach_back(self, resolved: ResolvedInput, after: int) -> None:
        """Make the mirror of another site's stream hold the messages after the serial number `after`, and the
        earlier ones that these may repeat.

        One that was made for another job may begin later. It is made again if the origin still has what it
        lacks; its readers find the same serial numbers. Raises `TowpathError` (unreachable) when only the
        origin could help, and is out of reach.
        """
        mirrored = MirrorSpec.of(resolved, self._streams.site)
        if mirrored is None:
            return
        async with self._locks[mirrored.name]:
            try:
                info = await self._streams.jetstream.stream_info(mirrored.name)
            except NotFoundError:
                await self._make(mirrored, mirrored.begin(after))
                return
            begins = (info.config.mirror.opt_start_seq if info.config.mirror else None) or 1
            needed = max(after - mirrored.repeats_within, 0) + 1
            if begins <= needed:
                return
            kept = (await self._streams.view(mirrored.site, mirrored.stream)).first
            if max(needed, kept) < begins:
                await self._streams.delete(mirrored.name)
                await self._make(mirrored, mirrored.begin(max(after + 1, kept) - 1))

    async def renew(self, resolved: ResolvedInput, processed: int) -> bool:
        """Make the mirror of an input again if it would go on wrongly, or not soon. See `keep`.

        All readers have processed the serial numbers up to `processed`.
        """
        mirrored = MirrorSpec.of(resolved, self._streams.site)
        return mirrored is not None and await self.keep(mirrored, mirrored.begin(processed))

    async def keep(self, mirrored: MirrorSpec, needed: int) -> bool:
        """Make a mirror again if it would go on wrongly, or not soon. Return True if it was so.

        Wrongly: the stream has outlived the site that fed the mirror, and goes on at another one. Or an
        origin that began again, or lost its end in a power cut, gives its serial numbers to other events: the
        mirror would go on with them where its own end is.

        Not soon: the mirror's server notices only after 10 s that the origin's server has restarted. After a
        cut of its link, it waits 30 s for an answer that was lost, and between its attempts up to 2 min. A
        mirror that was not fed at the last look, and is not now that its origin answers, is made again. It
        then begins where its readers need it: at `needed`.

        Raises `TowpathError` when there is no mirror, or the origin is out of reach.
        """
        async with self._locks[mirrored.name]:
            mirror = await self._streams.view(self._streams.site, mirrored.name)
            was_unfed = mirror.name in self._unfed
            (self._unfed.add if self._is_stalled(mirror) else self._unfed.discard)(mirror.name)
            origin = await self._streams.view(mirrored.site, mirrored.stream, timeout_s=ORIGIN_S)
            begin = max(mirror.begins, needed)
            if self._is_held(mirror, mirrored):
                return False
            if mirror.fed_by != self._feeding(mirrored):
                why, begin = "does not feed its mirror", needed
            elif not await self._is_copy(mirror, origin, mirrored):
                why, begin = "has other events since it lost its end, or began again", 1
            elif was_unfed and not mirror.is_fed and _is_little(mirror, begin):
                why = "answers, and does not feed its mirror"
            else:
                self._seen[mirror.name] = mirror.last, mirror.last_stored_at
                return False
            self._seen.pop(mirror.name, None)
            self._unfed.discard(mirror.name)
            log.warning("%s at %s %s: the mirror is made again", mirrored.stream, mirrored.site, why)
            await self._streams.delete(mirrored.name)
            await self._make(mirrored, begin)
            self._made_at[mirror.name] = time.monotonic()
            return True

    async def are_stalled(self, inputs: Iterable[ResolvedInput]) -> bool:
        """Tell if the mirror of an input has not heard from its origin. It asks no other site.

        Raises `TimeoutError` if the site's own server does not answer.
        """
        specs = [MirrorSpec.of(resolved, self._streams.site) for resolved in inputs]
        names = {spec.name for spec in specs if spec is not None}
        if not names:
            return False
        # All in one request: a site may read a hundred mirrors.
        views = await stream_views(self._streams.connection, self._streams.site)
        return any(view.name in names and self._is_stalled(view) for view in views)

    def _is_stalled(self, mirror: StreamView) -> bool:
        made_at = self._made_at.get(mirror.name, -math.inf)
        return not mirror.is_fed and time.monotonic() - made_at >= SETTLES_S

    async def hold(self, name: str) -> None:
        """Take nothing more from the origin of a mirror. After a minute it is made again, as `keep` does.

        The hold is in the stream's metadata, because the agent may restart meanwhile. A further one lasts
        for a minute, too.
        """
        async with self._locks[name]:
            view = await stream_view(self._streams.connection, self._streams.site, name)
            if view is None:
                return
            prefix = view.fed_by[0] if view.fed_by else view.metadata.get(data_plane.HELD_FROM)
            if prefix is None:
                return
            marks = {data_plane.HELD_UNTIL: str(seconds_since_boot() + HELD_S), data_plane.HELD_FROM: prefix}
            closed = data_plane.closed_subject(self._streams.site, name)
            await self._streams.ensure(replace(self._streams.kept(name, subjects=[closed]), metadata=marks))

    def _is_held(self, mirror: StreamView, mirrored: MirrorSpec) -> bool:
        prefix, _ = self._feeding(mirrored)
        if mirror.metadata.get(data_plane.HELD_FROM) != prefix:
            return False
        left_s = float(mirror.metadata[data_plane.HELD_UNTIL]) - seconds_since_boot()
        return 0 < left_s <= HELD_S  # More is left if the machine has restarted.

    async def _is_copy(self, mirror: StreamView, origin: StreamView, mirrored: MirrorSpec) -> bool:
        """Tell if the newest message of a mirror, now and at the last look, is that of its origin."""
        if mirror.last > origin.last:
            return False
        known = [self._seen.get(mirror.name), (mirror.last, mirror.last_stored_at)]
        for serial, stored_at in [point for point in known if point is not None]:
            if not mirror.first <= serial <= mirror.last:
                continue  # It has no message any more to compare.
            if await is_another(self._streams.connection, mirrored.site, mirrored.stream, serial, stored_at):
                return False
        return True

    async def drop(self, resolved: ResolvedInput) -> None:
        """Delete the mirror of another site's stream, if there is one."""
        mirrored = MirrorSpec.of(resolved, self._streams.site)
        if mirrored is not None:
            await self._streams.delete(mirrored.name)

    def _feeding(self, mirrored: MirrorSpec) -> tuple[str, str]:
        """Return what `StreamView.fed_by` is of a mirror that is fed as it should be."""
        return data_plane.gate_prefix(mirrored.site, self._streams.site), mirrored.stream

    async def _make(self, mirrored: MirrorSpec, begin: int) -> None:
        origin = fed_by(mirrored.site, mirrored.stream, self._streams.site, begin)
        config = self._streams.kept(mirrored.name)
        # Not `mirror_direct`: the server would answer for the origin's name, too. This site has an IN itself.
        await self._streams.jetstream.add_stream(
            replace(config, mirror=origin, metadata=dict(mirrored.metadata) or None)
        )


def fed_by(site: str, stream: str, reader: str, begin: int = 1) -> StreamSource:
    """Return a stream of a site as the origin of a mirror at `reader`, from a serial number on."""
    return StreamSource(
        name=stream,
        opt_start_seq=begin if begin > 1 else None,
        external=ExternalStream(
            api=data_plane.gate_prefix(site, reader), deliver=data_plane.mirror_delivery(site, reader)
        ),
    )


def _is_little(mirror: StreamView, begin: int) -> bool:
    """Tell if a mirror that is made again from a serial number on gets few of its bytes a second time."""
    kept, again = mirror.last + 1 - mirror.first, mirror.last + 1 - begin
    return again * mirror.size <= SENT_AGAIN_BYTES * kept
