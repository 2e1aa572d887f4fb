"""Read the EVENTS stream for one client: in order, each event once, from any serial number on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from towpath.bus import event_body
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import EVENTS_STREAM, EVENTS_WILDCARD
from towpath.contracts.message import new_identifier
from towpath.tasks import check_cancelled

PAGE = 100
"""Events read at a time while they are small."""

PAGE_BYTES = 512 * 1024
"""Bytes read at a time if events are large: the memory that the slowest client takes."""

REQUEST_S = 5.0
"""Deadline for the hub's answer."""

CLOSE_S = 0.5
"""Deadline for the hub to forget a reader. It does so by itself later."""

FORGET_S = 60.0
"""The hub forgets a reader that asks for nothing for this long, for example after this process was killed.

A slow client's reader is then created again at its last serial number."""

AGAIN_S = 0.5
"""Pause before a reader is created again."""


@dataclass(frozen=True)
class KeptEvent:
    """An event as the stream holds it."""

    serial: int
    subject: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class KeptRange:
    """Serial numbers that the stream holds."""

    first: int
    last: int


async def span(connection: Client) -> KeptRange:
    """Return the oldest and the newest serial number in the stream. Raises `TowpathError`."""
    try:
        state = (await connection.jetstream(timeout=REQUEST_S).stream_info(EVENTS_STREAM)).state
    except (nats.errors.Error, OSError) as error:
        raise TowpathError(ErrorCode.UNREACHABLE, f"the hub's events cannot be read: {error!r}") from error
    return KeptRange(state.first_seq, state.last_seq)


class KeptEventReader:
    """Reads on when asked to, and holds no more than a page. The caller must close it."""

    def __init__(self, connection: Client, *, after: int, subject: str | None) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=REQUEST_S)
        self.last = after
        """Serial number of the newest event read."""
        self._filter = _filter(subject)
        self._name = ""
        """Name of the hub's reader."""
        self._reading: JetStreamContext.PullSubscription | None = None
        self._pending: int | None = None
        """Events that the hub still has for this reader. None when that is not known."""
        self._delivered = 0
        """Messages that the hub has sent to this reader. A gap in their count is a loss on the way."""

    async def page(self, *, within_s: float, follow: bool = True) -> list[KeptEvent]:
        """Return the next events.

        What is stored there and is no event is left out. None are returned if nothing comes within
        `within_s` seconds, or if there is nothing more now and `follow` is false. While the hub is away,
        nothing comes; without `follow`, that raises `TimeoutError`.
        """
        end = asyncio.get_running_loop().time() + within_s
        while (left := end - asyncio.get_running_loop().time()) > 0:
            check_cancelled()
            try:
                reading = self._reading or await self._read_from(self.last + 1)
                if not follow and self._pending == 0:
                    return []
                if events := self._in_order(await self._fetch(reading, left)):
                    return events
            except (nats.errors.TimeoutError, TimeoutError):
                continue
            except (nats.errors.Error, _Gap, OSError):
                await self.aclose()
                await asyncio.sleep(min(AGAIN_S, max(left, 0)))
        if not follow:
            raise TimeoutError("the hub does not say if there are more events")
        return []

    async def _fetch(self, reading: JetStreamContext.PullSubscription, within_s: float) -> list[Msg]:
        messages = await reading.fetch(1, timeout=within_s)
        waiting = messages[0].metadata.num_pending
        if waiting:
            with contextlib.suppress(nats.errors.TimeoutError, TimeoutError):
                alike = PAGE_BYTES // max(1, len(messages[0].data))
                messages += await reading.fetch(max(1, min(waiting, PAGE, alike)), timeout=REQUEST_S)
        return messages

    async def _read_from(self, serial: int) -> JetStreamContext.PullSubscription:
        name = new_identifier()
        made = await self._jetstream.add_consumer(
            EVENTS_STREAM,
            ConsumerConfig(
                name=name,
                filter_subject=self._filter,
                ack_policy=AckPolicy.NONE,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=serial,
                inactive_threshold=FORGET_S,
                mem_storage=True,
            ),
        )
        self._name, self._pending = name, made.num_pending
        self._reading = await self._jetstream.pull_subscribe_bind(consumer=name, stream=EVENTS_STREAM)
        self._delivered = 0
        return self._reading

    def _in_order(self, messages: list[Msg]) -> list[KeptEvent]:
        events: list[KeptEvent] = []
        for number, message in enumerate(messages):
            sequence = message.metadata.sequence
            if sequence.consumer != self._delivered + 1:
                if number:
                    break
                raise _Gap
            self._delivered, self.last = sequence.consumer, sequence.stream
            self._pending = message.metadata.num_pending
            if (body := event_body(message.data)) is not None:
                events.append(KeptEvent(sequence.stream, message.subject, body))
        return events

    async def aclose(self) -> None:
        """Make the hub forget the reader."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        with contextlib.suppress(nats.errors.Error, TimeoutError, OSError):
            async with asyncio.timeout(CLOSE_S):
                await reading.unsubscribe()
                await self._jetstream.delete_consumer(EVENTS_STREAM, self._name)


class _Gap(Exception):
    """Messages were lost between the hub and this process."""


def _filter(subject: str | None) -> str:
    """Return the NATS subject of `EventsQuery.subject`. A short one stands for all that begin with it."""
    if subject is None:
        return EVENTS_WILDCARD
    whole = EVENTS_WILDCARD.removesuffix(">") + subject
    return whole if subject.count(".") == 2 else f"{whole}.>"
