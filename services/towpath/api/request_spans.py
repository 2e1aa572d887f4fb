"""The span of a request. All that the request leads to in the mesh belongs to its trace."""

from __future__ import annotations

from aiohttp import hdrs, web
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from towpath.api.admission import asked_by
from towpath.api.routing import Handler
from towpath.telemetry.tracing import continuing, ids_of, untraced

TRACEPARENT = "traceparent"
LOOKING = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})

_tracer = trace.get_tracer("towpath.api")


@web.middleware
async def traced(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Begin a trace, or continue the client's. A request that only reads has none unless its client has.

    This is the innermost middleware, so that requests without a token leave nothing in the mesh's streams.
    """
    given = request.headers.get(TRACEPARENT)
    known = given if given is not None and ids_of(given) else None
    with untraced(), continuing(known):
        if request.method in LOOKING and known is None:
            return await handler(request)
        resource = request.match_info.route.resource
        name = f"{request.method} {resource.canonical if resource else 'unknown'}"
        with _tracer.start_as_current_span(name, kind=SpanKind.SERVER) as span:
            span.set_attributes({"towpath.asked_by": by} if (by := asked_by.get()) else {})
            response = await handler(request)
            span.set_attribute("http.response.status_code", response.status)
            return response
