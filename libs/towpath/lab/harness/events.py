"""Synthetic events: numbered, with keys, a little out of order; the last one closes all windows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""Event time begins here."""

TIME_LAPSE = 2.0
"""Seconds of event time that pass in a second: windows close sooner, and recovery is seen sooner."""

WATERMARK_S = 3.0
"""Covers the disorder, and the events that a device sends again after its broker was killed."""

WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """One event, as a device sends it."""

    number: int
    key: str
    at: datetime
    value: float

    @property
    def payload(self) -> bytes:
        """The event as it is sent."""
        at = self.at.isoformat().replace("+00:00", "Z")
        return json.dumps({"n": self.number, "key": self.key, "at": at, "value": self.value}).encode()


@dataclass
class EventClock:
    """Numbers the events of one load and gives them their time."""

    number: int = 0
    """Of the newest event."""
    newest: datetime = BEGIN

    def event(self, age_s: float, key: str, value: float) -> NumberedEvent:
        """Return the next event, of `age_s` seconds after the load began."""
        at = BEGIN + timedelta(milliseconds=round(age_s * TIME_LAPSE * 1000))
        self.newest = max(self.newest, at)
        self.number += 1
        return NumberedEvent(self.number, key, at, value)

    def closing(self) -> NumberedEvent:
        """Return an event so late that every window of the events before it is over."""
        later = math.ceil(self.newest.timestamp() / WINDOW_S) * WINDOW_S + 2 * WINDOW_S + WATERMARK_S
        self.newest = datetime.fromtimestamp(later, UTC)
        self.number += 1
        return NumberedEvent(self.number, "closing", self.newest, 0.0)
