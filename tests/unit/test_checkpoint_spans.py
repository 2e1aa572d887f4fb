"""A transfer is two spans, one below the other, even when it begins again or is given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from towpath.checkpoints import spans
from towpath.checkpoints.spans import Receiving, shipping
from towpath.telemetry.shipping import SpanShipper
from towpath.telemetry.tracing import continuing, provider_of, span_of, trace_of, traceparent, traceparent_of

THERE = traceparent_of(trace_of("t"), span_of("s"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = provider_of(SpanShipper("agent", "jfk"))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_tracer", provider.get_tracer("towpath.checkpoints"))
    yield exporter
    provider.shutdown()


def facts(span: ReadableSpan) -> tuple[str, object, str | None]:
    return span.name, (span.attributes or {}).get("towpath.bytes"), span.status.description


def test_transfer_when_traced_then_the_target_is_below_the_source(made: InMemorySpanExporter) -> None:
    receiving = Receiving()
    with continuing(THERE), shipping("m1", "j") as span:
        there = traceparent()
        span.set_attribute("towpath.bytes", 7)
    receiving.begin(there)
    receiving.took(7)
    receiving.end()
    receiving.end("given up")
    source, target = made.get_finished_spans()
    assert (facts(source), facts(target)) == (("ship checkpoint", 7, None), ("receive checkpoint", 7, None))
    assert target.parent is not None
    assert source.context is not None
    assert target.parent.span_id == source.context.span_id


def test_transfer_when_not_traced_then_makes_no_span(made: InMemorySpanExporter) -> None:
    receiving = Receiving()
    with shipping("m1", None) as span:
        span.set_attribute("towpath.bytes", 7)
        receiving.begin(traceparent())
    receiving.took(7)
    receiving.end()
    assert made.get_finished_spans() == ()


def test_target_when_the_source_begins_again_then_the_first_attempt_has_failed(
    made: InMemorySpanExporter,
) -> None:
    receiving = Receiving()
    receiving.begin(THERE)
    receiving.took(3)
    receiving.begin(THERE)
    receiving.took(7)
    receiving.end()
    assert [facts(span) for span in made.get_finished_spans()] == [
        ("receive checkpoint", 3, "the source began again"),
        ("receive checkpoint", 7, None),
    ]
