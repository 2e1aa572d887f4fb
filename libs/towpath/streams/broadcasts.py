"""The stream of a site's broadcasts. It publishes each to the site's broker once, until it expires.

The server does the rest. The stream refuses what it has already, hands each message to the store of MQTT
sessions, and forgets it at its time. So does that store: a device that was away too long gets nothing late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from nats.js.api import RePublish
from nats.js.errors import APIError

from towpath.contracts import data_plane
from towpath.contracts.data_plane import (
    BROADCAST_PREFIX,
    BROADCAST_STREAM,
    BROADCAST_SUBJECTS,
    KEEPER_PREFIX,
    MQTT_DELIVERY,
    MQTT_STORE,
    MQTT_STREAM,
    STORED_AT_HEADER,
    TIME_TO_LIVE_HEADER,
)
from towpath.contracts.message import now
from towpath.streams.streams import SiteStreams

MOST_COUNTED = 2_000
"""Of more subscriptions the matching ones are not counted: the server lists a few hundred at a time."""

_ALREADY_THERE = 10071
"""Error of the server: the subject has a message already."""

_PUBLIC = f"{data_plane.subject_of(BROADCAST_PREFIX)}>"


async def ensure_broadcasts(streams: SiteStreams) -> None:
    """Make the stream, and the one beside it that serves subscribers of QoS 0, if they do not exist.

    It has no limit of age: each message brings its own.
    """
    kept = streams.kept(BROADCAST_STREAM, subjects=[BROADCAST_SUBJECTS])
    to_sessions = RePublish(src=BROADCAST_SUBJECTS, dest=f"{MQTT_DELIVERY}{_PUBLIC}")
    await streams.ensure(replace(kept, max_age=0, allow_msg_ttl=True, republish=to_sessions))
    await streams.ensure_live(BROADCAST_STREAM, BROADCAST_SUBJECTS, to=_PUBLIC)


async def store_broadcast(streams: SiteStreams, subject: str, payload: bytes, left_s: float) -> datetime:
    """Store a broadcast for so many seconds, unless it is there. Return when it was stored."""
    name, qos = data_plane.MQTT_QOS_HEADER
    headers = {
        name: qos,
        data_plane.MESSAGE_ID_HEADER: subject,
        TIME_TO_LIVE_HEADER: str(math.ceil(left_s)),
        **data_plane.ONLY_ONE_HEADER,
    }
    try:
        answer = await streams.jetstream.publish(subject, payload, headers=headers)
    except APIError as error:
        if error.err_code != _ALREADY_THERE:
            raise
        return await _stored_at(streams, subject)
    return await _stored_at(streams, subject) if answer.duplicate else now()


async def _stored_at(streams: SiteStreams, subject: str) -> datetime:
    found = await streams.jetstream.get_last_msg(BROADCAST_STREAM, subject, direct=True)
    return datetime.fromisoformat((found.headers or {})[STORED_AT_HEADER])


async def count_subscriptions(streams: SiteStreams, subject: str) -> int | None:
    """Return how many QoS 1 subscriptions of the site match a broadcast; None if there are too many."""
    public = MQTT_STORE + data_plane.subject_of(data_plane.broadcast_topic(subject))
    if (await streams.view(streams.site, MQTT_STREAM)).consumers > MOST_COUNTED:
        return None
    listed = matching = 0
    while some := await streams.jetstream.consumers_info(MQTT_STREAM, offset=listed):
        listed += len(some)
        filters = [each.config.filter_subject for each in some if not each.name.startswith(KEEPER_PREFIX)]
        matching += sum(data_plane.subject_matches(pattern or ">", public) for pattern in filters)
    return matching


def time_left(headers: Mapping[str, str], at: datetime) -> dict[str, str]:
    """Return the header that lets another stream forget a stored message when its own does. Pure.

    Nothing if the message does not expire.
    """
    if TIME_TO_LIVE_HEADER not in headers:
        return {}
    age_s = (at - datetime.fromisoformat(headers[STORED_AT_HEADER])).total_seconds()
    return {TIME_TO_LIVE_HEADER: str(max(1, math.ceil(int(headers[TIME_TO_LIVE_HEADER]) - age_s)))}
