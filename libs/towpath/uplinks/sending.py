"""Store batches at a destination: each whole or not at all, and only where its sender thinks it is.

A batch says which serial number the stream must have before it (nats-server's atomic batches). So one that is
repeated, or comes late, or from a second sender, is refused, and so are all that were sent after one that was
lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from towpath.contracts.data_plane import EXPECTED_LAST_HEADER, NO_RESPONDERS
from towpath.contracts.message import new_identifier

_BATCH, _NUMBER, _COMMIT = "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"

FRAME_BYTES = 110
"""Headers of a batch that each message bears, and the protocol's own."""


class BatchRefused(Exception):
    """The destination did not take a batch: its stream is not where the sender thinks it is."""


@dataclass(frozen=True)
class BatchMessage:
    """One message to store."""

    subject: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def size(self) -> int:
        """Return its bytes on the link, about."""
        headers = sum(len(name) + len(value) + 4 for name, value in self.headers.items())
        return len(self.subject) + headers + len(self.body) + FRAME_BYTES


@dataclass
class UnderWay:
    """A batch that was sent."""

    answer: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    answered_at: float = 0.0


class BatchSender:
    """Sends batches over one connection, in order."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._inbox = connection.new_inbox()
        self._subscription: Subscription | None = None
        self._under_way: dict[str, UnderWay] = {}

    async def open(self) -> None:
        """Listen to answers."""
        self._subscription = await self._connection.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    async def close(self) -> None:
        """Listen no longer."""
        if self._subscription is not None and not self._connection.is_closed:
            await self._subscription.unsubscribe()
        for batch in self._under_way.values():
            batch.answer.cancel()

    async def send(self, messages: Sequence[BatchMessage], expected: int) -> UnderWay:
        """Send a batch that follows serial number `expected` of its stream. Its answer comes later."""
        identity = new_identifier()
        batch = UnderWay()
        self._under_way[identity] = batch
        for number, message in enumerate(messages, 1):
            headers = {**message.headers, _BATCH: identity, _NUMBER: str(number)}
            if number == 1:
                headers[EXPECTED_LAST_HEADER] = str(expected)
            is_last = number == len(messages)
            if is_last:
                headers[_COMMIT] = "1"
            reply = f"{self._inbox}.{identity}" if is_last else ""
            await self._connection.publish(message.subject, message.body, reply=reply, headers=headers)
        return batch

    async def _on_answer(self, message: Msg) -> None:
        batch = self._under_way.pop(message.subject.rsplit(".", 1)[1], None)
        if batch is None or batch.answer.done():
            return
        batch.answered_at = time.monotonic()
        if (message.headers or {}).get("Status") == NO_RESPONDERS:
            batch.answer.set_exception(TimeoutError("no link, or no stream there"))
        elif "error" in (answer := orjson.loads(message.data)):
            batch.answer.set_exception(BatchRefused(answer["error"].get("description", "refused")))
        else:
            batch.answer.set_result(None)
        if batch.answer.exception() is not None:
            return  # Retrieved, so that asyncio does not warn if no one waits for it.
