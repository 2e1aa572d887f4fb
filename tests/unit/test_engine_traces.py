"""The spans of micro-batches and events, and those that get none."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from engine_reports import INPUT, PROGRESS, report, reports

from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.engine import batch_spans, event_traces
from towpath.engine.batch_spans import BatchSpans
from towpath.engine.event_traces import EventTraces, SentEvent, time_ns_of
from towpath.engine.job_telemetry import JobTelemetry
from towpath.streams.pages import StoredMessage
from towpath.streams.publisher import Outgoing
from towpath.streams.sink import StoredBatch
from towpath.telemetry.shipping import SAMPLED_EVENT
from towpath.telemetry.tracing import span_of, trace_of, traceparent_of

TRACE, COMMAND = trace_of("a command"), span_of("run-query")
COMMANDED = traceparent_of(TRACE, COMMAND)
SECOND = 10**9


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = []

    def record(name: str, **what: Any) -> None:
        spans.append({"name": name, **what})

    monkeypatch.setattr(batch_spans, "record", record)
    monkeypatch.setattr(event_traces, "record", record)
    return spans


def test_batches_when_a_run_was_commanded_in_a_trace_then_the_first_three_are_under_the_command(
    recorded: list[dict[str, Any]],
) -> None:
    spans = BatchSpans("hourly-jfk", "jfk", 1)
    spans.begin(COMMANDED)
    for each in reports():
        spans.take_in(each)
    assert [span["name"] for span in recorded] == ["batch 0", "batch 1", "batch 2"]
    assert {(span["trace"], span["parent"]) for span in recorded} == {(TRACE, COMMAND)}
    assert len({span["span"] for span in recorded}) == 3
    assert recorded[0]["ended_ns"] - recorded[0]["begun_ns"] == 4_197_000_000


@pytest.mark.parametrize("traceparent", [None, f"00-{TRACE}-{COMMAND}-00"])
def test_batches_when_the_command_is_not_recorded_then_have_no_spans(
    recorded: list[dict[str, Any]], traceparent: str | None
) -> None:
    spans = BatchSpans("hourly-jfk", "jfk", 1)
    spans.begin(traceparent)
    for each in reports():
        spans.take_in(each)
    spans.halted(None, reports()[-1].begun_ns)
    assert recorded == []


@pytest.mark.parametrize(("after_begin_ns", "expected"), [(-1, []), (SECOND // 10, ["batch 3"])])
def test_halt_when_a_batch_was_under_way_then_that_one_is_under_the_halt(
    recorded: list[dict[str, Any]], after_begin_ns: int, expected: list[str]
) -> None:
    spans = BatchSpans("hourly-jfk", "jfk", 1)
    spans.begin(None)
    for each in reports():
        spans.take_in(each)
    spans.halted(COMMANDED, reports()[-1].begun_ns + after_begin_ns)
    assert [span["name"] for span in recorded] == expected


def test_halt_when_the_newest_batch_was_through_before_then_it_has_no_span(
    recorded: list[dict[str, Any]],
) -> None:
    spans = BatchSpans("hourly-jfk", "jfk", 1)
    spans.take_in(reports()[0])
    spans.halted(COMMANDED, reports()[0].ended_ns + 1)
    assert recorded == []


SERIAL = 41
STORED = "2026-11-22T02:39:38.000Z"
SENT = "2026-11-22T02:39:37.500Z"
STORED_NS = 1795315178 * SECOND
SOURCE: dict[str, Any] = EXAMPLE_ASSIGNMENT["inputs"][0]
EVENT = ("event", SOURCE["site"], SOURCE["stream"], str(SERIAL))


@dataclass
class Stream:
    """A stream that answers when a test says so."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    answer: Future[StoredMessage | None] = field(default_factory=Future)

    def __call__(self, stream: str, serial: int) -> Future[StoredMessage | None]:
        self.asked.append((stream, serial))
        return self.answer

    def give(self, body: bytes) -> None:
        headers = {"Nats-Time-Stamp": "2026-11-22T02:39:38.000000Z"}
        self.answer.set_result(StoredMessage(SERIAL, "site.a", headers, body))


def assignment(**changes: Any) -> Assignment:
    return Assignment.model_validate({**EXAMPLE_ASSIGNMENT, **changes})


def published(batch: int, **result: Any) -> StoredBatch:
    body = json.dumps({"serial": SERIAL, "stored_at": STORED, **result}).encode()
    return StoredBatch(batch, [Outgoing("s", "1", body)], STORED_NS + SECOND, STORED_NS + SECOND + 5)


def traced(stream: Stream, site: str = "jfk", **changes: Any) -> EventTraces:
    return EventTraces(assignment(**changes), site, stream)


def test_event_when_its_result_is_stored_and_its_batch_reported_then_has_four_spans_in_order(
    recorded: list[dict[str, Any]],
) -> None:
    stream = Stream()
    traces = traced(stream)
    traces.stored(published(1))
    traces.take_in(reports()[0])
    stream.give(b'{"k": 1}')
    assert recorded == []
    assert traces.waits
    traces.take_in(reports()[1])
    assert not traces.waits
    assert [span["name"] for span in recorded] == ["stored", "waiting", "batch 1", "result stored"]
    assert {span["trace"] for span in recorded} == {trace_of(*EVENT)}
    stored, waiting, batch, result = recorded
    assert [span["parent"] for span in recorded] == [None, stored["span"], stored["span"], batch["span"]]
    assert stored["begun_ns"] == stored["ended_ns"] == waiting["begun_ns"] == STORED_NS
    assert waiting["ended_ns"] == batch["begun_ns"] == reports()[1].begun_ns
    assert batch["ended_ns"] == reports()[1].ended_ns
    assert (result["begun_ns"], result["ended_ns"]) == (STORED_NS + SECOND, STORED_NS + SECOND + 5)
    assert batch["attributes"]["towpath.serial"] == SERIAL
    assert all(SAMPLED_EVENT in span["attributes"] for span in recorded), "kept apart from those of commands"


def test_event_when_it_says_who_sent_it_and_when_then_its_trace_goes_on(
    recorded: list[dict[str, Any]],
) -> None:
    stream = Stream()
    traces = traced(stream)
    traces.stored(published(1))
    traces.take_in(reports()[1])
    event = {"traceparent": COMMANDED, "sent_at": SENT}
    stream.give(json.dumps(event if SOURCE["from_device"] else {"values": event}).encode())
    assert {span["trace"] for span in recorded} == {TRACE}
    assert (recorded[0]["parent"], recorded[0]["begun_ns"]) == (COMMAND, STORED_NS - SECOND // 2)
    assert recorded[0]["ended_ns"] == STORED_NS


def test_event_when_its_message_cannot_be_had_then_the_result_says_when_it_was_stored(
    recorded: list[dict[str, Any]],
) -> None:
    stream = Stream()
    traces = traced(stream)
    traces.stored(published(1))
    traces.take_in(reports()[1])
    stream.answer.set_exception(TimeoutError("no one answers"))
    assert [span["begun_ns"] for span in recorded[:2]] == [STORED_NS, STORED_NS]


def test_event_when_its_trigger_had_begun_before_it_was_stored_then_the_batch_follows_the_waiting(
    recorded: list[dict[str, Any]],
) -> None:
    stream = Stream()
    traces = traced(stream)
    traces.stored(published(1))
    stream.give(b"{}")
    traces.take_in(report(1, begun_ns=STORED_NS - SECOND // 5))
    assert [span["begun_ns"] for span in recorded[:3]] == [STORED_NS] * 3


def test_events_when_results_keep_coming_then_one_is_traced_until_the_pause_is_over(
    recorded: list[dict[str, Any]],
) -> None:
    stream = Stream()
    traces = traced(stream)
    for batch in range(5):
        traces.stored(published(batch))
    assert len(stream.asked) == 1


def test_event_when_it_is_of_another_site_then_is_fetched_from_the_mirror(
    recorded: list[dict[str, Any]],
) -> None:
    stream = Stream()
    traced(stream, site="cloud").stored(published(1))
    assert stream.asked == [(f"MIRROR_{SOURCE['site']}_{SOURCE['stream']}", SERIAL)]


def test_event_when_the_job_is_halted_first_then_no_one_waits_for_it(recorded: list[dict[str, Any]]) -> None:
    stream = Stream()
    traces = traced(stream)
    traces.stored(published(1))
    traces.close()
    traces.take_in(reports()[1])
    assert stream.answer.cancelled()
    assert recorded == []


@pytest.mark.parametrize(
    "result", [{"serial": None}, {"stored_at": "soon"}, {"serial": "41"}], ids=["none", "time", "text"]
)
def test_event_when_its_result_does_not_say_which_it_is_then_is_not_traced(result: dict[str, Any]) -> None:
    stream = Stream()
    traced(stream).stored(published(1, **result))
    assert stream.asked == []


def test_event_when_a_window_over_several_inputs_does_not_say_whose_it_is_then_is_not_traced() -> None:
    stream = Stream()
    others = [SOURCE, {**SOURCE, "name": "jfk/other", "stream": "OUT_other"}]
    traced(stream, inputs=others).stored(published(1))
    assert stream.asked == []
    traced(stream, inputs=others).stored(published(1, input="jfk/other"))
    assert stream.asked == [("OUT_other", SERIAL)]


@pytest.mark.parametrize(
    "body", [b"\xff", b"[]", b"3", b'{"traceparent": 5, "sent_at": "soon"}', b'{"traceparent": "00-x"}']
)
def test_sent_event_when_it_is_nonsense_then_says_nothing(body: bytes) -> None:
    assert SentEvent.of(body, from_device=True) == SentEvent()


def test_sent_event_when_it_is_a_result_then_its_values_count() -> None:
    body = json.dumps({"sent_at": "2020-01-01", "values": {"sent_at": SENT}}).encode()
    assert SentEvent.of(body, from_device=False).sent_ns == time_ns_of(SENT)


def test_time_when_it_has_no_zone_then_is_utc() -> None:
    assert time_ns_of("2026-11-22T02:39:38") == time_ns_of("2026-11-22T02:39:38.000000000Z") == STORED_NS


@pytest.fixture
def telemetry() -> JobTelemetry:
    source = {**SOURCE, "name": INPUT}
    telemetry = JobTelemetry.of(assignment(inputs=[source]), "jfk", Stream())
    telemetry.begin(None, {})
    return telemetry


def test_report_when_it_comes_again_then_counts_once(
    telemetry: JobTelemetry, recorded: list[dict[str, Any]]
) -> None:
    telemetry.spans.begin(COMMANDED)
    for progress in (PROGRESS[0], PROGRESS[0], PROGRESS[1], PROGRESS[0]):
        telemetry.take_in(progress)
    assert [span["name"] for span in recorded] == ["batch 0", "batch 1"]
    events = [s.value for s in telemetry.samples(results=0, rejected=0) if s.metric == "job.events"]
    assert events == [70]


def test_report_when_the_site_is_not_observed_then_nothing_of_it_is_kept(
    telemetry: JobTelemetry, recorded: list[dict[str, Any]]
) -> None:
    telemetry.enabled = False
    telemetry.spans.begin(COMMANDED)
    for progress in PROGRESS:
        telemetry.take_in(progress)
    assert recorded
    telemetry.enabled = True
    assert [s.value for s in telemetry.samples(results=0, rejected=0) if s.metric == "job.events"] == [0]


def test_report_when_one_before_was_not_asked_for_then_it_is_missed_only_if_it_gets_a_span(
    telemetry: JobTelemetry, recorded: list[dict[str, Any]]
) -> None:
    telemetry.take_in(PROGRESS[0])
    assert not telemetry.misses(PROGRESS[2])
    telemetry.spans.begin(COMMANDED)
    assert telemetry.misses(PROGRESS[2])
    assert not telemetry.misses(PROGRESS[1])


def test_report_when_one_before_was_not_asked_for_then_a_job_that_shares_its_stream_needs_it_to_count(
    telemetry: JobTelemetry,
) -> None:
    shared = JobTelemetry.of(assignment(inputs=[{**SOURCE, "name": INPUT, "subject": "x"}]), "jfk", Stream())
    for each in (telemetry, shared):
        each.take_in(PROGRESS[0])
    assert (telemetry.misses(PROGRESS[2]), shared.misses(PROGRESS[2])) == (False, True)
    shared.enabled = False
    assert not shared.misses(PROGRESS[2])


def test_report_when_it_is_unlike_any_known_then_the_job_goes_on(telemetry: JobTelemetry) -> None:
    telemetry.take_in({"batchId": 0, "durationMs": {"addBatch": 1}})
    telemetry.stored(StoredBatch(0, [], 0, 0))
    assert telemetry.samples(results=0, rejected=0)
