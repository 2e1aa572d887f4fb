"""Make and change the streams of a site: IN, outputs with their epoch, mirrors of other sites.

All functions are idempotent: an agent calls them again after every restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import (
    RePublish,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from nats.js.errors import NotFoundError

from towpath.contracts import data_plane
from towpath.contracts.data_plane import subject_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.site import Retention
from towpath.streams.mirrors import Mirrors
from towpath.streams.ownership import accepted_epoch, check_epoch
from towpath.streams.pages import last_serial, newest_before
from towpath.streams.stream_view import StreamView, stream_view

REQUEST_S = 10.0

NO_EVENT_BYTES = 1
"""No event is so small: the MQTT side gives each a header."""


@dataclass(frozen=True)
class _OutputStream:
    """One of the two streams of an output: results, or rejected events."""

    job: str
    stream: str
    topic: str
    subject: Callable[[str, str, str, int | str], str]
    """Returns the subject for a site, an owner, a job and an epoch."""


def _kept_by(job: str, output: ResolvedOutput) -> tuple[_OutputStream, _OutputStream]:
    rejected = data_plane.rejected_stream(output.stream)
    return (
        _OutputStream(job, output.stream, output.topic, data_plane.sink_subject),
        _OutputStream(job, rejected, output.rejected_topic, data_plane.rejected_subject),
    )


class SiteStreams:
    """The streams of one site, through a connection to its own broker."""

    def __init__(self, connection: Client, site: str, retention: Retention) -> None:
        self.site = site
        self.connection = connection
        self.retention = retention
        self.jetstream: JetStreamContext = connection.jetstream(timeout=REQUEST_S)
        self.mirrors = Mirrors(self)
        self._changing = asyncio.Lock()
        """Held while a configuration is read, changed and written. Another change between would be undone."""
        self._shares: dict[str, int] = {}
        """Stream → bytes that it may keep, where the site's disk allows less than its retention."""

    async def ensure_in(self) -> None:
        """Make the stream that keeps the events of devices, if it does not exist.

        The MQTT side of nats-server would make its own stream for all that it stores, and acknowledge events
        that IN has not stored. So that stream is made here, first, and for results only. A third one counts
        what arrives, because events of QoS 0 are not kept.
        """
        await self._ensure_sessions()
        taken = SubjectTransform(src=data_plane.INTAKE_SUBJECTS, dest=data_plane.DEVICE_SUBJECTS)
        kept = self.kept(data_plane.IN_STREAM, subjects=[data_plane.INTAKE_SUBJECTS])
        await self.ensure(replace(kept, subject_transform=taken))
        arrived = StreamConfig(
            name=data_plane.ARRIVED_STREAM,
            subjects=[data_plane.DEVICE_SUBJECTS],
            storage=StorageType.MEMORY,
            max_msgs=1,
            no_ack=True,
        )
        await self.ensure(arrived)

    async def _ensure_sessions(self) -> None:
        """Make the stream that holds results for MQTT sessions, or change the one that the server made.

        That one takes device events, too. It gives them up last: until then outputs, which republish to it
        directly, are led to the new subjects, so that no result finds both closed.
        """
        results = f"{data_plane.MQTT_DELIVERY}>"
        wanted = StreamConfig(
            name=data_plane.MQTT_STREAM,
            subjects=[results, data_plane.CONTROL_STORE_SUBJECTS],
            storage=StorageType.FILE,
            retention=RetentionPolicy.INTEREST,
            max_bytes=self._shares.get(data_plane.MQTT_STREAM, self.retention.max_bytes),
            max_age=self.retention.max_age_s,
            allow_direct=True,
            allow_msg_ttl=True,
            subject_transform=SubjectTransform(src=results, dest=f"{data_plane.MQTT_STORE}>"),
        )
        try:
            found = (await self.jetstream.stream_info(data_plane.MQTT_STREAM)).config
        except NotFoundError:
            await self.jetstream.add_stream(wanted)
            return
        if set(found.subjects or ()) == {results}:  # Of a version without gateways.
            await self.jetstream.update_stream(replace(found, subjects=wanted.subjects))
            found = replace(found, subjects=wanted.subjects)
        if found.subjects == wanted.subjects:
            bounds = {"max_bytes": wanted.max_bytes, "max_age": wanted.max_age}
            await self.change(data_plane.MQTT_STREAM, allow_direct=True, allow_msg_ttl=True, **bounds)
            return
        changed = replace(
            found, subject_transform=wanted.subject_transform, allow_direct=True, allow_msg_ttl=True
        )
        await self.jetstream.update_stream(replace(changed, subjects=[f"{data_plane.MQTT_STORE}>", results]))
        async for config in self._all():
            there = config.republish
            if there is not None and there.dest is not None and there.dest.startswith(data_plane.MQTT_STORE):
                dest = data_plane.MQTT_DELIVERY + there.dest.removeprefix(data_plane.MQTT_STORE)
                await self.jetstream.update_stream(replace(config, republish=replace(there, dest=dest)))
        await self.jetstream.update_stream(replace(changed, subjects=wanted.subjects))

    async def limit(self, shares: dict[str, int], views: Mapping[str, StreamView]) -> None:
        """Let streams keep as many bytes as their share says. `views` tell how many they keep now."""
        self._shares = shares
        for name, most in shares.items():
            if views[name].max_bytes != most:
                await self.change(name, max_bytes=most)

    async def admit_devices(self, *, admitted: bool) -> None:
        """Let IN take events, or refuse them all. A refused event is not acknowledged to its device."""
        await self.change(data_plane.IN_STREAM, max_msg_size=-1 if admitted else NO_EVENT_BYTES)

    async def change(self, name: str, **changes: Any) -> None:
        """Change some of a stream's configuration, if it is not so already."""
        async with self._changing:
            config = (await self.jetstream.stream_info(name)).config
            changed = replace(config, **changes)
            if changed != config:
                await self.jetstream.update_stream(changed)

    async def change_metadata(self, name: str, marks: Mapping[str, str]) -> None:
        """Set some of a stream's metadata, if they are not so already."""
        view = await self.view(self.site, name)
        if not marks.items() <= view.metadata.items():
            await self.change(name, metadata={**view.metadata, **marks})

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
        kept = [one.stream for one in _kept_by(job, output)]
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
        view = await self._own(stream)
        return "" if view is None else view.metadata.get(data_plane.OVERLAP, "")

    async def _current_overlap(self, stream: str, epoch: int | None = None) -> str:
        """Return the mark, or nothing if something was stored after its span: its owner is then past it.

        If the stream accepts `epoch` already, return the mark in any case: the present owner stored that.
        """
        view = await self._own(stream)
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
        view = await self._own(stream)
        if view is None or not view.last:
            return ""
        older = await newest_before(self.connection, self.site, stream, epoch + 1)
        after = 0 if older is None else older.serial
        return await self.widened_overlap(stream, f"{after}-")

    async def _ended(self, stream: str, mark: str) -> str:
        """Return the mark with its end; empty if it spans nothing."""
        if not mark.endswith("-"):
            return mark
        last = await last_serial(self.connection, self.site, stream)
        return f"{mark}{last}" if int(mark[:-1]) < last else ""

    async def prepare_output(self, job: str, output: ResolvedOutput) -> None:
        """Make the output streams if they do not exist. They accept no epoch."""
        try:
            await self.jetstream.stream_info(output.stream)
        except NotFoundError:
            await self._close(job, output)

    async def close_output(self, job: str, epoch: int, output: ResolvedOutput) -> None:
        """Close the output streams for every epoch.

        Raises `TowpathError` (fenced) when they accept a later epoch.
        """
        accepted = await self.accepted_epoch(output.stream)
        check_epoch(f"the output of {job}", epoch, accepted)
        await self._close(job, output)

    async def _close(self, job: str, output: ResolvedOutput) -> None:
        # Rejected events first: anyone who finds the result stream finds both.
        for kept in reversed(_kept_by(job, output)):
            await self._ensure_output(
                kept,
                [data_plane.closed_subject(self.site, kept.stream)],
                await self._current_overlap(kept.stream),
            )

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
        # Rejected events first: the owner changes when the result stream changes.
        for kept in reversed(_kept_by(job, output)):
            if overlaps is None:
                overlap = await self._current_overlap(kept.stream, max(owners))
            else:
                overlap = overlaps.get(kept.stream, "")
            accepts = [kept.subject(self.site, owner, job, epoch) for epoch, owner in sorted(owners.items())]
            await self._ensure_output(kept, accepts, overlap, diverted, promotes=promotes)

    async def accepted_epoch(self, stream: str) -> int | None:
        """Return the latest epoch that an output stream accepts; None without a stream, or an epoch."""
        return accepted_epoch(await self._own(stream))

    async def drop_output(self, output: str) -> None:
        """Delete an output stream and the streams beside it, with their messages."""
        for stream in (output, data_plane.rejected_stream(output)):
            for name in (data_plane.live_stream(stream), stream):
                await self.delete(name)

    async def view(self, site: str, stream: str, *, timeout_s: float = REQUEST_S) -> StreamView:
        """Return a stream of any site. Raises `TowpathError` if there is none or its site is out of reach."""
        try:
            view = await stream_view(self.connection, site, stream, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TowpathError(
                ErrorCode.UNREACHABLE, f"stream {stream} of {site} does not answer", field="site", value=site
            ) from error
        if view is None:
            raise TowpathError(ErrorCode.UNKNOWN_TOPIC, f"{site} has no such stream", value=stream)
        return view

    async def _own(self, stream: str) -> StreamView | None:
        """Return a stream of this site; None if there is none. Raises `TimeoutError`."""
        return await stream_view(self.connection, self.site, stream, timeout_s=REQUEST_S)

    async def _ensure_output(
        self,
        kept: _OutputStream,
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
        public, known = subject_of(kept.topic), await self._own(kept.stream)
        if known is not None and known.fed_by is not None and not promotes:
            await self.delete(kept.stream)
            known = None
        lasting = _lasting(known)
        # Not only the owner accepted now: the one-message stream may still have to pass on earlier ones.
        every_owner = kept.subject(self.site, "*", kept.job, "*")
        marks = {data_plane.OVERLAP: overlap, data_plane.DIVERTED: "" if diverted is None else str(diverted)}
        stored = self.kept(kept.stream, subjects=accepts)
        await self.ensure(
            replace(
                stored,
                republish=RePublish(src=every_owner, dest=data_plane.MQTT_DELIVERY + public),
                metadata=lasting | {key: mark for key, mark in marks.items() if mark},
            )
        )
        former = int(lasting.get(data_plane.PROMOTED_AFTER, "0"))
        await self.ensure_live(kept.stream, every_owner, to=public, after=former)

    async def ensure_live(self, stream: str, subjects: str, *, to: str, after: int = 0) -> None:
        """Make or change the one-message stream that publishes what `stream` stores to `to`.

        It serves subscribers of QoS 0 and of NATS, because a stream republishes to one place only. It is on
        disk, so that it knows its position after a crash. Messages up to serial `after` are not published:
        the broker of a lost site did that.
        """
        live = StreamConfig(
            name=data_plane.live_stream(stream),
            sources=[StreamSource(name=stream, opt_start_seq=after + 1 if after else None)],
            storage=StorageType.FILE,
            max_msgs=1,
            republish=RePublish(src=subjects, dest=to),
        )
        await self.ensure(live)

    def kept(self, name: str, subjects: list[str] | None = None) -> StreamConfig:
        """Return the configuration of a stream with the site's retention."""
        return StreamConfig(
            name=name,
            subjects=subjects,
            storage=StorageType.FILE,
            max_bytes=self._shares.get(name, self.retention.max_bytes),
            max_age=self.retention.max_age_s,
            duplicate_window=_window(self.retention) if subjects else 0,
            allow_direct=True,
        )

    async def _all(self) -> AsyncIterator[StreamConfig]:
        """Yield the configuration of every stream. The server lists some hundred at a time."""
        seen = 0
        while some := await self.jetstream.streams_info(seen):
            seen += len(some)
            for info in some:
                yield info.config

    async def ensure(self, config: StreamConfig) -> None:
        """Make a stream, or change it to this configuration."""
        assert config.name is not None
        async with self._changing:
            try:
                await self.jetstream.stream_info(config.name)
            except NotFoundError:
                await self.jetstream.add_stream(config)
            else:
                await self.jetstream.update_stream(config)

    async def delete(self, name: str) -> None:
        """Delete a stream, if there is one."""
        try:
            await self.jetstream.delete_stream(name)
        except NotFoundError:
            return


def _lasting(output: StreamView | None) -> dict[str, str]:
    """Return the metadata that an output keeps as long as it exists; those of a copy that becomes one now."""
    if output is None:
        return {}
    lasting = (data_plane.LIFE, data_plane.CAUGHT_UP, data_plane.PROMOTED_AFTER)
    kept = {key: output.metadata[key] for key in lasting if key in output.metadata}
    return kept if output.fed_by is None else {**kept, data_plane.PROMOTED_AFTER: str(output.last)}


def _window(retention: Retention) -> float:
    """Return the duplicate window. A stream's window may not exceed its age limit."""
    return min(data_plane.DUPLICATE_WINDOW_S, retention.max_age_s or data_plane.DUPLICATE_WINDOW_S)
