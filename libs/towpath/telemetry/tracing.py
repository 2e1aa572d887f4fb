"""Traces: the process's tracer, spans after the fact, and contexts that pass from one message to the next.

Spans are OpenTelemetry's, made with its SDK. A process loads the SDK when it starts tracing. Spans go to
streams of the place where the process runs (`towpath.telemetry.shipping`). If one of `OTLP_ENDPOINTS` is set,
they also go there, by OTLP over HTTP.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import context as contexts
from opentelemetry import trace as api
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from towpath.contracts.traces import EVENT_SPANS_STREAM, SPANS_STREAM, EventSpan, Span, SpanKind

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from towpath.telemetry.shipping import SpanShipper

log = logging.getLogger(__name__)

OTLP_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of OpenTelemetry that name another target of spans, for example `http://localhost:4318`.

The second holds for spans alone and names the whole path."""

KEEP_S = 7 * 24 * 3600
KEEP_BYTES = 64 * 1024**2
"""Size of each stream of spans."""
REPEATED_WITHIN_S = 120
"""A span recorded twice within this time is stored once. Later repetitions are recognised at reading."""

ENSURE_S = 5.0

Attributes = Mapping[str, str | int | float | bool]

_W3C = TraceContextTextMapPropagator()
_tracer = api.get_tracer("towpath")
determined_ids: ContextVar[tuple[str, str] | None] = ContextVar("determined_ids", default=None)
"""Trace and span that the span which is started now gets as its ids; None: random ones."""
_shipper: SpanShipper | None = None


def start_tracing(service: str, site: str) -> SpanShipper:
    """Make the process's tracer. The caller must give the returned shipper a connection.

    Further calls change nothing. `service` and `site` are as in `Span`. `hub` stands for processes beside the
    hub.
    """
    global _shipper
    if _shipper is None:
        from towpath.telemetry.shipping import SpanShipper

        _shipper = SpanShipper(service, site)
        api.set_tracer_provider(provider_of(_shipper))
    return _shipper


def provider_of(shipper: SpanShipper) -> TracerProvider:
    """Return a tracer provider for the shipper, and for the OTLP endpoint if the environment names one."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

    from towpath.telemetry.shipping import DeterminedIds

    resource = Resource.create(
        {"service.namespace": "towpath", "service.name": shipper.service, "towpath.site": shipper.site}
    )
    provider = TracerProvider(sampler=ParentBased(ALWAYS_ON), resource=resource, id_generator=DeterminedIds())
    provider.add_span_processor(shipper)
    if any(os.environ.get(name) for name in OTLP_ENDPOINTS):
        # Imported here because the import costs every command line a tenth of a second.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def trace_of(*parts: str) -> str:
    """Return the id of the trace about `parts`: 32 hexadecimal digits, always the same."""
    return _digest(parts)[:32]


def span_of(*parts: str) -> str:
    """Return the id of the span about `parts`: 16 hexadecimal digits, always the same."""
    return _digest(parts)[:16]


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def record(
    name: str,
    *,
    begun_ns: int,
    ended_ns: int,
    trace: str,
    span: str,
    parent: str | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes | None = None,
    error: str | None = None,
) -> None:
    """Record a span after the fact under given ids. Recorded again, by any process, it is the same span.

    Times are Unix nanoseconds. Without `start_tracing` nothing is recorded.
    """
    ids = determined_ids.set((trace, span))
    try:
        made = _tracer.start_span(
            name,
            context=_context_of(trace, parent),
            kind=api.SpanKind[kind.name],
            attributes=dict(attributes or {}),
            start_time=begun_ns,
        )
    finally:
        determined_ids.reset(ids)
    if error is not None:
        made.set_status(api.StatusCode.ERROR, error)
    made.end(max(begun_ns, ended_ns))


def record_begun(
    name: str,
    *,
    begun_ns: int,
    trace: str,
    span: str,
    parent: str | None = None,
    attributes: Attributes | None = None,
) -> None:
    """Record a span that has begun, so that its children have a parent. `record` adds its end later."""
    if _shipper is None:
        return
    from towpath.telemetry.shipping import UNFINISHED

    _shipper.put(
        Span(
            trace=trace,
            span=span,
            parent=parent,
            name=name,
            service=_shipper.service,
            site=_shipper.site,
            begun_ns=begun_ns,
            ended_ns=begun_ns,
            attributes={**(attributes or {}), UNFINISHED: True},
        )
    )


def _context_of(trace: str, span: str | None) -> contexts.Context:
    if span is None:
        return contexts.Context()
    return _W3C.extract({"traceparent": traceparent_of(trace, span)}, context=contexts.Context())


def traceparent_of(trace: str, span: str) -> str:
    """Return the W3C traceparent that names a span as the parent of what follows."""
    return f"00-{trace}-{span}-01"


def ids_of(traceparent: str) -> tuple[str, str] | None:
    """Return trace and span of a W3C traceparent. None if it is unreadable or says not to record."""
    return _recorded_ids(
        api.get_current_span(_W3C.extract({"traceparent": traceparent}, context=contexts.Context()))
    )


def current_ids() -> tuple[str, str] | None:
    """Return trace and span of the work under way. None outside of a recorded trace."""
    return _recorded_ids(api.get_current_span())


def _recorded_ids(span: api.Span) -> tuple[str, str] | None:
    context = span.get_span_context()
    if not (context.is_valid and context.trace_flags.sampled):
        return None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def traceparent() -> str | None:
    """Return the W3C traceparent of the current span. None outside of a recorded trace."""
    ids = current_ids()
    return traceparent_of(*ids) if ids is not None else None


def traceparent_to_send() -> str | None:
    """Return the W3C traceparent for a message sent now. It also passes on that spans are not wanted."""
    context = api.get_current_span().get_span_context()
    if context.is_valid and not context.trace_flags.sampled:
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-00"
    return traceparent()


def is_traced() -> bool:
    """True if the work under way belongs to a recorded trace."""
    return current_ids() is not None


@contextmanager
def continuing(traceparent: str | None) -> Iterator[None]:
    """Make work inside part of the given trace. None leaves it in its present one."""
    if traceparent is None:
        yield
        return
    with _attached(_W3C.extract({"traceparent": traceparent})):
        yield


@contextmanager
def untraced() -> Iterator[None]:
    """Keep work inside out of any trace: for loops that repeat requests on behalf of a traced one."""
    with _attached(api.set_span_in_context(api.INVALID_SPAN)):
        yield


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no spans of work inside, nor of work done elsewhere on its behalf.

    For changes that are repeated to keep things as they are.
    """
    context = api.SpanContext(
        random.getrandbits(128) or 1,  # 0 is no id
        random.getrandbits(64) or 1,
        is_remote=False,
        trace_flags=api.TraceFlags(0),
    )
    with _attached(api.set_span_in_context(api.NonRecordingSpan(context))):
        yield


@contextmanager
def _attached(context: contexts.Context) -> Iterator[None]:
    token = contexts.attach(context)
    try:
        yield
    finally:
        contexts.detach(token)


class Asking(Protocol):
    """The part of a NATS connection that creating a stream needs."""

    async def request(self, subject: str, payload: bytes = b"", timeout: float = 0.5) -> Any:
        """Send a request and return the answer's message."""
        ...


async def ensure_span_streams(connection: Asking, replicas: int = 1) -> None:
    """Create or update the streams of spans at the server of this connection, with as many replicas.

    Raises `OSError` when JetStream refuses, and the connection's own errors.
    """
    await _ensure_stream(connection, SPANS_STREAM, Span.wildcard(), replicas)
    await _ensure_stream(connection, EVENT_SPANS_STREAM, EventSpan.wildcard(), replicas)


async def _ensure_stream(connection: Asking, name: str, subject: str, replicas: int) -> None:
    config: dict[str, Any] = {
        "name": name,
        "subjects": [subject],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "num_replicas": replicas,
        "max_age": KEEP_S * 10**9,
        "max_bytes": KEEP_BYTES,
        "duplicate_window": REPEATED_WITHIN_S * 10**9,
        "allow_direct": True,
    }
    body = json.dumps(config).encode()
    for verb in ("CREATE", "UPDATE"):
        request = f"$JS.API.STREAM.{verb}.{name}"
        answer = json.loads((await connection.request(request, body, timeout=ENSURE_S)).data)
        if "error" not in answer:
            return
    raise OSError(f"no stream {name}: {answer['error'].get('description')}")
