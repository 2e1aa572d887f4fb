"""Events that were gone before their job read them. A job that goes on names them as one rejected event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from towpath.streams.failures import EventsLost
from towpath.streams.passing import ChangedMessage


@dataclass(frozen=True)
class LostEvents(ChangedMessage):
    """A gap in a stream. It stands where its last event stood."""

    reason: str = ""

    @classmethod
    def of(cls, lost: EventsLost, through: int) -> LostEvents:
        """Return the gap of an error, as far as a reader's range goes."""
        last = min(lost.last, through)
        told = {"lost": {"first": lost.first, "last": last, "events": last - lost.first + 1}}
        reason = f"events {lost.first} to {last} of {lost.stream} were gone before they were read"
        return cls(last, "", datetime.now(UTC), json.dumps(told).encode(), reason=reason)
