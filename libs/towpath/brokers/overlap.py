"""Tells a message that a broker delivers again from a new one that looks the same. Pure.

A broker of MQTT sends a QoS 1 message again, on the next connection of a session, until it has our
acknowledgement: with the DUP flag, under the same packet id, and in the order of the first time (MQTT 5,
4.4 and 4.6). We acknowledge in the order of receipt. So what is delivered again and was stored before can
only be one thing: *the end of what was stored*, whole and in order, before anything new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

HISTORY = 20_000
"""Messages back to which a repetition is recognised: as many as a broker may leave unacknowledged here, and
far below the 65,535 after which packet ids come round."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What identifies a delivery: the broker's packet id, and a digest of topic and payload."""

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
        """Whether it bears the DUP flag."""
        ...


MessageT = TypeVar("MessageT", bound=Delivered)


class Overlap(Generic[MessageT]):
    """Compares what comes first on a connection with what was stored last.

    A message counts as known only if the messages that come with it run through the very end of what was
    stored, all with the DUP flag. As long as that is open, messages are held. Whatever remains in doubt
    counts as new: better twice than never. Two things remain in doubt:

    - A broker that uses a packet id anew as soon as it is free, unlike Mosquitto, which counts up: after a
      loss, its next message may look like the one before. Nothing stored is recognised there.
    - A broker that was killed and restored an older state of the session: it repeats what it knows to have
      been unacknowledged then.
    """

    def __init__(self, stored: Sequence[Seen]) -> None:
        self._stored = stored[-HISTORY:]
        times = Counter(seen.packet for seen in self._stored)
        reused = any(count > 1 for count in times.values())
        self._place = {} if reused else {seen.packet: at for at, seen in enumerate(self._stored)}
        self._next = 0
        self._held: list[MessageT] = []
        self.is_open = bool(self._place)
        """Whether anything that comes may still be a repetition."""

    @property
    def holds(self) -> bool:
        """Whether messages are held."""
        return bool(self._held)

    def offer(self, message: MessageT) -> tuple[list[MessageT], list[MessageT]]:
        """Take the next message; return those now found known, and those now found new, in order."""
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
        """Wait no longer: return what is held."""
        held, self._held, self.is_open = self._held, [], False
        return held
