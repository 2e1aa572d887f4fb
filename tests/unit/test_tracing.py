"""Spans are shipped once, under ids that can be determined, and contexts cross processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from running.waiting import WITHIN_S
from towpath.contracts.data_plane import MESSAGE_ID_HEADER
from towpath.contracts.traces import Span, SpanKind
from towpath.tasks import end
from towpath.telemetry import shipping, tracing
from towpath.telemetry.shipping import SAMPLED_EVENT, UNFINISHED, SpanShipper
from towpath.telemetry.tracing import (
    OTLP_ENDPOINTS,
    continuing,
    ensure_span_streams,
    ids_of,
    is_traced,
    provider_of,
    record,
    record_begun,
    span_of,
    trace_of,
    traceparent,
    traceparent_of,
    untraced,
)

TRACE, SPAN, PARENT = trace_of("t"), span_of("s"), span_of("p")


@dataclass
class FakeConnection:
    """Keeps what is published."""

    is_connected: bool = True
    spans: list[Span] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None
    ) -> None:
        span = Span.from_bytes(payload)
        self.subjects.append(subject)
        self.spans.append(span)
        self.identifiers.append((headers or {})[MESSAGE_ID_HEADER])
        self.arrived.set()

    async def flush(self, timeout: int = 10) -> None:
        """Do nothing: nothing is on its way."""


@pytest.fixture
def shipper(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpanShipper]:
    """Yield a shipper as another process would have it. The test process keeps its own tracer provider."""
    made = SpanShipper("coordinator", "hub")
    provider = provider_of(made)
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("towpath"))
    monkeypatch.setattr(tracing, "_shipper", made)
    yield made
    provider.shutdown()


async def shipped(shipper: SpanShipper) -> FakeConnection:
    connection = FakeConnection()
    await shipper.flush(connection)
    return connection


def tell(**changes: Any) -> None:
    known: dict[str, Any] = dict(begun_ns=1_000, ended_ns=3_000, trace=TRACE, span=SPAN)
    record("migrate", **{**known, **changes})


def test_ids_when_made_of_the_same_parts_then_are_equal_and_of_the_right_length() -> None:
    assert trace_of("event", "jfk", "7") == trace_of("event", "jfk", "7") != trace_of("event", "jfk7", "")
    assert (len(trace_of("a")), len(span_of("a"))) == (32, 16)


async def test_record_when_given_ids_then_the_span_has_them(shipper: SpanShipper) -> None:
    tell(parent=PARENT, kind=SpanKind.SERVER, attributes={"towpath.job": "j"}, error="no such site")
    (span,) = (await shipped(shipper)).spans
    assert span == Span(
        trace=TRACE,
        span=SPAN,
        parent=PARENT,
        name="migrate",
        kind=SpanKind.SERVER,
        service="coordinator",
        site="hub",
        begun_ns=1_000,
        ended_ns=3_000,
        error="no such site",
        attributes={"towpath.job": "j"},
    )


async def test_record_when_it_is_of_a_single_event_then_goes_where_it_pushes_no_command_out(
    shipper: SpanShipper,
) -> None:
    tell()
    tell(span=span_of("stored"), attributes={SAMPLED_EVENT: True})
    subjects = (await shipped(shipper)).subjects
    assert subjects == [f"towpath.v1.span.{TRACE}", f"towpath.v1.span.event.{TRACE}"]
    server = FakeJetStream()
    await ensure_span_streams(server)
    streams = {config["name"]: config["subjects"] for config in server.configs}
    assert streams == {"SPANS": ["towpath.v1.span.*"], "EVENT_SPANS": ["towpath.v1.span.event.*"]}


async def test_record_when_without_parent_inside_another_span_then_is_a_root(shipper: SpanShipper) -> None:
    with continuing(traceparent_of(trace_of("other"), PARENT)):
        tell()
    (span,) = (await shipped(shipper)).spans
    assert (span.trace, span.parent) == (TRACE, None)


async def test_record_when_repeated_then_the_stream_can_tell(shipper: SpanShipper) -> None:
    tell()
    first = await shipped(shipper)
    tell()
    assert (await shipped(shipper)).identifiers == first.identifiers == [f"{TRACE}/{SPAN}"]


async def test_span_when_it_still_goes_on_then_is_shipped_as_unfinished_and_again_at_its_end(
    shipper: SpanShipper,
) -> None:
    with tracing._tracer.start_as_current_span("serve migrate"):
        begun = await shipped(shipper)
    ended = await shipped(shipper)
    assert begun.spans[0].attributes == {UNFINISHED: True}
    assert ended.spans[0].attributes == {}
    assert begun.spans[0].span == ended.spans[0].span
    assert begun.identifiers[0] == f"{ended.identifiers[0]}/begun"


async def test_span_when_it_ends_at_once_then_is_shipped_once(shipper: SpanShipper) -> None:
    with tracing._tracer.start_as_current_span("serve migrate"):
        pass
    assert len((await shipped(shipper)).spans) == 1


async def test_span_when_its_work_raises_then_has_the_error(shipper: SpanShipper) -> None:
    with pytest.raises(ValueError, match="bad"), tracing._tracer.start_as_current_span("serve migrate"):
        raise ValueError("bad")
    assert (await shipped(shipper)).spans[0].error == "ValueError: bad"


async def test_operation_when_its_begin_is_told_then_its_end_replaces_it(shipper: SpanShipper) -> None:
    record_begun("operation migrate", begun_ns=1_000, trace=TRACE, span=SPAN)
    (begun,) = (await shipped(shipper)).spans
    tell()
    (ended,) = (await shipped(shipper)).spans
    assert (begun.span, UNFINISHED in begun.attributes) == (ended.span, True)
    assert UNFINISHED not in ended.attributes


async def test_shipper_when_the_server_is_away_then_keeps_the_newest(
    shipper: SpanShipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "WAITING", 3)
    away = FakeConnection(is_connected=False)
    for number in range(5):
        tell(span=span_of(str(number)))
    await shipper.flush(away)
    assert away.spans == []
    found = (await shipped(shipper)).spans
    assert [span.span for span in found] == [span_of(str(number)) for number in (2, 3, 4)]


async def test_shipper_when_a_span_ends_in_a_thread_then_publishes_it(shipper: SpanShipper) -> None:
    connection = FakeConnection()
    shipping_task = asyncio.create_task(shipper.ship(connection))
    try:
        await asyncio.to_thread(tell)
        await asyncio.wait_for(connection.arrived.wait(), WITHIN_S)
    finally:
        await end([shipping_task])
    assert [span.name for span in connection.spans] == ["migrate"]


async def test_shipper_when_it_is_cancelled_then_publishes_what_is_left(shipper: SpanShipper) -> None:
    connection = FakeConnection()
    task = asyncio.create_task(shipper.ship(connection))
    await asyncio.sleep(0)
    tell()
    await end([task])
    assert len(connection.spans) == 1


def test_traceparent_when_a_trace_is_continued_then_names_it_and_nothing_outside() -> None:
    there = traceparent_of(TRACE, SPAN)
    with continuing(there):
        assert (traceparent(), is_traced()) == (there, True)
        with untraced():
            assert (traceparent(), is_traced()) == (None, False)
        with continuing(None):
            assert traceparent() == there
    assert (traceparent(), is_traced()) == (None, False)


@pytest.mark.parametrize("text", ["", "nonsense", f"00-{TRACE}-{SPAN}-00", f"00-{'0' * 32}-{SPAN}-01"])
def test_traceparent_when_it_names_no_recorded_trace_then_has_no_ids(text: str) -> None:
    assert ids_of(text) is None


def test_traceparent_when_it_names_a_recorded_trace_then_has_its_ids() -> None:
    assert ids_of(traceparent_of(TRACE, SPAN)) == (TRACE, SPAN)


async def test_child_when_its_parent_is_remote_then_has_it_as_parent(shipper: SpanShipper) -> None:
    with continuing(traceparent_of(TRACE, PARENT)), tracing._tracer.start_as_current_span("serve"):
        assert api.get_current_span().is_recording()
    (span,) = (await shipped(shipper)).spans
    assert (span.trace, span.parent) == (TRACE, PARENT)


@pytest.mark.parametrize("variable", OTLP_ENDPOINTS)
def test_provider_when_the_environment_names_a_receiver_then_spans_go_there_too(
    shipper: SpanShipper, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in OTLP_ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert _exporters(provider_of(shipper)) == 0
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    assert _exporters(provider_of(shipper)) == 1


def _exporters(provider: TracerProvider) -> int:
    processors = provider._active_span_processor._span_processors
    provider.shutdown()
    return sum(isinstance(processor, BatchSpanProcessor) for processor in processors)


@dataclass
class Answer:
    """A message."""

    data: bytes


class FakeJetStream:
    """Has the stream already, with another configuration."""

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)
        self.subjects: list[str] = []
        self.configs: list[dict[str, Any]] = []

    async def request(self, subject: str, payload: bytes = b"", timeout: float = 0.5) -> Answer:
        self.subjects.append(subject)
        self.configs.append(json.loads(payload))
        assert self.configs[-1]["max_bytes"] == 64 * 1024**2
        wrong = self.errors.pop(0) if self.errors else None
        return Answer(json.dumps({"error": {"description": wrong}} if wrong else {}).encode())


async def test_spans_stream_when_it_exists_otherwise_then_is_brought_up_to_date() -> None:
    server = FakeJetStream("stream name already in use")
    await ensure_span_streams(server)
    assert server.subjects == [
        "$JS.API.STREAM.CREATE.SPANS",
        "$JS.API.STREAM.UPDATE.SPANS",
        "$JS.API.STREAM.CREATE.EVENT_SPANS",
    ]


async def test_spans_stream_when_it_is_refused_then_says_why() -> None:
    with pytest.raises(OSError, match="no room"):
        await ensure_span_streams(FakeJetStream("no", "no room"))
