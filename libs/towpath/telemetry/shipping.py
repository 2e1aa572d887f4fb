"""Send spans from a process over its own NATS connection to streams of the place where it runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from time import time_ns
from typing import Any, Protocol

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import StatusCode

from towpath.contracts.data_plane import MESSAGE_ID_HEADER
from towpath.contracts.traces import EventSpan, Span, SpanKind
from towpath.telemetry.tracing import determined_ids

log = logging.getLogger(__name__)

UNFINISHED = "towpath.unfinished"
"""Attribute of a span that had not ended when it was published.

The same span follows once it has ended. If it never does, its process was killed. So every span finds its
parent."""

SAMPLED_EVENT = "towpath.sampled_event"
"""Attribute of spans in a single event's trace. They are kept apart from those of commands."""

WAITING = 4096
"""Spans kept while the server is away: a minute of a busy process. Then the oldest are dropped."""

PAUSE_S = 0.02
"""Time to collect spans. Most end within it and are then published once instead of twice."""

AWAY_PAUSE_S = 0.5
"""Between looks at the connection while the server is away."""

FLUSH_S = 1.0
"""Time for the last spans of a process that ends."""


class SpanConnection(Protocol):
    """The part of a NATS connection that spans need. It is not the bus, which fault rules may disturb."""

    @property
    def is_connected(self) -> bool:
        """True if a message published now leaves at once."""
        ...

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None
    ) -> None:
        """Send a message."""
        ...

    async def flush(self, timeout: int = 10) -> None:
        """Return when the server has all published messages."""
        ...


class SpanShipper(SpanProcessor):
    """Takes the spans of a process, from any thread, and publishes them in the background.

    It does not wait for acknowledgements: a lost span is only a gap in a picture. By a span's message id the
    stream drops repetitions.
    """

    def __init__(self, service: str, site: str) -> None:
        self.service = service
        self.site = site
        self._waiting: OrderedDict[str, Span | ReadableSpan] = OrderedDict()
        """Span's id → the span. A span that ends while it waits is published as ended."""
        self._guard = threading.Lock()
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._dropped = 0

    def on_start(self, span: ReadableSpan, parent_context: Context | None = None) -> None:
        """Queue a span that has begun: its children may be published before it ends."""
        self._put(_id_of(span), span)

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        self._put(_id_of(span), span)

    def put(self, span: Span) -> None:
        """Publish a span that is complete as it is."""
        self._put(span.span, span)

    def _put(self, identifier: str, span: Span | ReadableSpan) -> None:
        with self._guard:
            self._waiting[identifier] = span
            if len(self._waiting) > WAITING:
                self._waiting.popitem(last=False)
                self._dropped += 1
            wake = self._wake
        if wake is not None:
            loop, event = wake
            # A loop that has ended ships no more, because the process is about to end.
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def ship(self, connection: SpanConnection) -> None:
        """Publish spans until cancelled, and then those that are left."""
        event = asyncio.Event()
        event.set()
        self._wake = (asyncio.get_running_loop(), event)
        try:
            while True:
                await event.wait()
                await asyncio.sleep(PAUSE_S if connection.is_connected else AWAY_PAUSE_S)
                if connection.is_connected:
                    event.clear()
                    await self._publish(connection)
        finally:
            self._wake = None
            await self.flush(connection)

    async def flush(self, connection: SpanConnection, within_s: float = FLUSH_S) -> None:
        """Publish waiting spans. Return when the server has them, or after `within_s` seconds."""
        if not self._waiting or not connection.is_connected:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._publish(connection)
                await connection.flush()
                await connection.flush()  # The ping of the first may have overtaken the spans.
        except Exception as error:
            log.info("the last spans were not published: %s: %s", type(error).__name__, error)

    async def _publish(self, connection: SpanConnection) -> None:
        for span in self._taken():
            try:
                await connection.publish(
                    span.to_subject(), span.to_bytes(), headers={MESSAGE_ID_HEADER: message_id(span)}
                )
            except Exception as error:
                # Whatever is wrong with a span or the connection, the work it describes goes on.
                log.info("a span was lost: %s: %s", type(error).__name__, error)

    def _taken(self) -> Iterator[Span]:
        with self._guard:
            taken, self._waiting = self._waiting, OrderedDict()
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("dropped %d spans: too many arose while the server was away", dropped)
        for span in taken.values():
            yield span if isinstance(span, Span) else self._message(span)

    def _message(self, span: ReadableSpan) -> Span:
        context, begun_ns = span.get_span_context(), span.start_time or 0
        assert context is not None
        attributes = {key: _plain(value) for key, value in (span.attributes or {}).items()}
        if span.end_time is None:
            attributes[UNFINISHED] = True
        failed = span.status.status_code is StatusCode.ERROR
        kind_of_span = EventSpan if SAMPLED_EVENT in attributes else Span
        return kind_of_span(
            trace=f"{context.trace_id:032x}",
            span=f"{context.span_id:016x}",
            parent=f"{span.parent.span_id:016x}" if span.parent else None,
            name=span.name,
            kind=SpanKind(span.kind.name.lower()),
            service=self.service,
            site=self.site,
            begun_ns=begun_ns,
            ended_ns=max(span.end_time or time_ns(), begun_ns),
            error=(span.status.description or "failed") if failed else None,
            attributes=attributes,
        )


class DeterminedIds(RandomIdGenerator):
    """Gives a span the ids in `determined_ids`, or random ones if there are none."""

    def generate_trace_id(self) -> int:
        """See `opentelemetry.sdk.trace.IdGenerator`."""
        ids = determined_ids.get()
        return super().generate_trace_id() if ids is None else int(ids[0], 16)

    def generate_span_id(self) -> int:
        """See `opentelemetry.sdk.trace.IdGenerator`."""
        ids = determined_ids.get()
        return super().generate_span_id() if ids is None else int(ids[1], 16)


def message_id(span: Span) -> str:
    """Return the id under which a span is published, so that a span published twice is kept once."""
    return f"{span.trace}/{span.span}" + ("/begun" if UNFINISHED in span.attributes else "")


def _id_of(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.span_id:016x}"


def _plain(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float | bool) else str(value)
