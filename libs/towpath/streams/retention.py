"""Room of a site's streams, and the time until a stream drops what a job has to read. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from towpath.contracts.data_plane import IN_STREAM
from towpath.streams.stream_view import StreamView

IN_PARTS = 4
"""Parts of the budget for events of devices. Each other stream has one: results can be computed again."""


def divided(budget: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return stream → bytes that it may take, so that all fit into `budget`.

    No stream gets more than it wants, and what it leaves goes to the others.
    """
    shares: dict[str, int] = {}
    left, open_streams = budget, dict(wanted)
    while open_streams:
        part = left / sum(_parts(name) for name in open_streams)
        content = {name: most for name, most in open_streams.items() if most <= part * _parts(name)}
        if not content:
            return shares | {name: int(part * _parts(name)) for name in open_streams}
        shares |= content
        left -= sum(content.values())
        open_streams = {name: most for name, most in open_streams.items() if name not in content}
    return shares


def _parts(stream: str) -> int:
    return IN_PARTS if stream == IN_STREAM else 1


def time_left_s(stream: StreamView, position: int, now: datetime) -> float | None:
    """Return seconds until the stream drops the next event behind `position`; None if there is none to drop.

    The times between the oldest and the newest event are taken as evenly spread, and the stream as growing as
    it did.
    """
    if position >= stream.last or stream.first > stream.last:
        return None
    oldest, newest = _time(stream.first_stored_at), _time(stream.last_stored_at)
    span_s = (newest - oldest).total_seconds()
    kept = stream.last - stream.first + 1
    behind = min(stream.last - position, kept)
    left: list[float] = []
    if stream.max_age_s > 0:
        age_s = (now - newest).total_seconds() + span_s * (behind - 1) / max(kept - 1, 1)
        left.append(stream.max_age_s - age_s)
    if stream.max_bytes > 0 and span_s > 0:
        left.append((stream.max_bytes - stream.size * behind / kept) / (stream.size / span_s))
    return max(0.0, min(left)) if left else None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
