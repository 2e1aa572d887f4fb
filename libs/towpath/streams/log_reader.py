"""Blocking reads of a stream by serial number, for Spark's Python workers and the engine's planners.

A worker is a plain synchronous process, and planners are threads of one process. Each process keeps one
connection, and one consumer for each stream, between micro-batches. Fetching goes through natsrpy, whose
Rust side parses messages several times faster than Python can.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from natsrpy import Nats
from natsrpy.js import AckPolicy, DeliverPolicy, JetStreamMessage, PullConsumer, PullConsumerConfig

from towpath.contracts.data_plane import inbox_prefix, storing_times
from towpath.streams.failures import EventsLost
from towpath.streams.stream_view import StreamView, parse_view

T = TypeVar("T")

FETCH_MESSAGES = 10_000
"""Messages per fetch: 1–2 MB of ordinary events, so a slow reader cannot hold much memory."""

PATIENCE_S = 30.0
"""Time that a read waits for a broker out of reach. A broker restarts in about a second."""

CONSUMER_IDLE_S = 120
"""Time without a fetch after which the server drops an abandoned consumer by itself."""

FRESH_S = 0.005
"""Greatest age of what is known of a stream. Jobs that read the same stream often ask for it at the same
moment: one question to the broker serves all."""

ANSWER_S = 5.0
"""Deadline of one request. A thread that asks gives up a little later than the request does."""

CLOSE_S = 2.0
"""Time for a connection to end whose password is no longer valid."""


@dataclass(frozen=True)
class Access:
    """Address of the site's broker. The password stays in its file, out of query plans and logs."""

    url: str
    credentials_file: str

    def credentials(self) -> tuple[str, str]:
        """Return user and password."""
        content = json.loads(Path(self.credentials_file).read_text())
        return content["user"], content["password"]


@dataclass(frozen=True)
class _Asked:
    """A stream, as asked for at a time of the monotonic clock."""

    asked_at: float
    answer: asyncio.Task[StreamView]

    def is_over(self, fresh_s: float) -> bool:
        """Tell if the answer failed, or is older than `fresh_s` seconds: then ask again."""
        if not self.answer.done():
            return False
        return self.answer.exception() is not None or time.monotonic() - self.asked_at > fresh_s


@dataclass
class LogReader:
    """Reads streams of one broker. Any number of threads may call it; none waits for another's request."""

    access: Access
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _connection: Nats | None = None
    _login: tuple[str, str] | None = None
    """User and password of the connection."""
    _views: dict[str, _Asked] = field(default_factory=dict)
    _consumers: dict[str, tuple[PullConsumer, int]] = field(default_factory=dict)
    """Stream → its consumer and the serial number the consumer delivers next."""

    def __post_init__(self) -> None:
        # Callers are threads of Spark or of a planner: the connection needs its own.
        threading.Thread(target=self._loop.run_forever, name="log reader", daemon=True).start()

    def view(self, stream: str, fresh_s: float = FRESH_S) -> StreamView:
        """Return the stream as it was at most `fresh_s` seconds ago."""
        return self._patiently(lambda: self._shared_view(stream, fresh_s))

    def storing_times(self, stream: str, serial: int) -> list[str]:
        """Return when a message was stored, as servers write it: here, and at a site that the stream has
        outlived. Empty if it is not kept."""
        return self._patiently(lambda: self._times_of(stream, serial))

    async def _times_of(self, stream: str, serial: int) -> list[str]:
        connection = await self._connected()
        request = json.dumps({"seq": serial}).encode()
        answer = await connection.request(f"$JS.API.DIRECT.GET.{stream}", request, timeout=ANSWER_S)
        return storing_times({name: str(value) for name, value in (answer.headers or {}).items()})

    async def _shared_view(self, stream: str, fresh_s: float) -> StreamView:
        known = self._views.get(stream)
        if known is None or known.is_over(fresh_s):
            known = _Asked(time.monotonic(), asyncio.create_task(self._ask(stream)))
            self._views[stream] = known
        return await asyncio.shield(known.answer)

    async def _ask(self, stream: str) -> StreamView:
        connection = await self._connected()
        answer = await connection.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=ANSWER_S)
        view = parse_view(answer.payload)
        if view is None:
            raise LookupError(f"stream {stream}: stream not found")
        return view

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
        """Return the serial number reached. Streams are never edited in the middle, so a gap is a loss."""
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
        messages = await consumer.fetch(max_messages=count, expires=2.0, timeout=ANSWER_S)
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
        async with self._connecting:
            login = user, password = self.access.credentials()
            if self._connection is None or self._login != login:
                # It would not come back: it knows no other password than the one that it was made with.
                await self._closed()
                connection = Nats(
                    [self.access.url],
                    user_and_pass=(user, password),
                    custom_inbox_prefix=inbox_prefix(user),
                    connection_timeout=3,
                )
                await connection.startup()
                self._connection, self._login = connection, login
            return self._connection

    async def _closed(self) -> None:
        former, self._connection = self._connection, None
        self._consumers.clear()
        if former is not None:
            with contextlib.suppress(Exception):  # It may be closed already.
                await asyncio.wait_for(former.shutdown(), CLOSE_S)

    def _patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `attempt` until it succeeds or `PATIENCE_S` is over. `LookupError` is final."""
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
        """Run `work` on the connection's loop and return its result."""
        asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result(2 * ANSWER_S)
        except TimeoutError:
            asked.cancel()
            raise


_readers: dict[tuple[int, Access], LogReader] = {}
_making = threading.Lock()


def reader_for(access: Access) -> LogReader:
    """Return the process's one reader for a broker, kept between micro-batches (and not across a fork)."""
    key = (os.getpid(), access)
    with _making:
        if key not in _readers:
            _readers[key] = LogReader(access)
        return _readers[key]
