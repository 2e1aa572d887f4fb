"""The receiver's account of an uplink: is everything there, once, and if not, which serial numbers. Pure.

It reads the destination's stream alone. Each event says which serial numbers it stands for, so a hole between
two of them has a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.contracts.data_plane import UPLINK_GONE_HEADER, UPLINK_POSITION_HEADER
from towpath.number_set import NumberSet
from towpath.uplinks.position import EventPlace, Lane, Position, Range


@dataclass(frozen=True)
class Proof:
    """Outcome of an account."""

    events: int
    """Events that were read."""
    repeated: int
    out_of_order: int
    missing: tuple[Range, ...]
    """Serial numbers that no message accounts for, of the present numbering."""
    gone: tuple[Range, ...]
    """Serial numbers that the origin dropped before they were forwarded."""
    pending: tuple[Range, ...]
    """Serial numbers that come later."""
    through: int
    """The account goes up to this serial number of the origin."""
    begins_after: int
    """The account begins behind this one: what arrived before is kept no more."""

    @property
    def is_complete(self) -> bool:
        """True if nothing is missing, repeated, out of order, gone or pending."""
        return not (self.missing or self.repeated or self.out_of_order or self.gone or self.pending)


@dataclass
class Account:
    """Takes in messages of the destination's stream, in their order."""

    events: int = 0
    repeated: int = 0
    out_of_order: int = 0
    _position: Position | None = None
    _begins_after: int = 0
    _covered: NumberSet = field(default_factory=NumberSet)
    _gone: NumberSet = field(default_factory=NumberSet)
    _lanes: dict[Lane, int] = field(default_factory=dict)

    def take(self, headers: Mapping[str, str]) -> None:
        """Count a message. Those before the first that tells its position are passed over."""
        place, text = EventPlace.of(headers), headers.get(UPLINK_POSITION_HEADER)
        told = None if text is None else Position.of(text)
        if self._position is None:
            if told is None:
                return
            self._begin(told, place)
        elif told is not None and told.numbering != self._position.numbering:
            self._renumber(told, place)
        if place is not None:
            self._take_event(place)
        for part in (headers.get(UPLINK_GONE_HEADER) or "").split(","):
            first, _, last = part.partition("-")
            if last:
                self._gone.add(int(first), int(last))
        if told is not None:
            if place is None:  # The late lane was looked at.
                for first, last in self._position.pending if self._position else ():
                    for begin, end in NumberSet(told.pending).missing(first, last):
                        self._covered.add(begin, end)
            self._position = told

    def proof(self) -> Proof:
        """Return what the account says up to now."""
        position = self._position or Position()
        known = NumberSet([*self._covered, *self._gone, *position.pending])
        return Proof(
            events=self.events,
            repeated=self.repeated,
            out_of_order=self.out_of_order,
            missing=tuple(known.missing(1, position.live)),
            gone=tuple(self._gone),
            pending=position.pending,
            through=position.live,
            begins_after=self._begins_after,
        )

    def _begin(self, told: Position, place: EventPlace | None) -> None:
        """Begin in the middle: what came before is taken as told."""
        self._position = told
        if told.forwarded <= 1 and told.numbering == 0:
            # The very first message. What lies before its uplink's beginning is not its concern.
            first = [begin for begin, _ in told.pending]
            after = place.after if place is not None else told.live
            self._covered.add(1, min([after, *(begin - 1 for begin in first)]))
            return
        before = told.live if place is None or place.lane is Lane.LATE else place.after
        waiting = NumberSet(told.pending)
        if place is not None and place.lane is Lane.LATE:
            waiting.add(place.after + 1, place.through)
        for first, last in waiting.missing(1, before):
            self._covered.add(first, last)
        self._begins_after = before

    def _renumber(self, told: Position, place: EventPlace | None) -> None:
        """Begin another numbering: the origin gives later serial numbers to other events."""
        after = told.live if place is None or place.lane is Lane.LATE else place.after
        kept = [(first, min(last, after)) for first, last in self._covered if first <= after]
        self._covered, self._lanes = NumberSet(kept), {}

    def _take_event(self, place: EventPlace) -> None:
        self.events += 1
        if place.serial in self._covered:
            self.repeated += 1
        elif place.serial <= self._lanes.get(place.lane, 0):
            self.out_of_order += 1
        self._lanes[place.lane] = max(place.serial, self._lanes.get(place.lane, 0))
        self._covered.add(place.after + 1, place.through)
