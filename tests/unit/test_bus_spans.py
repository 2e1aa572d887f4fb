"""Changes begin traces, looking does not, and refusals can be seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from towpath.bus import spans
from towpath.bus.spans import TRACEPARENT, deciding, is_looking, refused, requesting, serving, trace_headers
from towpath.contracts.commands import ListJobs, MigrateJob, RemoveJob
from towpath.contracts.engine import ENGINE_COMMANDS, HaltQuery, RunQuery
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.metrics import Echo, ReadMetrics
from towpath.telemetry.logs import log_context
from towpath.telemetry.shipping import SpanShipper
from towpath.telemetry.tracing import continuing, provider_of, span_of, trace_of, traceparent_of, unrecorded

TRACE, SPAN = trace_of("t"), span_of("s")
THERE = traceparent_of(TRACE, SPAN)
MIGRATE = MigrateJob(job="j", to="cloud")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = provider_of(SpanShipper("cli", "hub"))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "tracer", provider.get_tracer("towpath.bus"))
    yield exporter
    provider.shutdown()


def names(exporter: InMemorySpanExporter) -> list[str]:
    return [span.name for span in exporter.get_finished_spans()]


def test_commands_when_they_only_look_then_are_told_from_changes() -> None:
    looking = {kind.verb() for kind in (*ENGINE_COMMANDS, ListJobs, Echo, ReadMetrics) if is_looking(kind)}
    changing = [
        "analyse-job",
        "list-queries",
        "recompute-range",
        "read-measures",
        "list-jobs",
        "echo",
        "read-metrics",
    ]
    assert looking == set(changing)
    assert not any(is_looking(kind) for kind in (RunQuery, HaltQuery, MigrateJob, RemoveJob))


def test_change_when_it_is_requested_then_begins_a_trace_that_the_message_carries(
    made: InMemorySpanExporter,
) -> None:
    with requesting(MIGRATE, own_span=True):
        headers = trace_headers()
    (span,) = made.get_finished_spans()
    context = span.get_span_context()
    assert context is not None
    assert (span.name, span.parent) == ("request migrate", None)
    assert (span.attributes or {})["towpath.job"] == "j"
    assert headers == {TRACEPARENT: traceparent_of(f"{context.trace_id:032x}", f"{context.span_id:016x}")}


def test_looking_when_nothing_is_traced_then_makes_no_span_and_says_nothing(
    made: InMemorySpanExporter,
) -> None:
    with requesting(ListJobs(), own_span=True):
        assert trace_headers() is None
    with serving(ListJobs, None):
        pass
    assert names(made) == []


@pytest.mark.parametrize("kind", [RunQuery, HaltQuery])
def test_agent_when_it_keeps_order_by_itself_then_begins_no_trace(
    made: InMemorySpanExporter, kind: type[RunQuery]
) -> None:
    with requesting(kind.model_validate(kind.example), own_span=True):
        assert trace_headers() is None
    with serving(kind, None):
        pass
    assert names(made) == []


def test_looking_when_inside_a_trace_then_is_part_of_it(made: InMemorySpanExporter) -> None:
    with continuing(THERE), requesting(ListJobs(), own_span=True):
        pass
    with serving(ListJobs, {TRACEPARENT: THERE}):
        pass
    assert names(made) == ["request list-jobs", "serve list-jobs"]


def test_step_when_it_has_a_span_already_then_its_command_carries_that(made: InMemorySpanExporter) -> None:
    with continuing(THERE), requesting(MIGRATE, own_span=False):
        assert trace_headers() == {TRACEPARENT: THERE}
    assert names(made) == []


def test_command_when_it_comes_without_trace_then_not_that_of_the_connection(
    made: InMemorySpanExporter,
) -> None:
    with continuing(THERE), serving(MigrateJob, {}):
        pass
    (span,) = made.get_finished_spans()
    assert span.parent is None


def test_command_when_it_is_refused_then_its_span_says_why(made: InMemorySpanExporter) -> None:
    with serving(MigrateJob, {TRACEPARENT: THERE}):
        with deciding(MIGRATE):
            assert log_context(None)["job"] == "j"
        refused(ErrorDetail(code=ErrorCode.UNKNOWN_SITE, message="no such site"))
    (span,) = made.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "no such site" in (span.status.description or "")
    assert (span.attributes or {})["towpath.command"] == MIGRATE.id


def test_change_when_it_is_not_to_be_recorded_then_makes_no_span_here_nor_where_it_is_served(
    made: InMemorySpanExporter,
) -> None:
    with unrecorded(), requesting(MIGRATE, own_span=True):
        headers = trace_headers()
    assert headers is not None
    with serving(MigrateJob, headers), requesting(MIGRATE, own_span=True):
        assert trace_headers() is not None, "and so on"
    assert names(made) == []
