"""Read what a lane has to send from the origin's stream, and find out what is gone there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.client import Client

from towpath.contracts.uplink import ResolvedUplink
from towpath.streams.pages import StoredMessage, page
from towpath.streams.stream_view import StreamView, stream_view
from towpath.uplinks.position import Range

MOST_EVENTS = 900
"""Events of one batch: the server takes a thousand messages, and a notice may be among them."""


class NotThere(Exception):
    """A site has no stream for the uplink, or none yet."""


@dataclass(frozen=True)
class LaneRead:
    """Content of a range of serial numbers."""

    events: Sequence[StoredMessage]
    gone: Sequence[Range]
    """Ranges without events that may have had some."""
    through: int
    """Up to here it is known that there is nothing else."""


def sort_out(found: Sequence[StoredMessage], wanted: Range, first_kept: int, *, is_whole: bool) -> LaneRead:
    """Return what a page says about a range. Pure.

    `first_kept` was asked for after the page: what retention took while it was read counts as gone.
    `is_whole` says that all messages of the stream count: then each hole is a loss.
    """
    first, last = wanted
    events = [message for message in found if message.serial <= last]
    is_exhausted = len(events) < len(found) or not found
    gone: list[Range] = []
    before = first - 1
    for message in events:
        end = message.serial - 1 if is_whole else min(message.serial, first_kept) - 1
        gone += [(before + 1, end)] * (end > before)
        before = message.serial
    if is_exhausted:
        end = min(last, first_kept - 1)
        gone += [(before + 1, end)] * (end > before)
    return LaneRead(events, gone, last if is_exhausted else before)


async def read_lane(
    connection: Client, uplink: ResolvedUplink, wanted: Range, most_bytes: int
) -> tuple[LaneRead, StreamView]:
    """Return the next events of a range of the origin, about so many bytes of them, at least one, and the
    origin's stream after that.

    Raises `TimeoutError` when the origin does not answer.
    """
    site, stream, subject = uplink.spec.site, uplink.stream, uplink.subject
    first, last = wanted
    # Of a stream that topics share, one more: it tells that the range has no other.
    count = min(MOST_EVENTS, last - first + 1) + 1
    found = await page(connection, site, stream, first, count, subject=subject, most_bytes=max(1, most_bytes))
    view = await view_of(connection, uplink)
    if subject is None and not found and max(first, view.first) <= last:
        raise TimeoutError(f"{stream} of {site} does not return what it keeps")
    if found and len(found) == count and found[-1].serial <= last:
        found = found[:-1]
    return sort_out(found, wanted, view.first, is_whole=subject is None), view


async def view_of(connection: Client, uplink: ResolvedUplink) -> StreamView:
    """Return the origin's stream. Raises `NotThere`, or `TimeoutError` when its server does not answer."""
    view = await stream_view(connection, uplink.spec.site, uplink.stream)
    if view is None:
        raise NotThere(f"{uplink.spec.site} has no stream {uplink.stream}")
    return view
