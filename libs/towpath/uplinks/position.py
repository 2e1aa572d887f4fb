"""Position of an uplink, as its destination's stream tells. Pure.

The destination is the only memory. Each message there names its place at the origin, and some bear the whole
position. So a sender that knows nothing reads the last messages, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson

from towpath.contracts.data_plane import UPLINK_HEADER, UPLINK_POSITION_HEADER

MOST_RANGES = 100
"""Ranges that may be pending at a time: a position must stay small. With so many, new events wait."""

Range = tuple[int, int]
"""First and last serial number."""


class Lane(StrEnum):
    """Part of an uplink that is in order."""

    LIVE = "live"
    LATE = "late"
    """Events that were passed over for the sake of new ones."""
    KEPT = "kept"
    """The only lane of an uplink that keeps its order."""


@dataclass(frozen=True)
class EventPlace:
    """EventPlace of one forwarded event at its origin."""

    numbering: int
    lane: Lane
    serial: int
    after: int
    through: int
    """From `after` (not included) to `through`, the origin had no other event of the uplink."""
    stored_at: str

    def header(self) -> str:
        """Return the value of `UPLINK_HEADER`."""
        return f"{self.numbering} {self.lane} {self.serial} {self.after} {self.through} {self.stored_at}"

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> EventPlace | None:
        """Return the place in a message's headers; None for a notice."""
        text = headers.get(UPLINK_HEADER)
        if text is None:
            return None
        numbering, lane, serial, after, through, stored_at = text.split(" ")
        return cls(int(numbering), Lane(lane), int(serial), int(after), int(through), stored_at)


@dataclass(frozen=True)
class Position:
    """Events up to `live` are forwarded, those in `pending` excepted."""

    life: str = ""
    """Code of the origin stream's life; empty before anything was forwarded."""
    numbering: int = 0
    """Times that the origin began to give its serial numbers to other events."""
    live: int = 0
    stored_at: str = ""
    """Time at which the origin stored event `live`: another time there is another event."""
    pending: tuple[Range, ...] = ()
    """In ascending order, all up to `live`."""
    forwarded: int = 0
    """Events in all."""
    discarded: int = 0

    @property
    def waiting(self) -> int:
        """Return how many serial numbers are pending."""
        return sum(last - first + 1 for first, last in self.pending)

    def with_event(self, place: EventPlace) -> Position:
        """Return the position with one event more."""
        if place.lane is Lane.LATE:
            left = _without(self.pending, 0, place.through)
            return replace(self, pending=left, forwarded=self.forwarded + 1)
        return replace(self, live=place.serial, stored_at=place.stored_at, forwarded=self.forwarded + 1)

    def jumped(self, to: int, stored_at: str) -> Position:
        """Return the position that goes on behind serial number `to`, and leaves out what is between."""
        if to <= self.live:
            return self
        pending = list(self.pending)
        first = self.live + 1
        if pending and pending[-1][1] == self.live:
            first = pending.pop()[0]
        return replace(self, live=to, stored_at=stored_at, pending=(*pending, (first, to)))

    def without(self, gone: Iterable[Range], events: int) -> Position:
        """Return the position when ranges are gone at the origin, with so many events in them."""
        pending, live = self.pending, self.live
        for first, last in gone:
            pending = _without(pending, first, last)
            if first <= live + 1 and last > live:
                live = last
        stored_at = self.stored_at if live == self.live else ""
        return replace(
            self, pending=pending, live=live, stored_at=stored_at, discarded=self.discarded + events
        )

    def looked_at(self, through: int) -> Position:
        """Return the position when the late lane has nothing to send up to a serial number."""
        return replace(self, pending=_without(self.pending, 0, through))

    def renumbered(self, life: str, agrees: int) -> Position:
        """Return the position at an origin whose events after serial number `agrees` are others.

        What was pending of the former ones no longer exists: count it with `without` first.
        """
        return replace(
            self,
            life=life,
            numbering=self.numbering + 1,
            live=agrees,
            stored_at="",
            pending=_without(self.pending, agrees + 1, max(self.live, agrees + 1)),
        )

    def text(self) -> str:
        """Return the value of `UPLINK_POSITION_HEADER`."""
        return orjson.dumps(
            {
                "life": self.life,
                "n": self.numbering,
                "live": self.live,
                "at": self.stored_at,
                "pending": self.pending,
                "forwarded": self.forwarded,
                "discarded": self.discarded,
            }
        ).decode()

    @classmethod
    def of(cls, text: str) -> Position:
        """Return the position in a header."""
        found = orjson.loads(text)
        return cls(
            life=found["life"],
            numbering=found["n"],
            live=found["live"],
            stored_at=found["at"],
            pending=tuple((first, last) for first, last in found["pending"]),
            forwarded=found["forwarded"],
            discarded=found["discarded"],
        )


def folded(headers: Iterable[Mapping[str, str]]) -> Position | None:
    """Return the position after these messages, in order; None if none of them tells it."""
    position: Position | None = None
    for each in headers:
        text = each.get(UPLINK_POSITION_HEADER)
        place = EventPlace.of(each)
        if text is not None:
            position = Position.of(text)
        elif position is not None and place is not None:
            position = position.with_event(place)
    return position


def _without(ranges: Iterable[Range], first: int, last: int) -> tuple[Range, ...]:
    """Return the ranges without the numbers from `first` to `last`."""
    left: list[Range] = []
    for begin, end in ranges:
        parts = ((begin, min(end, first - 1)), (max(begin, last + 1), end))
        left += [part for part in parts if part[0] <= part[1]]
    return tuple(left)
