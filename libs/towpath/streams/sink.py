"""The sink of every job: publishes each micro-batch of results before Spark commits it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import time_ns
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client

from towpath.bus.connecting import FreshConnection, Login
from towpath.contracts.data_plane import (
    batch_label,
    rejected_stream,
    rejected_subject,
    sink_subject,
    stored_id,
)
from towpath.contracts.job import Assignment
from towpath.hooks.points import SINK_PUBLISH, Items
from towpath.streams.encoding import Message
from towpath.streams.failures import Fenced, Unpublished, without_history
from towpath.streams.pages import StoredMessage, page
from towpath.streams.published import published_since
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.tasks import NotInTime, until

log = logging.getLogger(__name__)

T = TypeVar("T")

STANDSTILL_S = 180.0
"""Time without a stored result. All that the publisher waits for has a shorter deadline, so only a bug
reaches it, and then a batch must fail, not hang."""

PENDING_BYTES = 256 * 1024**2
"""Bytes of a micro-batch's results that may wait to be sent."""

CONNECT_WITHIN_S = 10.0
"""Time to connect: a killed broker is back in about a second."""

CONNECT_AGAIN_S = 0.1
"""Pause between attempts."""

CLOSE_S = 2.0
LOOK_UP_S = 5.0
"""Time to fetch one event. Nothing else waits for it."""


class SinkConnection:
    """A NATS connection on a loop and thread of its own, so that publishing never delays commands."""

    def __init__(self, login: Login, site: str) -> None:
        self.site = site
        """The site that publishes over it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sink", daemon=True)
        self._fresh = FreshConnection(login, f"sink-{site}", pending_bytes=PENDING_BYTES)
        self._publisher = Publisher(self._connected)
        """One publisher for all jobs of the engine: it remembers which results go aside."""

    def start(self) -> None:
        """Start the thread. The connection is made when it is first needed."""
        self._thread.start()

    def close(self) -> None:
        """Close the connection and end the thread. Blocks. All publishing must have ended before."""

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._fresh.close(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)

    async def _connected(self) -> Client:
        """Return the connection; make a new one if it has ended. Raises `Unpublished`."""

        async def connected() -> Client | None:
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                return await self._fresh.get()

        try:
            return await until(connected, CONNECT_WITHIN_S, CONNECT_AGAIN_S)
        except NotInTime as error:
            raise Unpublished(f"the broker of {self.site} does not answer") from error

    def publish(self, messages: list[Outgoing], *, site: str, stream: str, batch: str) -> int:
        """Store messages; blocks. Return the number of new ones. Raises `Fenced` or `Unpublished`."""
        stored = before = 0

        def on_stored() -> None:
            nonlocal stored
            stored += 1

        publishing = self._start(
            self._publisher.publish(messages, site=site, stream=stream, batch=batch, on_stored=on_stored)
        )
        while not concurrent.futures.wait([publishing], STANDSTILL_S).done:
            if stored == before:
                publishing.cancel()
                raise Unpublished(f"{stored} of {len(messages)} results stored, and no more came")
            before = stored
        return publishing.result()

    def life_of(self, *, site: str, stream: str) -> str:
        """See `stream_life`; blocks."""

        async def work() -> str:
            return await stream_life(await self._connected(), site, stream)

        return self._start(work()).result()

    def published_since(
        self, *, site: str, stream: str, job: str, epoch: int, generation: int, batch: int
    ) -> set[str]:
        """See `published_since`; blocks. Raises `Unpublished` when the site does not answer."""

        async def work() -> set[str]:
            client = await self._connected()
            return await published_since(
                client, site=site, stream=stream, generation=generation, batch=batch, job=job, epoch=epoch
            )

        try:
            return self._start(work()).result()
        except (nats.errors.Error, TimeoutError) as error:
            raise Unpublished(f"{stream} at {site} cannot be read back: {error}") from error

    def look_up(self, stream: str, serial: int) -> Future[StoredMessage | None]:
        """Look up a message of one of the site's own streams or mirrors; None if it is not kept.

        Does not block.
        """

        async def work() -> StoredMessage | None:
            async with asyncio.timeout(LOOK_UP_S):
                client = await self._connected()
                found = await page(client, self.site, stream, serial, 1)
            return next((message for message in found if message.serial == serial), None)

        return self._start(work())

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run work on the connection's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


@dataclass(frozen=True)
class StoredBatch:
    """A micro-batch's results, all of them stored now and none before."""

    batch: int
    results: Sequence[Outgoing]
    """At least one."""
    begun_ns: int
    """Beginning of their publishing, Unix nanoseconds."""
    ended_ns: int
    """Acknowledgement of the last one, Unix nanoseconds."""


@dataclass
class JobSink:
    """Publishes the micro-batches of one job, run after run."""

    connection: SinkConnection
    assignment: Assignment
    results: int = 0
    """Results newly stored, in all runs."""
    rejected: int = 0
    on_stored: Callable[[StoredBatch], None] | None = None
    """Called with each micro-batch that has new results."""
    _known: dict[str, set[str]] = field(default_factory=dict)
    """Stream → ids stored before, which the first micro-batches of this run may repeat: ids of its own, or of
    another site before a migration was rolled back."""
    _lives: dict[str, str] = field(default_factory=dict)
    """Stream → the beginning of its message ids."""

    def begin(self) -> None:
        """Forget what an earlier run knew of the streams: what it failed to publish may be stored."""
        self._known.clear()
        self._lives.clear()

    def __call__(
        self,
        results: Sequence[Message],
        rejected: Sequence[Message],
        batch: int,
        punctuation: Message | None = None,
    ) -> None:
        """Publish one micro-batch. Spark commits it when this returns.

        A `punctuation` is published when all results are stored.
        """
        try:
            self._publish(results, rejected, batch)
            if punctuation is not None:
                self._store(batch, self.assignment.output.stream, [self._outgoing(punctuation)])
        except (Fenced, Unpublished) as error:
            raise without_history(error) from None

    def _publish(self, results: Sequence[Message], rejected: Sequence[Message], batch: int) -> None:
        output, epoch = self.assignment.output, self.assignment.epoch
        job = self.assignment.spec.name
        reject = rejected_subject(output.site, self.connection.site, job, epoch)
        # Rejected events first: anyone who sees a result may rely on the rejections before it.
        bad = [Outgoing(reject, message.identity, message.body) for message in rejected]
        self.rejected += self._store(batch, rejected_stream(output.stream), bad)
        good = [self._outgoing(message) for message in results]
        if SINK_PUBLISH.rules:
            good = [*SINK_PUBLISH.through(good, RESULTS, job=job, topic=output.topic)]
        begun_ns = time_ns()
        new = self._store(batch, output.stream, good)
        self.results += new
        # If some were stored before, this is a repetition, and the time of the first storing is not known.
        if self.on_stored is not None and 0 < new == len(good):
            self.on_stored(StoredBatch(batch, good, begun_ns, time_ns()))

    def _outgoing(self, result: Message) -> Outgoing:
        output, job, epoch = self.assignment.output, self.assignment.spec.name, self.assignment.epoch
        subject = sink_subject(output.site, self.connection.site, job, epoch)
        return Outgoing(subject, result.identity, result.body)

    def _store(self, batch: int, stream: str, messages: list[Outgoing]) -> int:
        if not messages:
            return 0
        if stream not in self._lives:
            self._lives[stream] = self.connection.life_of(site=self.assignment.output.site, stream=stream)
        life = self._lives[stream]
        named = [Outgoing(m.subject, stored_id(life, m.identity), m.body) for m in messages]
        known = self._stored_before(batch, stream)
        fresh = [m for m in named if m.identity not in known] if known else named
        if len(fresh) == len(named):
            known.clear()  # This micro-batch comes after all that may be repetitions.
        if not fresh:
            return 0
        label = batch_label(self.assignment.generation, batch)
        return self.connection.publish(fresh, site=self.assignment.output.site, stream=stream, batch=label)

    def _stored_before(self, batch: int, stream: str) -> set[str]:
        if stream not in self._known:
            self._known[stream] = self.connection.published_since(
                site=self.assignment.output.site,
                stream=stream,
                job=self.assignment.spec.name,
                epoch=self.assignment.epoch,
                generation=self.assignment.generation,
                batch=batch,
            )
        return self._known[stream]


def _fields(result: Outgoing) -> Mapping[str, Any]:
    return {"serial": json.loads(result.body).get("serial")}


RESULTS: Items[Outgoing] = Items(
    payload=lambda result: result.body,
    fields=_fields,
    with_payload=lambda result, body: result._replace(body=body),
)
"""Access of fault rules to results on their way out."""
