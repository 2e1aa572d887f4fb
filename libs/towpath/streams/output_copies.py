"""Copies of other sites' outputs: mirrors that are promoted to outputs when those sites are lost.

A copy has the name, the serial numbers and the message ids of its origin. So the job that takes over finds
what the lost site has published, and jobs that read the output continue where they stood.

What happens when

- the copy lacks what a reader's mirror has: the reader has perhaps processed it. It is stored here first,
  under the serial numbers that it had.
- a promotion is interrupted at any line, or repeated: the next call stores what is still missing.
- a failover is rolled back after the promotion: the next round makes the copy again. If the site is no
  standby any more by then, it drops the promoted copy when it is told so.
- the lost site comes back: its stream is no longer the output. No one reads it, and a copy takes its place if
  that site becomes the standby.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence

from towpath.contracts import data_plane
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, ResolvedOutput
from towpath.contracts.message import SiteName
from towpath.streams.mirrors import MirrorSpec
from towpath.streams.output_streams import streams_of
from towpath.streams.ownership import accepted_epoch, check_epoch
from towpath.streams.pages import StoredMessage, last_serial, page, pages_after
from towpath.streams.stream_view import StreamView
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
"""A mirror that was not fed at two looks is made again. Between them, it needs time to begin."""

READER_S = 8.0
"""For the answer of a reader's site. Its gate asks the coordinator first, for up to five seconds."""

MOST_AHEAD = 10_000
"""A reader is usually ahead of the copy by what came within milliseconds. It is believed for no more than
this: anyone who holds its site could store results of the lost one."""

COPIED_MARKS = (data_plane.OVERLAP,)
"""Metadata of an output that its copy has as well."""


class OutputCopies:
    """The copies at one site."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._looked_at: dict[str, float] = {}
        """Stream → when its copy was compared with it last, by the monotonic clock."""

    async def keep(self, output: ResolvedOutput, epoch: int) -> None:
        """Make the copy of another site's output, or make it again if it would go on wrongly.

        `epoch` is that of the job's owner. Raises `TowpathError` if the output does not exist, if its site
        does not answer, or if the output is here under a later epoch (fenced).
        """
        for stream in _names(output):
            origin = await self._streams.view(output.site, stream)
            marks = {key: origin.metadata[key] for key in COPIED_MARKS if key in origin.metadata}
            copied = MirrorSpec(stream, output.site, stream, metadata={data_plane.LIFE: origin.life} | marks)
            known = await self._streams.own_view(stream)
            if known is not None and (known.fed_by is None or known.life != origin.life):
                # Here is an older output of the job, or a copy of a stream that began again.
                check_epoch(stream, epoch, accepted_epoch(known))
                await self._streams.delete(data_plane.live_stream(stream))
                await self._streams.delete(stream)
            await self._streams.mirrors.make(copied, 1)
            if time.monotonic() - self._looked_at.setdefault(stream, time.monotonic()) >= LOOK_EVERY_S:
                self._looked_at[stream] = time.monotonic()
                await self._streams.mirrors.keep(copied, 1)
            copy = await self._streams.view(self._streams.site, stream)
            whole = {data_plane.CAUGHT_UP: "yes"} if copy.last >= origin.last else {}
            await self._streams.change_metadata(stream, {**copied.metadata, **whole})

    async def has_caught_up(self, output: ResolvedOutput) -> bool:
        """Tell if a copy of an output is here that can be promoted."""
        found = [await self._streams.own_view(stream) for stream in _names(output)]
        return all(view is not None and data_plane.CAUGHT_UP in view.metadata for view in found)

    async def drop(self, kept: Assignment, used_epoch: int | None = None) -> None:
        """Delete the copy of an output that this site kept as the job's standby. An output itself stays.

        A copy that was promoted goes as well if its failover has been rolled back. Two facts prove that:

        - It accepts the epoch of the owner that was to be replaced. A failover that goes through sets a later
          one before anyone publishes.
        - The registry has used up a later epoch. A failover uses up its epoch when it ends, so none is under
          way. `used_epoch` is the latest that it had used up when the command was sent.
        """
        for stream in _names(kept.output):
            known = await self._streams.own_view(stream)
            if known is None:
                continue
            if known.fed_by is not None or self._is_abandoned(known, kept, used_epoch):
                await self._streams.delete(data_plane.live_stream(stream))
                await self._streams.delete(stream)

    def _is_abandoned(self, stream: StreamView, kept: Assignment, used_epoch: int | None) -> bool:
        was_promoted = data_plane.PROMOTED_AFTER in stream.metadata and kept.output.site != self._streams.site
        return was_promoted and accepted_epoch(stream) == kept.epoch < (used_epoch or 0)

    async def promote(
        self, job: str, epoch: int, output: ResolvedOutput, readers: Sequence[SiteName]
    ) -> None:
        """Promote the copy to the output. It accepts this site only, under the epoch of the job's lost owner.

        At the sites `readers` are mirrors that may have more of it. Raises `TowpathError`: `failed` without a
        copy, `fenced` when another epoch has been set since.
        """
        check_epoch(f"the output of {job}", epoch, await self._streams.outputs.accepted_epoch(output.stream))
        for stream in _names(output):
            if await self._streams.own_view(stream) is None:
                raise TowpathError(
                    ErrorCode.FAILED, f"there is no copy of {stream} here", field="output", value=stream
                )
        await self._streams.outputs.accept(job, {epoch: self._streams.site}, output, promotes=True)
        for one in streams_of(output):
            here = one.subject(self._streams.site, self._streams.site, job, epoch)
            mirror = data_plane.mirror_stream(output.home_site, one.name)
            await self._complete(one.name, mirror, here, readers)

    async def _complete(self, stream: str, mirror: str, subject: str, readers: Sequence[SiteName]) -> None:
        """Store what the mirror of a reader has and the copy lacks."""
        copy = await self._streams.own_view(stream)
        assert copy is not None, f"{stream} has just been made"
        ends = await asyncio.gather(*[self._end(site, mirror) for site in readers])
        ahead = [(end, site) for end, site in zip(ends, readers, strict=True) if end > copy.last]
        for end, site in sorted(ahead, reverse=True):
            first = await page(self._streams.connection, site, mirror, copy.last + 1, 1)
            follows = bool(first) and first[0].serial == copy.last + 1 and end - copy.last <= MOST_AHEAD
            if not (follows and await self._agree(stream, copy.last, site, mirror)):
                log.error("readers of %s at %s are ahead of its copy, and will stop", mirror, site)
                continue
            async for messages in pages_after(self._streams.connection, site, mirror, copy.last, through=end):
                await self._store(messages, subject)
            log.warning("%s gets %d messages from the mirror at %s", stream, end - copy.last, site)
            return

    async def _end(self, site: SiteName, mirror: str) -> int:
        """Return the last serial number of a reader's mirror; 0 if it is out of reach."""
        try:
            return await last_serial(self._streams.connection, site, mirror, timeout_s=READER_S)
        except TimeoutError as error:
            log.warning("%s at %s may have more than the copy: %s", mirror, site, error)
            return 0

    async def _agree(self, stream: str, serial: int, site: SiteName, mirror: str) -> bool:
        """Tell if the mirror of a reader has the same message at a serial number, as far as both keep it."""
        if serial == 0:
            return True
        places = ((self._streams.site, stream), (site, mirror))
        pages = [await page(self._streams.connection, *place, serial, 1) for place in places]
        return len({m.identity for found in pages for m in found if m.serial == serial}) <= 1

    async def _store(self, messages: Iterable[StoredMessage], subject: str) -> None:
        for message in messages:
            kept = {name: value for name, value in message.headers.items() if not name.startswith("Nats-")}
            kept[data_plane.MESSAGE_ID_HEADER] = message.headers.get(data_plane.MESSAGE_ID_HEADER, "")
            kept[data_plane.FIRST_STORED_HEADER] = data_plane.storing_times(message.headers)[-1]
            kept[data_plane.EXPECTED_LAST_HEADER] = str(message.serial - 1)
            await self._streams.jetstream.publish(subject, message.body, headers=kept)


def _names(output: ResolvedOutput) -> list[str]:
    return [one.name for one in streams_of(output)]
