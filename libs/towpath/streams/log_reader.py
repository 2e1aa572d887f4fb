"""Blocking reads of a stream by serial number, for Spark's Python processes.

Spark's planner and workers are plain synchronous processes; each keeps one connection and one
consumer per stream between micro-batches. Fetching goes through natsrpy, whose Rust side parses
messages several times faster than Python can.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from natsrpy import Nats
from natsrpy.js import AckPolicy, DeliverPolicy, JetStreamMessage, PullConsumer, PullConsumerConfig

T = TypeVar("T")

FETCH_MESSAGES = 10_000
"""Messages per fetch: 1–2 MB of ordinary events, so a slow reader cannot hold much memory."""

PATIENCE_S = 30.0
"""How long a read waits for a broker that is away before it fails; it restarts in about a second."""

CONSUMER_IDLE_S = 120
"""After so long without a fetch the server drops an abandoned consumer by itself."""


class EventsLost(RuntimeError):
    """Serial numbers a job still had to read are no longer kept. The text is recognised by the engine."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        super().__init__(f"EventsLost: serials {first}..{last} of {stream} are no longer kept")


@dataclass(frozen=True)
class Access:
    """How to reach the site's broker. The password stays in its file, out of query plans and logs."""

    url: str
    credentials_file: str

    def credentials(self) -> tuple[str, str]:
        """User and password."""
        content = json.loads(Path(self.credentials_file).read_text())
        return content["user"], content["password"]


@dataclass
class LogReader:
    """Reads streams of one broker. Not for use from several threads."""

    access: Access
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _connection: Nats | None = None
    _consumers: dict[str, tuple[PullConsumer, int]] = field(default_factory=dict)
    """Stream → its consumer and the serial number the consumer delivers next."""

    def bounds(self, stream: str) -> tuple[int, int]:
        """First and last serial number kept. An empty stream gives (last + 1, last)."""

        async def ask() -> tuple[int, int]:
            connection = await self._connected()
            answer = await connection.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=5)
            body = json.loads(answer.payload)
            if "error" in body:
                raise LookupError(f"stream {stream}: {body['error'].get('description')}")
            state = body["state"]
            first, last = state["first_seq"], state["last_seq"]
            return (last + 1, last) if state["messages"] == 0 else (first, last)

        return self._patiently(ask)

    def read(self, stream: str, after: int, through: int) -> Iterator[list[JetStreamMessage]]:
        """Yield the messages `after < serial ≤ through`, in order and without gap.

        Raises `EventsLost` when one of them is no longer kept.
        """
        position = after
        while position < through:
            wanted = min(FETCH_MESSAGES, through - position)
            messages = self._patiently(lambda: self._fetch(stream, position + 1, wanted))  # noqa: B023
            position = self._checked(stream, position, messages)
            yield messages

    def _checked(self, stream: str, position: int, messages: list[JetStreamMessage]) -> int:
        """The serial number reached. Streams are never edited in the middle, so a gap is a loss."""
        for message in messages:
            if message.stream_sequence != position + 1:
                self._consumers.pop(stream, None)
                raise EventsLost(stream, position + 1, message.stream_sequence - 1)
            position += 1
        return position

    async def _fetch(self, stream: str, start: int, count: int) -> list[JetStreamMessage]:
        consumer, position = self._consumers.get(stream, (None, 0))
        if consumer is None or position != start:
            consumer = await self._consumer(stream, start)
        self._consumers.pop(stream, None)  # Kept only if the fetch succeeds: its position is then known.
        messages = await consumer.fetch(max_messages=count, expires=2.0, timeout=5.0)
        if not messages:
            raise TimeoutError(f"nothing from {stream} at {start}")
        self._consumers[stream] = (consumer, messages[-1].stream_sequence + 1)
        return messages

    async def _consumer(self, stream: str, start: int) -> PullConsumer:
        jetstream = await (await self._connected()).jetstream(timeout=5)
        handle = await jetstream.streams.get(stream)
        return await handle.consumers.create(
            PullConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                delivery_start_sequence=start,
                ack_policy=AckPolicy.NONE,
                inactive_threshold=CONSUMER_IDLE_S,
                memory_storage=True,
            )
        )

    async def _connected(self) -> Nats:
        if self._connection is None:
            user, password = self.access.credentials()
            connection = Nats(
                [self.access.url],
                user_and_pass=(user, password),
                custom_inbox_prefix=f"_INBOX.{user}",
                connection_timeout=3,
            )
            await connection.startup()
            self._connection = connection
        return self._connection

    def _patiently(self, attempt: Any) -> Any:
        """Run `attempt`, again after a pause while the broker is away. `LookupError` is final."""
        end = time.monotonic() + PATIENCE_S
        pause = 0.05
        while True:
            try:
                return self._run(attempt())
            except LookupError:
                raise
            except Exception as error:
                self._consumers.clear()
                if time.monotonic() + pause > end:
                    raise TimeoutError(f"broker does not answer: {error}") from error
                time.sleep(pause)
                pause = min(2 * pause, 1.0)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


_readers: dict[tuple[int, Access], LogReader] = {}


def reader_for(access: Access) -> LogReader:
    """The process's reader for a broker, kept between micro-batches (and not across a fork)."""
    return _readers.setdefault((os.getpid(), access), LogReader(access))
