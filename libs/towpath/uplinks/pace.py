"""Limit of what is under way to one destination. Pure.

It is enough to fill the link, and not so much that new events wait behind it.

As TCP's BBR does: the fastest recent delivery is what the link carries, and the shortest time of an answer is
its length. Their product fills it. What is under way beyond that waits in queues.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

QUEUE_S = 0.25
"""Time that bytes may wait on the way: new events wait as long behind a backlog."""

LEAST_BYTES, MOST_BYTES = 4_096, 8 * 1024**2
FIRST_BYTES = 64 * 1024

BATCHES = 4
"""So many batches fill the limit: while one is answered, others are under way."""

RATE_OVER_S = 0.5
"""Answers of so much time make a rate: they come in bursts."""

RATES_OF_S = 10.0
"""Time of which the highest rate counts: links change."""

LEAST_PATIENCE_S = 5.0
"""An answer may take so long on any link: a server that restarts needs seconds."""

PROBE_EVERY_S = 10.0
"""So often a batch travels alone, to measure the link without a queue. It costs some percent of the link."""


@dataclass(frozen=True)
class Flight:
    """A batch under way."""

    size: int
    sent_at: float
    is_alone: bool
    """Nothing else was under way: its time is that of the link."""
    is_full: bool
    """The limit was reached: then its rate says what the link carries."""


class LinkPace:
    """The limit of bytes under way to one destination."""

    def __init__(self) -> None:
        self._under_way = 0
        self._answers: deque[tuple[float, int]] = deque()
        self._rates: deque[tuple[float, float]] = deque()
        self._length_s = 0.0
        self._probed_at = float("-inf")

    @property
    def limit(self) -> int:
        """Return the bytes that may be under way."""
        if not self._rates:
            return FIRST_BYTES
        wanted = self._rate * (self._length_s + QUEUE_S)
        return int(min(max(wanted, LEAST_BYTES), MOST_BYTES))

    @property
    def patience_s(self) -> float:
        """Return the time after which an answer is overdue."""
        return max(LEAST_PATIENCE_S, 4 * (self._length_s + QUEUE_S))

    @property
    def _rate(self) -> float:
        return max((rate for _, rate in self._rates), default=0.0)

    @property
    def batch(self) -> int:
        """Return the bytes of one batch."""
        return self.limit // BATCHES

    def has_room(self, at: float) -> bool:
        """Tell if a batch may be sent now."""
        if at - self._probed_at > PROBE_EVERY_S:
            return self._under_way == 0
        return self._under_way + self.batch <= self.limit

    def sent(self, size: int, at: float) -> Flight:
        """Note that a batch leaves, and return it."""
        is_alone = self._under_way == 0
        self._under_way += size
        is_full = self._under_way + self.batch > self.limit
        return Flight(size, at, is_alone, is_full)

    def lost(self, flight: Flight) -> None:
        """Note that a batch did not arrive."""
        self._under_way -= flight.size

    def answered(self, flight: Flight, at: float) -> None:
        """Note that a batch has arrived."""
        self._under_way -= flight.size
        took_s = max(at - flight.sent_at, 1e-4)
        if flight.is_alone:
            self._length_s, self._probed_at = took_s, at
        self._length_s = min(self._length_s, took_s)
        over_s = max(RATE_OVER_S, 2 * self._length_s)
        self._answers.append((at, flight.size))
        while self._answers[0][0] <= at - over_s:
            self._answers.popleft()
        rate = sum(size for _, size in self._answers) / over_s
        if flight.is_full or rate > self._rate:
            self._rates.append((at, rate))
        while len(self._rates) > 1 and self._rates[0][0] < at - RATES_OF_S:
            self._rates.popleft()
