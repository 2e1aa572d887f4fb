"""An operation's spans follow from its record and journal: killed anywhere, no span is without its parent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace as api
from operation_trial import OPERATIONS, Killed, Trial

from towpath.contracts.commands import OperationState
from towpath.contracts.traces import Span
from towpath.protocols.record import OperationRecord
from towpath.protocols.runner import Runner
from towpath.protocols.spans import nanoseconds, operation_span, step_span
from towpath.telemetry import tracing
from towpath.telemetry.shipping import UNFINISHED, SpanShipper
from towpath.telemetry.tracing import provider_of, span_of, trace_of, traceparent, traceparent_of

TRACE, COMMAND = trace_of("t"), span_of("request migrate")
MOMENT = "carried out 5f0c9a7be210-ship-checkpoint"


class TracedTrial(Trial):
    """A trial whose operation was begun in a trace; keeps what each command belongs to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.belongs: dict[str, str | None] = {}
        traced = self.record.model_copy(update={"traceparent": traceparent_of(TRACE, COMMAND)})
        self.ledger.accept(traced)

    async def run(self) -> OperationRecord:
        """With one coordinator, which may be killed."""
        return await Runner(self.ledger, self.send, self.publish, self.clock).run(self.record.id)

    async def send(self, command, *, deadline_s, attempt_s):  # type: ignore[no-untyped-def]
        self.belongs[command.id] = traceparent()
        return await super().send(command, deadline_s=deadline_s, attempt_s=attempt_s)


@pytest.fixture
def shipper(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpanShipper]:
    made = SpanShipper("coordinator", "hub")
    provider = provider_of(made)
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("towpath"))
    monkeypatch.setattr(tracing, "_shipper", made)
    yield made
    provider.shutdown()


def told(shipper: SpanShipper) -> dict[str, Span]:
    """Spans by id, as a stream would keep them: ended ones instead of begun ones."""
    return {span.span: span for span in shipper._taken()}


def orphans(spans: dict[str, Span]) -> list[str]:
    known = {*spans, COMMAND}
    return [span.name for span in spans.values() if span.parent not in known]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_operation_when_it_completes_then_has_a_span_with_one_a_step(
    shipper: SpanShipper, name: str
) -> None:
    trial = TracedTrial(name)
    record = await trial.run()
    spans = told(shipper)
    whole = spans[operation_span(record.id)]
    assert (whole.trace, whole.parent, whole.error) == (TRACE, COMMAND, None)
    assert (whole.begun_ns, whole.ended_ns) == (nanoseconds(record.begun_at), nanoseconds(record.ended_at))
    steps = {span.name for span in spans.values() if span.parent == whole.span}
    assert steps == {f"step {step}" for step in record.begun}
    assert not orphans(spans)
    assert not any(UNFINISHED in span.attributes for span in spans.values())
    assert api.get_current_span() is api.INVALID_SPAN


async def test_step_when_its_command_is_sent_then_that_belongs_to_the_step(shipper: SpanShipper) -> None:
    trial = TracedTrial("handover")
    await trial.run()
    assert trial.belongs["5f0c9a7be210-ship-checkpoint"] == traceparent_of(
        TRACE, step_span("5f0c9a7be210", "ship-checkpoint")
    )


async def test_operation_when_its_coordinator_is_killed_then_a_successor_completes_its_trace(
    shipper: SpanShipper,
) -> None:
    trial = TracedTrial("handover", killed_at={MOMENT})
    with pytest.raises(Killed):
        await trial.run()
    before = told(shipper)
    assert UNFINISHED in before[operation_span("5f0c9a7be210")].attributes
    assert not orphans(before)
    await trial.run()
    after = told(shipper)
    assert after.keys() > before.keys()
    assert not orphans(after)


async def test_operation_when_it_is_rolled_back_then_failed_and_undone_steps_show(
    shipper: SpanShipper,
) -> None:
    trial = TracedTrial("handover", refused={"5f0c9a7be210-ship-checkpoint"})
    record = await trial.run()
    spans = told(shipper)
    assert record.state is OperationState.ROLLED_BACK
    assert "refused" in (spans[step_span(record.id, "ship-checkpoint")].error or "")
    assert "rolled_back" in (spans[operation_span(record.id)].error or "")
    assert [span.name for span in spans.values() if span.name.startswith("undo ")]
    assert not orphans(spans)


async def test_operation_when_begun_outside_of_a_trace_then_makes_no_span(shipper: SpanShipper) -> None:
    await Trial("general").finish()
    assert told(shipper) == {}
