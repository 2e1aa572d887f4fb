"""The spans of a migration's trace that a killed coordinator leaves, and those that its successor adds."""

from __future__ import annotations

import signal

import pytest
from opentelemetry.trace import NoOpTracer

from running.coordinator import Trial, spec
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus, spans
from towpath.collector.traces import Traces
from towpath.contracts.commands import DeployJob
from towpath.contracts.errors import TowpathError
from towpath.contracts.traces import EventSpan, ListTraces, ShowTrace, Span, Trace
from towpath.protocols.spans import operation_span
from towpath.telemetry.trace_tree import is_unfinished, orphans
from towpath.telemetry.tracing import ensure_span_streams

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(autouse=True)
def client_does_not_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch tracing off in this process, so that the trace begins with the coordinator."""
    monkeypatch.setattr(spans, "tracer", NoOpTracer())


async def ended(traces: Traces, operation: str) -> Trace | None:
    """Return the operation's trace once its own span has ended. None before that."""
    try:
        trace = await traces.show(ShowTrace(about=operation))
    except TowpathError:
        return None
    own = [span for span in trace.spans if span.span == operation_span(operation)]
    return trace if own and not is_unfinished(own[0]) else None


async def test_trace_when_the_coordinator_is_killed_in_a_migration_then_nothing_is_loose(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    # Long enough that the killed coordinator is asked once.
    _, asking = await trial.migrate_in_background("counts", attempt_s=WITHIN_S / 10)
    await trial.end_coordinator(signal.SIGKILL)
    trial.let_go("pause-transfer", "counts")
    await trial.start_coordinator()
    answer = await asking
    traces = Traces(trial.client, lambda: trial.running.state.sites)

    async def told() -> Trace | None:
        """Return the trace once it shows that the second coordinator, too, served the repeated command."""
        trace = await ended(traces, answer.operation)
        return trace if trace and len([span for span in trace.spans if is_unfinished(span)]) <= 1 else None

    trace = await eventually(told)
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
        await Bus.connect(
            jfk.nats_url, jfk.login("agent").user, jfk.login("agent").password, name="agent"
        ) as agent,
        await Bus.connect(
            jfk.nats_url, jfk.login("engine").user, jfk.login("engine").password, name="engine"
        ) as engine,
    ):
        await ensure_span_streams(agent.connection)
        await engine.connection.request(told.to_subject(), told.to_bytes(), timeout=WITHIN_S)
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
