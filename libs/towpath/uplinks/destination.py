"""Read from an uplink's destination what has arrived there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.client import Client

from towpath.contracts.data_plane import uplink_stream
from towpath.contracts.uplink import ResolvedUplink
from towpath.streams.pages import StoredMessage, is_another, page, pages_before
from towpath.streams.stream_view import stream_view
from towpath.uplinks.position import EventPlace, Lane, Position, folded
from towpath.uplinks.reading import NotThere, view_of


@dataclass(frozen=True)
class Arrived:
    """The end of a destination's stream."""

    serial: int
    """Of its newest message, in this stream."""
    position: Position


async def arrived(connection: Client, uplink: ResolvedUplink) -> Arrived:
    """Return what an uplink has forwarded. Raises `TimeoutError` when the destination does not answer,
    `NotThere` when it has no stream for it."""
    spec, stream = uplink.spec, uplink_stream(uplink.spec.name)
    view = await stream_view(connection, spec.to, stream)
    if view is None:
        raise NotThere(f"{spec.to} has no stream {stream} yet")
    if view.first > view.last:
        return Arrived(view.last, Position(live=uplink.after_serial))
    newest = await page(connection, spec.to, stream, view.last, 1)
    position = folded(message.headers for message in newest)
    if position is None:  # A batch that its server could not finish storing.
        read: list[StoredMessage] = []
        async for messages in pages_before(connection, spec.to, stream, view.last):
            read = [*messages, *read]
            position = folded(message.headers for message in read)
            if position is not None:
                break
    if position is None:
        raise NotThere(f"{stream} of {spec.to} does not tell where it is")
    return Arrived(view.last, position)


async def at_origin(connection: Client, uplink: ResolvedUplink, found: Arrived) -> Position:
    """Return the position for the origin's stream as it is now.

    A stream that was made again, or lost its end in a power cut, gives serial numbers a second time. Then the
    position goes back to the last event that both sites have. What was to be sent later, and is no longer
    there, counts as discarded. Raises `TimeoutError`.
    """
    position, view = found.position, await view_of(connection, uplink)
    if position.life == "":
        return Position(life=view.life, live=max(position.live, 0))
    if position.life == view.life and await _is_same(connection, uplink, position):
        return position
    agrees = 0
    if position.life == view.life:
        agrees = await _last_common(connection, uplink, found)
    lost = [(max(first, agrees + 1), last) for first, last in position.pending if last > agrees]
    events = sum(last - first + 1 for first, last in lost)
    return position.without(lost, events).renumbered(view.life, agrees)


async def _is_same(connection: Client, uplink: ResolvedUplink, position: Position) -> bool:
    """Tell if the origin's event at the position is the one that was forwarded, or is kept no more."""
    if (await view_of(connection, uplink)).last < position.live:
        return False
    return not position.stored_at or await _is_kept_as(connection, uplink, position.live, position.stored_at)


async def _is_kept_as(connection: Client, uplink: ResolvedUplink, serial: int, stored_at: str) -> bool:
    """Tell if the origin's event of a serial number is the one stored at a time, or is kept no more."""
    view = await view_of(connection, uplink)
    if serial < view.first or serial > view.last:
        return serial < view.first
    return not await is_another(connection, uplink.spec.site, uplink.stream, serial, stored_at)


async def _last_common(connection: Client, uplink: ResolvedUplink, found: Arrived) -> int:
    """Return the serial number of the newest forwarded event that the origin still has as it was.

    Serial numbers grow within a lane. An event of the late lane that is newer than one of the other lane came
    after that, so the search ends there.
    """
    spec, stream = uplink.spec, uplink_stream(uplink.spec.name)
    late = 0
    async for messages in pages_before(connection, spec.to, stream, found.serial):
        places = [place for m in messages if (place := EventPlace.of(m.headers))]
        mine = [place for place in places if place.numbering == found.position.numbering]
        late = late or await _newest_kept(connection, uplink, [p for p in mine if p.lane is Lane.LATE])
        other = await _newest_kept(connection, uplink, [p for p in mine if p.lane is not Lane.LATE])
        if other or len(mine) < len(places):
            return max(late, other)
    return late


async def _newest_kept(connection: Client, uplink: ResolvedUplink, places: Sequence[EventPlace]) -> int:
    """Return the newest of these serial numbers whose event the origin still has as it was; 0 if there is
    none. They are of one lane, in the order in which they came."""

    async def agrees(place: EventPlace) -> bool:
        return await _is_kept_as(connection, uplink, place.serial, place.stored_at)

    if not places or not await agrees(places[0]):
        return 0
    low, high = 0, len(places)  # The first that agrees, and one that does not.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await agrees(places[middle]) else (low, middle)
    return places[low].serial
