"""Make the messages of a batch from what a lane holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from towpath.contracts.data_plane import (
    EVENT_ID_HEADER,
    STORED_AT_HEADER,
    UPLINK_GONE_HEADER,
    UPLINK_HEADER,
    UPLINK_POSITION_HEADER,
    subject_of,
    uplink_notice,
    uplink_prefix,
)
from towpath.contracts.uplink import ResolvedUplink, UplinkSpec
from towpath.streams.pages import StoredMessage
from towpath.uplinks.position import EventPlace, Lane, Position, Range
from towpath.uplinks.reading import LaneRead
from towpath.uplinks.sending import BatchMessage

PASSED_ON = (EVENT_ID_HEADER,)
"""Headers of events that jobs at the destination understand."""

POSITION_BYTES, NOTICE_BYTES, RANGE_BYTES = 100, 500, 45
"""Bytes by which a position may grow, bytes of a notice, and of each range in it."""


@dataclass(frozen=True)
class LaneBatch:
    """Messages to store together, and where the uplink is then."""

    messages: Sequence[BatchMessage]
    position: Position
    through: int
    """Up to here its lane has sent everything."""

    @property
    def size(self) -> int:
        """Return its bytes on the link, about."""
        return sum(message.size for message in self.messages)


def batch_of(
    uplink: ResolvedUplink, lane: Lane, position: Position, read: LaneRead, most_bytes: int
) -> LaneBatch | None:
    """Return as much of what was read as fits; None if not even the first event does.

    What is gone is told first, in a notice: all of it that lies before the last event.
    """
    maker = _Maker(uplink, lane, position)
    events = maker.fitting(read, most_bytes)
    is_all = len(events) == len(read.events)
    if not events and not is_all:
        return None
    after = maker.after()
    gone = [part for part in read.gone if is_all or part[1] < events[-1].serial]
    if gone:
        maker.notice(gone)
        after = max(after, maker.after())
    for event in events:
        place = maker.place(event, after, read.through if is_all and event is events[-1] else event.serial)
        maker.add(maker.message(event, place), place)
        after = place.through
    if not maker.messages and read.through > after and lane is Lane.LATE:
        maker.notice((), looked_at=read.through)
    through = read.through if is_all else after
    return LaneBatch(maker.finished() if maker.messages else (), maker.position, through)


class _Maker:
    def __init__(self, uplink: ResolvedUplink, lane: Lane, position: Position) -> None:
        self._spec: UplinkSpec = uplink.spec
        self._lane = lane
        spec = uplink.spec
        topic = spec.topics[-1] if lane is Lane.LATE else spec.public_topic
        self._subject = uplink_prefix(spec.to, spec.site, spec.name) + subject_of(topic)
        self.position = position
        self.messages: list[BatchMessage] = []

    def fitting(self, read: LaneRead, most_bytes: int) -> list[StoredMessage]:
        """Return the first events of a reading that fit into so many bytes, with what stands around them."""
        told = 2 * (len(self.position.text()) + POSITION_BYTES)
        notice = NOTICE_BYTES + RANGE_BYTES * len(read.gone) if read.gone else 0
        room, found = most_bytes - told - notice, list[StoredMessage]()
        for event in read.events:
            room -= self.message(event, self.place(event, event.serial, event.serial)).size
            if room < 0:
                break
            found.append(event)
        return found

    def after(self) -> int:
        """Return where the lane stands: the serial number behind which it goes on."""
        if self._lane is not Lane.LATE:
            return self.position.live
        return self.position.pending[0][0] - 1 if self.position.pending else 0

    def notice(self, gone: Sequence[Range], looked_at: int = 0) -> None:
        """Add a notice of what is gone, or of where the late lane has nothing."""
        events = sum(last - first + 1 for first, last in gone)
        self.position = self.position.without(gone, events).looked_at(looked_at)
        spec = self._spec
        headers = {UPLINK_POSITION_HEADER: self.position.text()}
        if gone:
            headers[UPLINK_GONE_HEADER] = ",".join(f"{first}-{last}" for first, last in gone)
        self.messages.append(BatchMessage(uplink_notice(spec.to, spec.site, spec.name), headers, b""))

    def place(self, event: StoredMessage, after: int, through: int) -> EventPlace:
        """Return an event's place, behind the serial number `after` of its lane."""
        at = event.headers[STORED_AT_HEADER]
        # The live lane goes on from the event itself: what comes next is not looked at yet.
        through = through if self._lane is Lane.LATE else event.serial
        return EventPlace(self.position.numbering, self._lane, event.serial, after, through, at)

    def message(self, event: StoredMessage, place: EventPlace) -> BatchMessage:
        """Return an event as it travels."""
        headers = {UPLINK_HEADER: place.header()}
        headers |= {name: event.headers[name] for name in PASSED_ON if name in event.headers}
        return BatchMessage(self._subject, headers, event.body)

    def add(self, message: BatchMessage, place: EventPlace) -> None:
        """Add an event."""
        self.position = self.position.with_event(place)
        is_first = not self.messages
        self.messages.append(_with_position(message, self.position) if is_first else message)

    def finished(self) -> list[BatchMessage]:
        """Return the messages. The last one tells the position, too."""
        return [*self.messages[:-1], _with_position(self.messages[-1], self.position)]


def _with_position(message: BatchMessage, position: Position) -> BatchMessage:
    headers: Mapping[str, str] = {**message.headers, UPLINK_POSITION_HEADER: position.text()}
    return replace(message, headers=headers)
