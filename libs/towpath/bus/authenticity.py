"""Who speaks is told by a message's subject, which the servers check, and never by its body.

A user can bring a message before a receiver that listens to another subject: a consumer of JetStream delivers
what is stored to the subject that its maker names, and the servers check no permission for that. What arrives
so still bears the subject under which it was stored. So each receiver compares the subject of a message with
the one that its body asks for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import nats.errors

from towpath.contracts.events import SecurityRefused
from towpath.contracts.message import Message

log = logging.getLogger(__name__)

MessageT = TypeVar("MessageT", bound=Message)

TELL_EVERY_S = 10.0
"""Between two events about one subject: a flood of forged messages must not become one of events."""

MOST_TOLD = 50
"""Subjects that one receiver tells of within that time, because someone may make subjects up."""


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
    """Tells the mesh of what a process refused for its security, and counts what it does not tell."""

    def __init__(
        self,
        by: str,
        publish: Callable[[SecurityRefused], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._by = by
        self._publish = publish
        self._clock = clock
        self._told: dict[tuple[str, str, str], float] = {}
        """Kind, subject and who → when an event told of it, the oldest first."""
        self._untold = 0

    async def tell(
        self, kind: str, came_under: str, *, belongs_to: str | None = None, who: str = "", why: str = ""
    ) -> None:
        """Publish a `SecurityRefused`, unless a like one is too recent.

        A failure is logged only: what was refused stays so.
        """
        now = self._clock()
        self._untold += 1
        while self._told and now - next(iter(self._told.values())) >= TELL_EVERY_S:
            del self._told[next(iter(self._told))]
        if (kind, came_under, who) in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told[kind, came_under, who] = now
        times, self._untold = self._untold, 0
        log.warning("refused %d: %s under %s, from %s: %s", times, kind, came_under, who or "unknown", why)
        event = SecurityRefused(
            by=self._by,
            kind=kind,
            came_under=came_under,
            belongs_to=belongs_to,
            who=who,
            why=why,
            times=times,
        )
        try:
            await self._publish(event)
        except (nats.errors.Error, OSError) as error:
            log.warning("the mesh could not be told: %s", error)
