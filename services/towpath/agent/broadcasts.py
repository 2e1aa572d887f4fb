"""Deliver broadcasts to the devices of the site: store each once, for its time."""

from __future__ import annotations

from towpath.bus.deadlines import check_in_time
from towpath.contracts.broadcast import BroadcastState, DeliverBroadcast, SiteBroadcast
from towpath.contracts.data_plane import broadcast_subject
from towpath.streams.broadcasts import count_subscriptions, ensure_broadcasts, store_broadcast
from towpath.streams.streams import SiteStreams


class Broadcasts:
    """Makes the stream of broadcasts with the first one. A site that never gets any has none."""

    def __init__(self, streams: SiteStreams) -> None:
        self._streams = streams
        self._ready = False

    async def deliver(self, command: DeliverBroadcast) -> SiteBroadcast:
        """See `DeliverBroadcast`."""
        if not self._ready:
            await ensure_broadcasts(self._streams)
            self._ready = True
        check_in_time()
        subject = broadcast_subject(command.topic, command.broadcast)
        at = await store_broadcast(self._streams, subject, command.to_payload(), command.left_s)
        counted = await count_subscriptions(self._streams, subject)
        return SiteBroadcast(
            site=self._streams.site, state=BroadcastState.DELIVERED, at=at, subscriptions=counted
        )
