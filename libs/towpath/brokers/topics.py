"""Which topics of a broker the IN stream can hold."""

from __future__ import annotations

import logging
import re

from towpath.contracts.data_plane import DEVICE_PREFIX, device_subject

log = logging.getLogger(__name__)

_STORABLE = re.compile(rf"{re.escape(DEVICE_PREFIX)}[^\s./*>\x00]+(/[^\s./*>\x00]+)*")
_LONGEST = 1000
"""Characters; nats-server takes lines of 4,096 bytes."""
_NAMED = 1000
"""Topics that are named in the log; more than these are only counted."""


def storable_subject(topic: str) -> str | None:
    """The subject of a device topic in IN. None for a topic outside `site/`, or one with dots, white space,
    wildcards or empty levels: NATS has no name for it."""
    if len(topic) > _LONGEST or _STORABLE.fullmatch(topic) is None:
        return None
    return device_subject(topic)


class RefusedTopics:
    """Counts what cannot be stored, and says so once for each topic."""

    def __init__(self) -> None:
        self.count = 0
        """Messages that were passed over."""
        self._named: set[str] = set()

    def add(self, topic: str, why: str) -> None:
        """Count one message."""
        self.count += 1
        if topic not in self._named and len(self._named) < _NAMED:
            self._named.add(topic)
            log.warning("events of topic %r are not stored: %s", topic[:200], why)
