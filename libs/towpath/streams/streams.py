"""Make and change the streams of a site: IN, and what all others need. See also `OutputStreams`, `Mirrors`.

All functions are idempotent: an agent calls them again after every restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
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
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import Retention
from towpath.streams.mirrors import Mirrors
from towpath.streams.output_streams import OutputStreams
from towpath.streams.stream_view import StreamView, stream_view

REQUEST_S = 10.0

NO_EVENT_BYTES = 1
"""No event is so small: the MQTT side gives each a header."""


class SiteStreams:
    """The streams of one site, through a connection to its own broker."""

    def __init__(self, connection: Client, site: str, retention: Retention) -> None:
        self.site = site
        self.connection = connection
        self.retention = retention
        self.jetstream: JetStreamContext = connection.jetstream(timeout=REQUEST_S)
        self.mirrors = Mirrors(self)
        self.outputs = OutputStreams(self)
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

    async def own_view(self, stream: str) -> StreamView | None:
        """Return a stream of this site; None if there is none. Raises `TimeoutError`."""
        return await stream_view(self.connection, self.site, stream, timeout_s=REQUEST_S)

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


def _window(retention: Retention) -> float:
    """Return the duplicate window. A stream's window may not exceed its age limit."""
    return min(data_plane.DUPLICATE_WINDOW_S, retention.max_age_s or data_plane.DUPLICATE_WINDOW_S)
