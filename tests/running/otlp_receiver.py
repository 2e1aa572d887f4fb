"""A receiver of OTLP over HTTP, as every OpenTelemetry tool has one. It keeps the spans that arrive."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from running.servers import free_port
from towpath.contracts.traces import Span


@dataclass
class Received:
    """Spans that arrived, and the address that they were sent to."""

    endpoint: str
    spans: list[Span] = field(default_factory=list)

    def trace(self, trace: str) -> list[Span]:
        return [span for span in [*self.spans] if span.trace == trace]

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    _span(span, about["service.name"], about["towpath.site"]) for span in scope.spans
                ]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def _span(sent: Any, service: str, site: str) -> Span:
    return Span(
        trace=sent.trace_id.hex(),
        span=sent.span_id.hex(),
        parent=sent.parent_span_id.hex() or None,
        name=sent.name,
        service=service,
        site=site,
        begun_ns=sent.start_time_unix_nano,
        ended_ns=sent.end_time_unix_nano,
    )


@contextmanager
def otlp_receiver() -> Iterator[Received]:
    """Listen while the context is open, in a thread of its own."""
    port = free_port()
    received = Received(f"http://127.0.0.1:{port}")
    application = web.Application(client_max_size=64 * 1024**2)
    application.router.add_post("/v1/traces", received.take)
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield received
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
