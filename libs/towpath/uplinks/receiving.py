"""Streams at an uplink's destination: one for each uplink, which republishes to its topic."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from towpath.contracts import data_plane
from towpath.contracts.uplink import ResolvedUplink, UplinkSpec
from towpath.streams.pages import serial_before
from towpath.streams.stream_view import StreamView
from towpath.streams.streams import SiteStreams


def arrival_subjects(spec: UplinkSpec) -> list[str]:
    """Return the subjects that the stream of an uplink takes: its topics, and notices."""
    prefix = data_plane.uplink_prefix(spec.to, spec.site, spec.name)
    topics = [prefix + data_plane.subject_of(topic) for topic in spec.topics]
    return [*topics, data_plane.uplink_notice(spec.to, spec.site, spec.name)]


async def ensure_arrivals(streams: SiteStreams, uplink: ResolvedUplink) -> None:
    """Make the stream that keeps what arrives, or change it.

    It has no limit of age: its newest message is the memory of the uplink, and must stay. See `forget_old`.
    A stream of one message beside it publishes what it gets, with QoS 0. The stream of MQTT sessions cannot
    be fed: it takes neither parts of a batch, nor messages that another stream took over. A mirror would do,
    but answers requests for the origin's messages.
    """
    spec, name = uplink.spec, data_plane.uplink_stream(uplink.spec.name)
    prefix = data_plane.uplink_prefix(spec.to, spec.site, spec.name)
    kept = streams.kept(name, subjects=arrival_subjects(spec))
    await streams.ensure(replace(kept, max_age=0, duplicate_window=0, allow_atomic=True))
    await streams.ensure_live(name, f"{prefix}>", to=">")


async def forget_old(streams: SiteStreams, view: StreamView, at: datetime) -> None:
    """Delete what has arrived before the site's retention, but for the newest message."""
    age_s = streams.retention.max_age_s
    if not age_s or view.first >= view.last:
        return
    before = at - timedelta(seconds=age_s)
    if datetime.fromisoformat(view.first_stored_at) >= before:
        return
    newest_old = await serial_before(streams.connection, streams.site, view.name, before)
    keep = view.last if newest_old is None else min(newest_old + 1, view.last)
    await streams.jetstream.purge_stream(view.name, seq=keep)


async def drop_arrivals(streams: SiteStreams, name: str) -> None:
    """Delete the stream of an uplink that is no more."""
    await streams.delete(data_plane.live_stream(name))
    await streams.delete(name)
