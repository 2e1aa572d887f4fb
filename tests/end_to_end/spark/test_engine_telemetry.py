"""Metrics and traces of an engine's real micro-batches, read as an agent reads them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import nats
import pytest

from running.edges import MICRO_BATCHES, crossings
from running.engine import SUMS, Site, assignment
from running.promises import promise
from running.servers import Server
from running.waiting import WITHIN_S
from towpath.bus import Bus, spans
from towpath.contracts.engine import HaltQuery, ListQueries, Measures, ReadMeasures, RunQuery
from towpath.contracts.job import Assignment, JobState
from towpath.contracts.metrics import Sample
from towpath.contracts.metrics_table import METRICS_BY_NAME
from towpath.contracts.traces import EVENT_SPANS_STREAM, SPANS_STREAM, Span
from towpath.engine import watch
from towpath.engine.measures import keep_sampling
from towpath.engine.queries import Queries
from towpath.engines.commands import serve
from towpath.tasks import end
from towpath.telemetry import tracing
from towpath.telemetry.shipping import SpanShipper
from towpath.telemetry.trace_tree import is_unfinished
from towpath.telemetry.tracing import continuing, ensure_span_streams, span_of, trace_of, traceparent_of

pytestmark = pytest.mark.timeout(900)

T = TypeVar("T")
START_S = 60.0
HALTS = 8
"""Number of halts: one may fall between two micro-batches, but not all of them."""

WINDOW = {
    "kind": "window",
    "fields": {"k": "string", "v": "double", "at": "timestamp"},
    "event_time": "at",
    "watermark_s": 1,
    "size_s": 1,
    "key": ["k"],
    "aggregates": SUMS,
}
FORWARD = {"kind": "forward"}


@dataclass
class Engine:
    """A site's engine as its agent sees it, and the site's streams."""

    site: Site
    bus: Bus

    async def run(self, job: Assignment) -> None:
        """Start the job. Return once it runs."""
        command = RunQuery(site="jfk", assignment=job, checkpoint=str(self.site.checkpoint))
        await self.bus.request(command, deadline_s=START_S)

        async def runs() -> bool:
            listed = await self.bus.request(ListQueries(site="jfk"), deadline_s=START_S)
            return [query.state for query in listed.queries] == [JobState.RUNNING]

        await until(runs)

    async def halt(self) -> None:
        await self.bus.request(HaltQuery(site="jfk", job="job"), deadline_s=START_S)

    async def samples(self) -> dict[str, list[Sample]]:
        found: dict[str, list[Sample]] = {}
        after = 0
        while (answer := await self._measures(after)).samples:
            after = answer.last
            for sample in answer.samples:
                assert sample.entity == "job:job"
                found.setdefault(sample.metric, []).append(sample)
        return found

    async def _measures(self, after: int) -> Measures:
        return await self.bus.request(ReadMeasures(site="jfk", after=after), deadline_s=START_S)

    async def spans(self) -> list[Span]:
        return [Span.model_validate_json(body) for body in await self.site.bodies(SPANS_STREAM)]

    async def event_spans(self) -> list[Span]:
        return [Span.model_validate_json(body) for body in await self.site.bodies(EVENT_SPANS_STREAM)]


async def until(condition: Callable[[], Awaitable[T]], within_s: float = 2 * WITHIN_S) -> T:
    async with asyncio.timeout(within_s):
        while not (found := await condition()):
            await asyncio.sleep(0.05)
        return found


@pytest.fixture
async def engine(site: Site, nats_server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    await ensure_span_streams(site.connection)
    url = nats_server.url
    async with traced(monkeypatch, site.connection), await Bus.connect(url, "", "", name="engine") as serving:
        queries = Queries(site.session, site.settings, site.sink)
        await serve(serving, "jfk", queries)
        sampling = asyncio.create_task(keep_sampling(queries.sample, 0.5))
        async with await Bus.connect(url, "", "", name="agent") as bus:
            yield Engine(site, bus)
        await end([sampling])
        await queries.close()


@asynccontextmanager
async def traced(monkeypatch: pytest.MonkeyPatch, connection: nats.NATS) -> AsyncIterator[None]:
    """Make and ship spans as `start_tracing` does for a whole process."""
    shipper = SpanShipper("engine", "jfk")
    provider = tracing.provider_of(shipper)
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("towpath"))
    monkeypatch.setattr(spans, "tracer", provider.get_tracer("towpath.bus"))
    shipping = asyncio.create_task(shipper.ship(connection))
    yield
    await end([shipping])
    provider.shutdown()


def event(**more: Any) -> dict[str, Any]:
    return {"k": "x", "v": 1.0, "at": datetime.now(UTC).isoformat(), **more}


@promise("metrics")
async def test_measures_when_a_window_has_run_then_tell_what_it_read_stored_and_took(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a busy machine: several micro-batches end between two looks.
    monkeypatch.setattr(watch, "LOOK_S", 1.0)
    begun = time.time()
    await engine.run(assignment(WINDOW))
    sent = 0

    async def results_come() -> bool:
        nonlocal sent
        await engine.site.put("site.a", event())
        await engine.site.put("site.b", {"of": "another topic"})
        sent += 1
        await asyncio.sleep(0.1)
        return len(await engine.site.results()) >= 3

    await until(results_come)
    await engine.site.put("site.a", "not an object")

    async def all_counted() -> dict[str, list[Sample]] | None:
        found = await engine.samples()
        counted = [sample.value for sample in found.get("job.events", [])][-1:]
        rates = [sample.value for sample in found.get("job.event_rate", [])][-1:]
        return found if counted == [sent + 1] and rates == [0.0] else None

    found = await until(all_counted)
    await engine.halt()
    stored = len(await engine.site.results())
    found = await engine.samples()
    newest = {name: samples[-1].value for name, samples in found.items()}
    assert set(found) <= set(METRICS_BY_NAME)
    assert (newest["job.events"], newest["job.results"], newest["job.rejected"]) == (sent + 1, stored, 1)
    elapsed = time.time() - begun
    for name in ("job.latency.end_to_end", "job.latency.processing"):
        ordered = [newest[f"{name}.{short}"] for short in ("p50", "p95", "p99", "max")]
        assert ordered == sorted(ordered)
        assert 0 < ordered[0] <= ordered[-1] < elapsed
    assert 0 < newest["job.batch.phase.add_batch"] <= newest["job.latency.processing.max"] < elapsed
    assert max(sample.value for sample in found["job.event_rate"]) > 0
    assert 0 < newest["job.watermark.delay"] < elapsed
    assert newest["job.state.rows"] >= 1
    assert newest["job.state.memory"] > 0
    assert all(begun < sample.at < time.time() for samples in found.values() for sample in samples)


async def test_batches_when_commands_are_traced_then_their_spans_are_under_them(engine: Engine) -> None:
    trace, command = trace_of("test"), span_of("command")
    with continuing(traceparent_of(trace, command)):
        await engine.run(assignment(FORWARD))

    async def first_batches() -> list[Span]:
        await engine.site.put("site.a", event())
        mine = [span for span in await engine.spans() if span.trace == trace]
        ended = [span for span in mine if span.name.startswith("batch ") and not is_unfinished(span)]
        return [span for span in mine if not is_unfinished(span)] if len(ended) == 3 else []

    found = await until(first_batches)
    serving = {span.span: span for span in found if span.name.startswith("serve ")}
    batches = sorted((s for s in found if s.name.startswith("batch ")), key=lambda s: s.begun_ns)
    assert [span.name for span in batches] == ["batch 0", "batch 1", "batch 2"]
    assert [serving[span.parent or ""].name for span in batches] == ["serve run-query"] * 3
    assert all(span.begun_ns < span.ended_ns for span in batches)
    assert {(span.service, span.site) for span in batches} == {("engine", "jfk")}
    assert crossings(found) == {MICRO_BATCHES}


async def test_batch_when_a_traced_halt_waits_for_it_then_its_span_is_under_the_halt(engine: Engine) -> None:
    trace, command = trace_of("halts"), span_of("command")

    async def keep_sending() -> None:
        while True:
            await engine.site.put("site.a", event())
            await asyncio.sleep(0.01)

    async def met() -> list[Span]:
        mine = [span for span in await engine.spans() if span.trace == trace]
        halts = {span.span for span in mine if span.name == "serve halt-query"}
        return [span for span in mine if span.parent in halts and span.name.startswith("batch ")]

    sending = asyncio.create_task(keep_sending())
    try:
        for _ in range(HALTS):
            results = len(await engine.site.results())
            await engine.run(assignment(FORWARD))
            await engine.site.until(lambda found, before=results: len(found) > before)
            asked_ns = time.time_ns()
            with continuing(traceparent_of(trace, command)):
                await engine.halt()
            await until(lambda asked=asked_ns: halt_told(engine, trace, asked))
            if waited_for := await met():
                break
    finally:
        await end([sending])
    assert waited_for
    assert all(span.begun_ns < time.time_ns() for span in waited_for)


async def halt_told(engine: Engine, trace: str, after_ns: int) -> bool:
    """True if the span of a halt is stored, and with it the spans that were recorded before its end."""
    return any(
        span.trace == trace
        and span.name == "serve halt-query"
        and span.begun_ns >= after_ns
        and not is_unfinished(span)
        for span in await engine.spans()
    )


@promise("traces")
async def test_event_when_its_result_is_stored_then_its_trace_has_four_spans_in_order(engine: Engine) -> None:
    trace, device = trace_of("device"), span_of("publish")
    sent_at = datetime.now(UTC) - timedelta(seconds=0.5)
    sent = event(traceparent=traceparent_of(trace, device), sent_at=sent_at.isoformat())
    await engine.site.put("site.b", {"of": "another topic"})
    await engine.site.put("site.a", sent)
    await engine.run(assignment(FORWARD))

    async def complete() -> list[Span]:
        mine = [s for s in await engine.event_spans() if s.trace == trace and not is_unfinished(s)]
        return mine if len(mine) == 4 else []

    stored, waiting, batch, result = sorted(await until(complete), key=lambda s: (s.begun_ns, s.ended_ns))
    assert [s.name for s in (stored, waiting, batch, result)] == [
        "stored",
        "waiting",
        "batch 0",
        "result stored",
    ]
    assert [s.parent for s in (stored, waiting, batch, result)] == [
        device,
        stored.span,
        stored.span,
        batch.span,
    ]
    assert stored.begun_ns == round(sent_at.timestamp() * 1_000_000) * 1000
    assert stored.ended_ns == waiting.begun_ns
    assert waiting.ended_ns == batch.begun_ns
    assert batch.begun_ns < result.begun_ns <= result.ended_ns <= batch.ended_ns
    assert batch.attributes["towpath.serial"] == 2
