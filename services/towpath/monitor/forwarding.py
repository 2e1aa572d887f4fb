"""Forward results from the shadow stream to the output, under the monitor's own epoch.

Ids and micro-batch labels stay the same. So two monitors at once do no harm, and an engine finds what it
has published. A stream remembers ids for minutes only. So the ids that an earlier monitor has forwarded are
read back from the output itself.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from nats.aio.client import Client

from towpath.contracts.data_plane import (
    STORED_AT_HEADER,
    batch_of,
    rejected_stream,
    rejected_subject,
    sink_subject,
)
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.monitor import Watch
from towpath.streams.failures import Unpublished
from towpath.streams.follower import Follower
from towpath.streams.pages import StoredMessage, last_serial, pages_before
from towpath.streams.publisher import Outgoing, PublisherBeside

PATIENCE_S = 5.0
"""Deadline for one attempt to store a batch. A batch that is not stored stays first in the queue."""

SLACK = timedelta(seconds=10)
"""Time before the shadow's first message from which rejected events are looked for.

One micro-batch may have begun in the output and ended in the shadow."""


class Forwarding:
    """A queue before the output. Messages leave it in order, each after it is stored."""

    def __init__(self, connection: Client, watch: Watch, interim: int) -> None:
        self._connection = connection
        self._site = watch.output.site
        self._output = watch.output.stream
        self._output_serial = watch.output_serial
        self._rejected = rejected_stream(watch.output.stream)
        self._sink = sink_subject(self._site, HUB_SCOPE, watch.job, interim)
        self._reject = rejected_subject(self._site, HUB_SCOPE, watch.job, interim)
        self._publisher = PublisherBeside(connection, f"forward-{watch.job}", patience_s=PATIENCE_S)
        self._queue: deque[tuple[str, StoredMessage]] = deque()
        """Stream → message to store there."""
        self._known: set[str] | None = None
        """Ids that the output held when they were read back; None: they must be read."""

    def add(self, messages: Iterable[StoredMessage], *, rejected: bool = False) -> None:
        """Forward these messages next."""
        stream = self._rejected if rejected else self._output
        self._queue += ((stream, message) for message in messages)

    async def flush(self) -> None:
        """Store all waiting messages.

        Raises `Fenced` when the output no longer belongs to the monitor. Raises `TimeoutError` or
        `Unpublished` when it cannot be reached. The rest then waits for the next call.
        """
        if not self._queue:
            return
        if self._known is None:
            self._known = await self._read_back(_stored_at(self._queue[0][1]) - SLACK)
        while self._queue:
            stream, label = place = self._place(self._queue[0])
            run = itertools.takewhile(partial(self._is_at, place), self._queue)
            messages = [message for _, message in run]
            try:
                await self._store(stream, label, messages)
            except (TimeoutError, Unpublished):
                # Some may be stored. By the next call the stream may have forgotten their ids.
                self._known = None
                raise
            for _ in messages:
                self._queue.popleft()

    @staticmethod
    def _place(entry: tuple[str, StoredMessage]) -> tuple[str, str]:
        """Return stream and micro-batch."""
        stream, message = entry
        return stream, batch_of(message.headers)

    @classmethod
    def _is_at(cls, place: tuple[str, str], entry: tuple[str, StoredMessage]) -> bool:
        return cls._place(entry) == place

    async def _store(self, stream: str, label: str, messages: list[StoredMessage]) -> None:
        subject = self._sink if stream == self._output else self._reject
        known = self._known or set()
        fresh = [m for m in messages if m.identity not in known]
        if fresh:
            outgoing = [Outgoing(subject, m.identity, m.body) for m in fresh]
            await self._publisher.publish(outgoing, site=self._site, stream=stream, batch=label)

    async def close(self) -> None:
        """Close the connection that forwards."""
        await self._publisher.close()

    def is_level(self) -> None:
        """Note that all of the shadow was read: no other monitor has forwarded what comes from now on."""
        if self._known is not None:
            self._known = set()

    async def _read_back(self, since: datetime) -> set[str]:
        known: set[str] = set()
        output = Follower(self._connection, self._site, self._output, after=self._output_serial)
        while not output.at_end:
            known |= {message.identity for message in await output.read()}
        return known | await self._rejected_since(since)

    async def _rejected_since(self, since: datetime) -> set[str]:
        """Read backwards, because the serial number at which the shadow began is not known."""
        known: set[str] = set()
        last = await last_serial(self._connection, self._site, self._rejected)
        async for messages in pages_before(self._connection, self._site, self._rejected, last):
            recent = [message for message in messages if _stored_at(message) >= since]
            known |= {message.identity for message in recent}
            if len(recent) < len(messages):
                break
        return known


def _stored_at(message: StoredMessage) -> datetime:
    return datetime.fromisoformat(message.headers[STORED_AT_HEADER])
