"""Topics of a broker that the IN stream can hold."""

from __future__ import annotations

import logging
import re

from towpath.contracts.data_plane import DEVICE_PREFIX, device_subject

log = logging.getLogger(__name__)

_STORABLE = re.compile(rf"{re.escape(DEVICE_PREFIX)}[^\s./*>\x00]+(/[^\s./*>\x00]+)*")
_LONGEST = 1000
"""Most characters of a topic. nats-server takes lines of 4,096 bytes."""
_NAMED = 1000
"""Topics that the log names. Further ones are only counted."""


def storable_subject(topic: str) -> str | None:
    """Return the subject of a device topic in IN, or None if NATS has no name for it.

    It has none for a topic outside `site/`, or one with dots, white space, wildcards or empty levels.
    """
    if len(topic) > _LONGEST or _STORABLE.fullmatch(topic) is None:
        return None
    return device_subject(topic)


class RefusedTopics:
    """Counts messages that cannot be stored, and logs each topic once."""

    def __init__(self) -> None:
        self.count = 0
        """Messages that were left out."""
        self._named: set[str] = set()

    def add(self, topic: str, why: str) -> None:
        """Count one message."""
        self.count += 1
        if topic not in self._named and len(self._named) < _NAMED:
            self._named.add(topic)
            log.warning("events of topic %r are not stored: %s", topic[:200], why)
