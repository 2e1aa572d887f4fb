"""A request that changes something begins a trace, or continues its client's; looking does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from api_trial import running_api
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from towpath.api import request_spans
from towpath.contracts.commands import JobList, ListJobs, OperationAnswer, RemoveJob
from towpath.telemetry.shipping import SpanShipper
from towpath.telemetry.tracing import ids_of, provider_of, span_of, trace_of, traceparent, traceparent_of

THERE = traceparent_of(trace_of("t"), span_of("s"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = provider_of(SpanShipper("api", "hub"))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(request_spans, "_tracer", provider.get_tracer("towpath.api"))
    yield exporter
    provider.shutdown()


async def removed(headers: dict[str, str]) -> tuple[int, str | None]:
    """The status, and the trace that the command is part of."""
    current: list[str | None] = []

    def remove(command: RemoveJob) -> OperationAnswer:
        current.append(traceparent())
        return OperationAnswer.model_validate(
            {"operation": "m1", "job": command.job, "kind": "remove", "state": "completed"}
        )

    async with running_api() as trial:
        trial.coordinator.answers[RemoveJob] = remove
        response, _ = await trial.send("DELETE", "/jobs/hourly-jfk", headers=headers)
    return response.status, current[0] if current else None


async def test_request_when_it_changes_something_then_begins_a_trace(made: InMemorySpanExporter) -> None:
    status, current = await removed({})
    assert status < 300
    (span,) = made.get_finished_spans()
    assert (span.name, span.parent) == ("DELETE /jobs/{name}", None)
    assert current is not None


async def test_request_when_its_client_is_traced_then_belongs_to_that(made: InMemorySpanExporter) -> None:
    _, current = await removed({"traceparent": THERE})
    assert current is not None
    assert (ids_of(current) or ("", ""))[0] == trace_of("t")


async def test_request_when_it_only_looks_then_makes_no_span(made: InMemorySpanExporter) -> None:
    async with running_api() as trial:
        trial.coordinator.answers[ListJobs] = lambda _: JobList(jobs=[])
        await trial.send("GET", "/jobs")
    assert made.get_finished_spans() == ()


async def test_request_when_it_has_no_token_then_makes_no_span(made: InMemorySpanExporter) -> None:
    assert await removed({"Authorization": "Bearer wrong"}) == (401, None)
    assert made.get_finished_spans() == ()
