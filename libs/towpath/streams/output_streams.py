"""Change the outputs of a site: which owner they accept, and under which epoch.

An output is two streams: results, and rejected events. A copy of another site's output may have their names,
see `towpath.streams.output_copies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nats.js.api import RePublish
from nats.js.errors import NotFoundError

from towpath.contracts import data_plane
from towpath.contracts.data_plane import subject_of
from towpath.contracts.job import ResolvedOutput
from towpath.streams.ownership import accepted_epoch, check_epoch
from towpath.streams.pages import last_serial, newest_before
from towpath.streams.stream_view import StreamView

if TYPE_CHECKING:
    from towpath.streams.streams import SiteStreams


@dataclass(frozen=True)
class OutputStream:
    """One of the two streams of an output."""

    name: str
    topic: str
    subject: Callable[[str, str, str, int | str], str]
    """Returns the subject for a site, an owner, a job and an epoch."""


def streams_of(output: ResolvedOutput) -> tuple[OutputStream, OutputStream]:
    """Return the two streams of an output, in the order in which they change: rejected events first.

    So anyone who finds the stream of results finds both, and the owner changes when that one changes.
    """
    rejected = data_plane.rejected_stream(output.stream)
    return (
        OutputStream(rejected, output.rejected_topic, data_plane.rejected_subject),
        OutputStream(output.stream, output.topic, data_plane.sink_subject),
    )


class OutputStreams:
    """The outputs of one site. All methods are idempotent."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams

    async def set_epoch(
        self, job: str, epoch: int, output: ResolvedOutput, *, owner: str, resumes: int | None = None
    ) -> None:
        """Let the job's output streams accept results of `owner` under `epoch` only.

        `resumes` is the epoch under which the run that goes on published last. That run may compute results
        again that later epochs have stored, so a mark spans those. A repetition keeps the mark. It also stays
        until someone publishes after its span, because until then those results may be computed again.
        Raises `TowpathError` (fenced) when the streams accept a later epoch.
        """
        accepted = await self.accepted_epoch(output.stream)
        check_epoch(f"the output of {job}", epoch, accepted)
        kept = [one.name for one in streams_of(output)]
        if accepted != epoch and resumes is not None:
            overlaps = {stream: await self._open_overlap(stream, resumes) for stream in kept}
        else:
            overlaps = {stream: await self._current_overlap(stream, epoch) for stream in kept}
        await self.accept(job, {epoch: owner}, output, overlaps=overlaps)
        # Only now no one adds to the span of the mark.
        ended = {stream: await self._ended(stream, mark) for stream, mark in overlaps.items()}
        if ended != overlaps:
            await self.accept(job, {epoch: owner}, output, overlaps=ended)

    async def overlap_of(self, stream: str) -> str:
        """Return an output stream's mark, see `data_plane.OVERLAP`; empty if there is no such stream."""
        view = await self._streams.own_view(stream)
        return "" if view is None else view.metadata.get(data_plane.OVERLAP, "")

    async def _current_overlap(self, stream: str, epoch: int | None = None) -> str:
        """Return the mark, or nothing if something was stored after its span: its owner is then past it.

        If the stream accepts `epoch` already, return the mark in any case: the present owner stored that.
        """
        view = await self._streams.own_view(stream)
        if view is None:
            return ""
        mark = view.metadata.get(data_plane.OVERLAP, "")
        is_passed = view.last > data_plane.overlap_range(mark)[1]
        return mark if epoch in view.epochs or not is_passed else ""

    async def widened_overlap(self, stream: str, mark: str) -> str:
        """Return the mark, joined with the stream's own if that reaches to where this one begins.

        No one has published between the two, so results in the earlier span may still be computed again.
        """
        earlier, through = data_plane.overlap_range(await self.overlap_of(stream))
        after, _, end = mark.partition("-")
        return f"{min(int(after), earlier)}-{end}" if earlier < through >= int(after) else mark

    async def _open_overlap(self, stream: str, epoch: int) -> str:
        """Return a mark of all results that owners after `epoch` have stored and may still store."""
        view = await self._streams.own_view(stream)
        if view is None or not view.last:
            return ""
        older = await newest_before(self._streams.connection, self._streams.site, stream, epoch + 1)
        after = 0 if older is None else older.serial
        return await self.widened_overlap(stream, f"{after}-")

    async def _ended(self, stream: str, mark: str) -> str:
        """Return the mark with its end; empty if it spans nothing."""
        if not mark.endswith("-"):
            return mark
        last = await last_serial(self._streams.connection, self._streams.site, stream)
        return f"{mark}{last}" if int(mark[:-1]) < last else ""

    async def prepare(self, job: str, output: ResolvedOutput) -> None:
        """Make the output streams if they do not exist. They accept no epoch."""
        try:
            await self._streams.jetstream.stream_info(output.stream)
        except NotFoundError:
            await self._close(job, output)

    async def close(self, job: str, epoch: int, output: ResolvedOutput) -> None:
        """Close the output streams for every epoch.

        Raises `TowpathError` (fenced) when they accept a later epoch.
        """
        accepted = await self.accepted_epoch(output.stream)
        check_epoch(f"the output of {job}", epoch, accepted)
        await self._close(job, output)

    async def _close(self, job: str, output: ResolvedOutput) -> None:
        for one in streams_of(output):
            closed = [data_plane.closed_subject(self._streams.site, one.name)]
            await self._ensure(job, one, closed, await self._current_overlap(one.name))

    async def accept(
        self,
        job: str,
        owners: Mapping[int, str],
        output: ResolvedOutput,
        *,
        diverted: int | None = None,
        overlaps: dict[str, str] | None = None,
        promotes: bool = False,
    ) -> None:
        """Let the job's output streams accept these owners (epoch → owner) and nothing else.

        Make the streams if they do not exist. There are two owners only while the job has a twin. `diverted`
        names an older epoch whose results a shadow takes: its owner is not fenced. `overlaps` has the new
        mark (`data_plane.OVERLAP`) of each stream; None keeps the marks. `promotes`: copies of a lost site's
        streams become the output.
        """
        site = self._streams.site
        for one in streams_of(output):
            if overlaps is None:
                overlap = await self._current_overlap(one.name, max(owners))
            else:
                overlap = overlaps.get(one.name, "")
            accepts = [one.subject(site, owner, job, epoch) for epoch, owner in sorted(owners.items())]
            await self._ensure(job, one, accepts, overlap, diverted, promotes=promotes)

    async def accepted_epoch(self, stream: str) -> int | None:
        """Return the latest epoch that an output stream accepts; None without a stream, or an epoch."""
        return accepted_epoch(await self._streams.own_view(stream))

    async def drop(self, output: str) -> None:
        """Delete an output stream and the streams beside it, with their messages."""
        for stream in (output, data_plane.rejected_stream(output)):
            for name in (data_plane.live_stream(stream), stream):
                await self._streams.delete(name)

    async def _ensure(
        self,
        job: str,
        output: OutputStream,
        accepts: list[str],
        overlap: str,
        diverted: int | None = None,
        *,
        promotes: bool = False,
    ) -> None:
        """Make or change an output stream that republishes to its topic.

        The stream itself serves QoS 1 sessions, its one-message stream all other subscribers. A copy of
        another site's output under that name is promoted, with `promotes`, or else deleted first.
        """
        streams, name = self._streams, output.name
        public, known = subject_of(output.topic), await streams.own_view(name)
        if known is not None and known.fed_by is not None and not promotes:
            await streams.delete(name)
            known = None
        lasting = _lasting(known)
        # Not only the owner accepted now: the one-message stream may still have to pass on earlier ones.
        every_owner = output.subject(streams.site, "*", job, "*")
        marks = {data_plane.OVERLAP: overlap, data_plane.DIVERTED: "" if diverted is None else str(diverted)}
        await streams.ensure(
            replace(
                streams.kept(name, subjects=accepts),
                republish=RePublish(src=every_owner, dest=data_plane.MQTT_DELIVERY + public),
                metadata=lasting | {key: mark for key, mark in marks.items() if mark},
            )
        )
        former = int(lasting.get(data_plane.PROMOTED_AFTER, "0"))
        await streams.ensure_live(name, every_owner, to=public, after=former)


def _lasting(output: StreamView | None) -> dict[str, str]:
    """Return the metadata that an output keeps as long as it exists; those of a copy that becomes one now."""
    if output is None:
        return {}
    lasting = (data_plane.LIFE, data_plane.CAUGHT_UP, data_plane.PROMOTED_AFTER)
    kept = {key: output.metadata[key] for key in lasting if key in output.metadata}
    return kept if output.fed_by is None else {**kept, data_plane.PROMOTED_AFTER: str(output.last)}
