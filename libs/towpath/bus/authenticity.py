"""Who speaks is told by a message's subject, which the servers check, and never by its body.

A user can bring a message before a receiver that listens to another subject: a consumer of JetStream delivers
what is stored to the subject that its maker names, and the servers check no permission for that. What arrives
so still bears the subject under which it was stored. So each receiver compares the subject of a message with
the one that its body asks for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from towpath.contracts.events import SecurityRefused
from towpath.contracts.message import Message

log = logging.getLogger(__name__)

MessageT = TypeVar("MessageT", bound=Message)

TELL_EVERY_S = 10.0
"""Between two events of one receiver: a flood of forged messages must not become one of events."""


class ForeignSubject(Exception):
    """Raised for a message that came under a subject that is not its own."""

    def __init__(self, kind: type[Message], came_under: str, belongs_to: str | None) -> None:
        super().__init__(f"{kind.__name__} came under {came_under}, and belongs to {belongs_to or 'none'}")
        self.kind = kind
        self.came_under = came_under
        self.belongs_to = belongs_to


def authentic(kind: type[MessageT], subject: str, body: bytes) -> MessageT:
    """Return the message in a body that came under a subject.

    Raises `ForeignSubject` when the subject is not the message's own, and `pydantic.ValidationError`.
    """
    pattern, tokens = kind.wildcard().split("."), subject.split(".")
    if len(pattern) != len(tokens) or any(p not in ("*", t) for p, t in zip(pattern, tokens, strict=True)):
        raise ForeignSubject(kind, subject, None)
    message = kind.from_bytes(body)
    if message.to_subject() != subject:
        raise ForeignSubject(kind, subject, message.to_subject())
    return message


class Refusals:
    """Counts the foreign messages that a connection dropped, and says when to tell of them."""

    def __init__(self, by: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._by = by
        self._clock = clock
        self._told_at = float("-inf")
        self._untold = 0

    def event(self, refusal: ForeignSubject) -> SecurityRefused | None:
        """Return the event to publish, or None as long as the last one is too recent."""
        self._untold += 1
        if self._clock() - self._told_at < TELL_EVERY_S:
            return None
        log.warning("dropped %d: %s", self._untold, refusal)
        self._told_at, times, self._untold = self._clock(), self._untold, 0
        return SecurityRefused(
            by=self._by,
            kind=refusal.kind.__name__,
            came_under=refusal.came_under,
            belongs_to=refusal.belongs_to,
            times=times,
        )
