"""Room of a site's streams, and the time until a stream drops what a job has to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.job import Assignment
from towpath.contracts.message import now
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


@dataclass(frozen=True)
class Margin:
    """The time that a reader of a stream has."""

    left_s: float
    """Seconds until the stream drops the next event that is to be read."""
    holds_s: float
    """Seconds for which the stream holds an event."""


def margin(stream: StreamView, position: int, at: datetime) -> Margin | None:
    """Return the margin of a reader that has read up to `position`; None if it has read all.

    The times between the oldest and the newest event are taken as evenly spread, and the stream as growing as
    it did.
    """
    if position >= stream.last or stream.first > stream.last:
        return None
    oldest, newest = map(datetime.fromisoformat, (stream.first_stored_at, stream.last_stored_at))
    span_s = (newest - oldest).total_seconds()
    kept = stream.last - stream.first + 1
    behind = min(stream.last - position, kept)
    margins: list[Margin] = []
    if stream.max_age_s > 0:
        age_s = (at - newest).total_seconds() + span_s * (behind - 1) / max(kept - 1, 1)
        margins.append(Margin(stream.max_age_s - age_s, stream.max_age_s))
    if stream.max_bytes > 0 and span_s > 0:
        bytes_per_s = stream.size / span_s
        free = stream.max_bytes - stream.size * behind / kept
        margins.append(Margin(free / bytes_per_s, stream.max_bytes / bytes_per_s))
    first = min(margins, key=lambda each: each.left_s, default=None)
    return first and replace(first, left_s=max(0.0, first.left_s))


def margins(
    site: str, assignment: Assignment, serials: Mapping[str, int], streams: Mapping[str, StreamView]
) -> dict[str, Margin]:
    """Return the margin of each input that a job at `site` has not read to its end."""
    found: dict[str, Margin] = {}
    for entry in assignment.inputs:
        stream = streams.get(entry.local_stream(site))
        position = serials.get(entry.name, entry.after_serial or 0)
        one = None if stream is None else margin(stream, position, now())
        if one is not None:
            found[entry.name] = one
    return found
