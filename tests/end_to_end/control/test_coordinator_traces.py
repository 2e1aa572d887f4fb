"""What a coordinator leaves of a migration's trace when it is killed, and what its successor adds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry.trace import NoOpTracer

from running.coordinator import Trial, running_coordinator, spec
from running.mesh import Mesh, running_mesh
from towpath.bus import Bus, spans
from towpath.collector.traces import Traces
from towpath.contracts.commands import DeployJob, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.traces import EventSpan, ListTraces, ShowTrace, Span, Trace
from towpath.protocols.spans import operation_span
from towpath.telemetry.trace_tree import is_unfinished, orphans
from towpath.telemetry.tracing import ensure_span_streams


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


@pytest.fixture(autouse=True)
def client_does_not_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tests before this one have done to their process: the trace begins with the coordinator."""
    monkeypatch.setattr(spans, "tracer", NoOpTracer())


@pytest.fixture
async def trial(running: Mesh) -> AsyncIterator[Trial]:
    async with running_coordinator(running) as started:
        yield started


async def ended(traces: Traces, operation: str) -> Trace:
    """The operation's trace, once its own span has ended."""
    async with asyncio.timeout(20):
        while True:
            try:
                trace = await traces.show(ShowTrace(about=operation))
            except TowpathError:
                trace = Trace(trace="0" * 32, spans=[])
            own = [span for span in trace.spans if span.span == operation_span(operation)]
            if own and not is_unfinished(own[0]):
                return trace
            await asyncio.sleep(0.05)


async def test_trace_when_the_coordinator_is_killed_in_a_migration_then_nothing_is_loose(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts", strategy=StrategyName.GENERAL)
    await trial.end_coordinator(signal.SIGKILL)
    trial.let_go("pause-transfer", "counts")
    await trial.start_coordinator()
    answer = await asking
    traces = Traces(trial.client, lambda: trial.running.state.sites)
    trace = await ended(traces, answer.operation)
    # A command that was sent again was served by the second coordinator, too: it tells a moment later.
    async with asyncio.timeout(20):
        while len([span for span in trace.spans if is_unfinished(span)]) > 1:
            await asyncio.sleep(0.05)
            trace = await ended(traces, answer.operation)
    assert orphans(trace.spans) == []
    steps = {span.name: span for span in trace.spans if span.name.startswith("step ")}
    assert {"step pause-transfer", "step launch-retrieve", "step observe"} <= steps.keys()
    assert not any(is_unfinished(span) for span in steps.values())
    assert [span.name for span in trace.spans if is_unfinished(span)] == ["serve migrate"]
    listed = await traces.newest(ListTraces(limit=5))
    assert [one.operation for one in listed.traces if one.trace == trace.trace] == [answer.operation]


async def test_trace_of_an_event_when_its_engine_has_told_it_then_is_listed_among_events_only(
    trial: Trial,
) -> None:
    jfk = trial.running.state.sites["jfk"]
    told = EventSpan.model_validate({**EventSpan.example, "site": "jfk"})
    async with (
        await Bus.connect(jfk.nats_url, jfk.agent.user, jfk.agent.password, name="agent") as agent,
        await Bus.connect(jfk.nats_url, jfk.engine.user, jfk.engine.password, name="engine") as engine,
    ):
        await ensure_span_streams(agent.connection)
        await engine.connection.request(told.to_subject(), told.to_bytes(), timeout=5)
    traces = Traces(trial.client, lambda: ["jfk"])
    listed = await traces.newest(ListTraces(events=True))
    assert [(one.trace, one.name, one.spans) for one in listed.traces] == [(told.trace, "stored", 1)]
    assert listed.unreached == {}
    assert (await traces.show(ShowTrace(about=told.trace))).spans == [Span(**told.model_dump())]
    assert told.trace not in {one.trace for one in (await traces.newest(ListTraces())).traces}


async def test_trace_when_there_is_none_then_the_error_names_what_was_asked_for(trial: Trial) -> None:
    traces = Traces(trial.client, lambda: [])
    with pytest.raises(TowpathError) as refused:
        await traces.show(ShowTrace(about="nothing"))
    assert (refused.value.detail.field, refused.value.detail.value) == ("about", "nothing")
