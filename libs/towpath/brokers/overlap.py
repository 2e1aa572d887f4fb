"""Tell a message that a broker delivers again from a new one that looks the same. Pure.

A broker of MQTT sends a QoS 1 message again, on the next connection of a session, until it has our
acknowledgement: with the DUP flag, under the same packet id, and in the order of the first time (MQTT 5,
4.4 and 4.6). The bridge acknowledges in the order of receipt. So messages that come again and were stored
before can only be *the end of what was stored*, whole and in order, before anything new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

HISTORY = 20_000
"""Messages among which a repetition is recognised: as many as a broker may leave unacknowledged here.

That is far below the 65,535 after which packet ids are used again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Identity of a delivery: the broker's packet id, and a digest of topic and payload."""

    packet: int
    digest: str


class Delivered(Protocol):
    """A QoS 1 message as it came."""

    @property
    def seen(self) -> Seen:
        """Packet id and digest."""
        ...

    @property
    def again(self) -> bool:
        """True if it has the DUP flag."""
        ...


MessageT = TypeVar("MessageT", bound=Delivered)


class Overlap(Generic[MessageT]):
    """Compares the first messages of a connection with those that were stored last.

    A message counts as known only if the messages that come with it run through the very end of what was
    stored, all with the DUP flag. While that is open, messages are held. Those that remain in doubt count as
    new: twice is better than never. Two cases remain in doubt:

    - A broker that uses a packet id again as soon as it is free, unlike Mosquitto, which counts up. After a
      loss, its next message may look like the one before. Nothing stored is recognised there.
    - A broker that was killed and restored an older state of the session. It repeats the messages that were
      unacknowledged in that state.
    """

    def __init__(self, stored: Sequence[Seen]) -> None:
        self._stored = stored[-HISTORY:]
        times = Counter(seen.packet for seen in self._stored)
        reused = any(count > 1 for count in times.values())
        self._place = {} if reused else {seen.packet: at for at, seen in enumerate(self._stored)}
        self._next = 0
        self._held: list[MessageT] = []
        self.is_open = bool(self._place)
        """True if a message may still be a repetition."""

    @property
    def holds(self) -> bool:
        """True if messages are held."""
        return bool(self._held)

    def offer(self, message: MessageT) -> tuple[list[MessageT], list[MessageT]]:
        """Take the next message. Return those now found known, and those now found new, in order."""
        if not self.is_open:
            return [], [message]
        if not self._held:
            self._next = self._place.get(message.seen.packet, len(self._stored))
        if not message.again or self._next == len(self._stored) or self._stored[self._next] != message.seen:
            return [], [*self.give_up(), message]
        self._held.append(message)
        self._next += 1
        if self._next < len(self._stored):
            return [], []
        return self.give_up(), []

    def give_up(self) -> list[MessageT]:
        """Wait no longer. Return the held messages."""
        held, self._held, self.is_open = self._held, [], False
        return held
