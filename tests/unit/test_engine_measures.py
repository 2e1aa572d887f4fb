"""Samples from Spark's reports, and their way to the agent."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from engine_reports import INPUT, PROGRESS, idle, report, reports

from running.waiting import WITHIN_S
from towpath.contracts.message import now
from towpath.contracts.metrics_table import METRICS_BY_NAME, EntityKind
from towpath.engine.batch_reports import BatchReport
from towpath.engine.job_measures import JobMeasures, Measured, quantiles
from towpath.engine.job_telemetry import MOST_RESULTS, latencies
from towpath.engine.measures import SampleBuffer, keep_sampling
from towpath.streams.publisher import Outgoing
from towpath.streams.sink import StoredBatch

AT = datetime(2026, 11, 22, 2, 39, 42, tzinfo=UTC).timestamp()
AGENTS_AND_LATER = {"job.backlog", "job.retention_left", "job.checkpoint.size", "job.restarts"}
"""Metrics of jobs that the agent knows, not the engine."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def measures(clock: Clock) -> JobMeasures:
    measures = JobMeasures("hourly-jfk", clock)
    measures.begin({INPUT: 0})
    return measures


def values(measures: JobMeasures, results: int = 0, rejected: int = 0) -> dict[str, float]:
    return {s.metric: s.value for s in measures.samples(AT, results=results, rejected=rejected)}


def test_report_when_the_stream_has_other_topics_then_counts_only_the_events_that_were_read() -> None:
    first = reports()[0]
    assert (first.batch, first.events, first.after, first.through) == (0, 45, {}, {INPUT: 90})
    assert (first.duration_s, first.phases["add_batch"]) == (4.197, 3.593)
    assert first.ended_ns - first.begun_ns == 4_197_000_000
    assert datetime.fromtimestamp(first.begun_ns / 1e9, UTC).isoformat() == "2026-11-22T02:39:34.266000+00:00"
    assert (first.watermark, first.state_rows, first.state_bytes) == (None, 6, 264368)


def test_report_when_a_trigger_found_nothing_then_there_is_none() -> None:
    assert BatchReport.of(idle(4), [INPUT]) is None


def test_report_when_branches_read_the_same_inputs_then_each_event_counts_once() -> None:
    progress = deepcopy(PROGRESS[1])
    first = progress["sources"][0]
    second = {**first, "numInputRows": 7, "startOffset": '{"serial": 3}', "endOffset": '{"serial": 10}'}
    progress["sources"] = [first, second, first, second]
    found = BatchReport.of(progress, ["a", "b"])
    assert found is not None
    assert (found.events, found.after, found.through) == (32, {"a": 90, "b": 3}, {"a": 140, "b": 10})


def test_report_when_events_were_recalled_for_their_times_then_they_do_not_count() -> None:
    progress = deepcopy(PROGRESS[1])
    source = progress["sources"][0]
    silent = {**source, "numInputRows": 1_000, "startOffset": '{"serial": 7}', "endOffset": '{"serial": 7}'}
    progress["sources"] = [source, silent]
    found = BatchReport.of(progress, ["a", "b"])
    assert found is not None
    assert found.events == source["numInputRows"]


def test_samples_when_batches_were_reported_then_every_metric_of_the_engine_is_there(
    measures: JobMeasures, clock: Clock
) -> None:
    for each in reports():
        measures.take_in(each)
    measures.add_latencies([0.2, 0.4, 0.3])
    clock.now += 2.0
    found = values(measures, results=6, rejected=2)
    expected = {name for name, metric in METRICS_BY_NAME.items() if metric.entity is EntityKind.JOB}
    assert set(found) == expected - AGENTS_AND_LATER
    assert (found["job.events"], found["job.event_rate"], found["job.batch.events"]) == (75, 37.5, 5)
    assert (found["job.results"], found["job.result_rate"], found["job.rejected"]) == (6, 3.0, 2)
    assert (found["job.latency.processing.p50"], found["job.latency.processing.max"]) == (0.568, 4.197)
    assert (found["job.latency.end_to_end.p50"], found["job.latency.end_to_end.p99"]) == (0.3, 0.4)
    assert found["job.batch.phase.add_batch"] == 0.319
    assert found["job.watermark.delay"] == pytest.approx(4.572)
    assert found["job.state.rows"] == PROGRESS[3]["stateOperators"][0]["numRowsTotal"]


def test_samples_when_nothing_comes_then_rates_fall_to_zero_and_counters_stay(
    measures: JobMeasures, clock: Clock
) -> None:
    measures.take_in(reports()[0])
    clock.now += 2.0
    values(measures, results=6)
    clock.now += 2.0
    found = values(measures, results=6)
    assert (found["job.event_rate"], found["job.result_rate"]) == (0.0, 0.0)
    assert (found["job.events"], found["job.results"], found["job.state.rows"]) == (45, 6, 6)
    assert not any(name.startswith(("job.latency.", "job.batch.")) for name in found)


def test_samples_when_the_job_has_not_begun_then_there_are_none() -> None:
    assert JobMeasures("hourly-jfk").samples(AT, results=0, rejected=0) == []


def test_samples_when_the_newest_batch_had_no_events_then_tell_of_the_one_before(
    measures: JobMeasures,
) -> None:
    for each in reports()[:3]:
        measures.take_in(each)
    assert values(measures)["job.batch.events"] == 25


def test_events_when_reports_are_missing_then_their_serial_numbers_count(measures: JobMeasures) -> None:
    measures.take_in(reports()[0])
    measures.take_in(reports()[3])
    assert values(measures)["job.events"] == 45 + (140 - 90) + 5


def test_events_when_the_job_is_started_again_then_the_count_goes_on(measures: JobMeasures) -> None:
    measures.take_in(reports()[0])
    measures.begin({INPUT: 90})
    measures.take_in(reports()[1])
    assert values(measures)["job.events"] == 70


@pytest.mark.parametrize(
    ("given", "expected"),
    [([], []), ([5.0], [5.0] * 4), ([float(n) for n in range(1, 101)], [50.0, 95.0, 99.0, 100.0])],
)
def test_quantiles_when_there_are_values_then_each_is_one_of_them(
    given: list[float], expected: list[float]
) -> None:
    assert [value for _, value in quantiles("x", given)] == expected


def stored(*bodies: Any) -> StoredBatch:
    results = [Outgoing("s", str(n), json.dumps(body).encode()) for n, body in enumerate(bodies)]
    ended_ns = round(datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC).timestamp()) * 10**9
    return StoredBatch(7, results, ended_ns - 10**6, ended_ns)


def test_latencies_when_a_batch_has_many_results_then_some_are_picked_evenly() -> None:
    times = [f"2026-01-01T00:00:01.{n:03d}Z" for n in range(120)]
    found = list(latencies(stored(*({"stored_at": time} for time in times))))
    assert found == pytest.approx([1 - n / 1000 for n in range(0, 120, 3)])
    assert len(found) <= MOST_RESULTS


@pytest.mark.parametrize("body", [{}, [], "text", {"stored_at": None}, {"stored_at": "soon"}])
def test_latencies_when_a_result_cannot_be_read_then_it_is_passed_over(body: Any) -> None:
    good = {"stored_at": "2026-01-01T00:00:01Z"}
    assert list(latencies(stored(body, good))) == pytest.approx([1.0])


def taken(*numbers: int) -> list[Measured]:
    return [Measured("job:a", "job.events", 1.0, float(number)) for number in numbers]


def test_buffer_when_asked_again_then_gives_what_came_since() -> None:
    buffer = SampleBuffer()
    assert buffer.after(0) == ([], 0)
    buffer.add(taken(1, 2, 3))
    samples, last = buffer.after(1)
    assert ([sample.value for sample in samples], last) == ([2.0, 3.0], 3)
    assert buffer.after(3) == ([], 3)


def test_buffer_when_it_is_full_then_the_oldest_are_passed_over() -> None:
    buffer = SampleBuffer(kept=2)
    buffer.add(taken(1, 2, 3, 4))
    samples, last = buffer.after(1)
    assert ([sample.value for sample in samples], last) == ([3.0, 4.0], 4)


def test_buffer_when_there_are_many_then_gives_them_page_by_page() -> None:
    buffer = SampleBuffer()
    buffer.add(taken(1, 2, 3))
    samples, last = buffer.after(0, limit=2)
    assert ([sample.value for sample in samples], last) == ([1.0, 2.0], 2)
    assert [sample.value for sample in buffer.after(last, limit=2)[0]] == [3.0]


def test_buffer_when_the_number_is_of_an_engine_before_then_gives_all() -> None:
    buffer = SampleBuffer()
    buffer.add(taken(1, 2))
    assert len(buffer.after(999)[0]) == 2


async def test_sampling_when_it_fails_once_then_goes_on() -> None:
    again = asyncio.Event()
    calls: list[datetime] = []

    def take() -> None:
        calls.append(now())
        if len(calls) == 1:
            raise RuntimeError("for once")
        again.set()

    task = asyncio.create_task(keep_sampling(take, interval_s=0.001))
    async with asyncio.timeout(WITHIN_S):
        await again.wait()
    task.cancel()


def test_events_when_batches_have_gaps_in_their_numbers_only_then_nothing_is_added(
    measures: JobMeasures,
) -> None:
    measures.take_in(reports()[0])
    measures.take_in(report(9, events=1))
    assert values(measures)["job.events"] == 46
