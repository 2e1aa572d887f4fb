"""Any samples in any order: a point's value does not depend on how the samples are stored."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from math import floor
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from towpath.contracts.metrics import Aggregation, MetricSelection, Sample
from towpath.telemetry import metric_tables
from towpath.telemetry.intervals import KEPT_SINGLE_S
from towpath.telemetry.metric_store import MetricStore

T0 = 1_800_000_000.0
NOW = T0 + 86_400.0
"""Behind all samples: a store leaves out those of a time to come."""

COUNTER, GAUGE = "stream.events", "stream.size"

REFERENCE: dict[Aggregation, Callable[[list[float]], float]] = {
    Aggregation.MEAN: lambda values: sum(values) / len(values),
    Aggregation.MIN: min,
    Aggregation.MAX: max,
    Aggregation.SUM: sum,
    Aggregation.LAST: lambda values: values[-1],
    Aggregation.COUNT: lambda values: float(len(values)),
}


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    """Draw samples of one series, seconds or minutes apart. A counter grows, and sometimes restarts at 0."""
    at, value, samples = T0 + draw(st.integers(0, 200)), 0.0, []
    for _ in range(draw(st.integers(1, 60))):
        at += draw(st.sampled_from([0.5, 2.0, 2.1, 17.0, 60.0, 61.5, 240.0]))
        value = draw(st.sampled_from([value, value + 1, value + 250, 0.0, 3.0]))
        samples.append(Sample(entity="stream:IN", metric=COUNTER, at=at, value=value))
    return samples


def grown(before: Sample, sample: Sample) -> float:
    return sample.value - before.value if sample.value >= before.value else sample.value


def reference(
    history: list[Sample], step_s: float, aggregation: Aggregation, since: float = T0
) -> dict[float, float]:
    """Compute points from single samples by the contract's definition."""
    steps: dict[float, list[tuple[Sample | None, Sample]]] = {}
    for before, sample in zip([None, *history], history, strict=False):
        if sample.at >= since:
            steps.setdefault(floor(sample.at / step_s) * step_s, []).append((before, sample))
    if aggregation is not Aggregation.RATE:
        return {at: REFERENCE[aggregation]([s.value for _, s in pairs]) for at, pairs in steps.items()}
    known = {at: [(b, s) for b, s in pairs if b is not None] for at, pairs in steps.items()}
    return {
        at: sum(grown(b, s) for b, s in pairs) / sum(s.at - b.at for b, s in pairs)
        for at, pairs in known.items()
        if pairs
    }


@contextmanager
def store_with(history: list[Sample], *, cuts: list[int], **options: int) -> Iterator[MetricStore]:
    """Open a store that received the history in portions and was opened again after each."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "metrics.db"
        edges = sorted({0, len(history), *(cut % len(history) for cut in cuts)})
        store = MetricStore(path, clock=lambda: NOW, **options)
        for begin, end in pairwise(edges):
            store.add(history[begin:end])
            store.close()
        yield store
        store.close()


def selection(step_s: float | None, aggregation: Aggregation, since: float = T0) -> MetricSelection:
    begin = datetime.fromtimestamp(since, UTC)
    return MetricSelection(metrics=["stream.*"], since=begin, step_s=step_s, aggregation=aggregation)


def points(store: MetricStore, wanted: MetricSelection) -> dict[float, float]:
    return {at: value for series in store.read(wanted, "jfk") for at, value in series.points}


def without_samples(store: MetricStore) -> None:
    """Delete all samples but those of the newest minute. The figures of earlier minutes stay."""
    store.read(MetricSelection(), "jfk")
    assert store._connection is not None
    newest = store._connection.execute("SELECT max(at) FROM samples").fetchone()[0]
    metric_tables.delete_before(store._connection, "samples", floor(newest / 60) * 60)


CUTS = st.lists(st.integers(0, 60), max_size=3)


@given(
    histories(),
    CUTS,
    st.sampled_from(Aggregation),
    st.sampled_from([2.0, 7.0, 30.0, 60.0, 90.0, 300.0]),
    st.integers(0, 400),
)
def test_points_when_samples_are_kept_then_are_those_of_the_samples(
    history: list[Sample], cuts: list[int], aggregation: Aggregation, step_s: float, later: int
) -> None:
    with store_with(history, cuts=cuts) as store:
        found = points(store, selection(step_s, aggregation, T0 + later))
    assert found == pytest.approx(reference(history, step_s, aggregation, T0 + later))


@given(histories(), CUTS, st.sampled_from(Aggregation), st.sampled_from([60.0, 120.0, 300.0]))
def test_points_when_only_minutes_are_kept_then_are_those_of_the_samples_that_were(
    history: list[Sample], cuts: list[int], aggregation: Aggregation, step_s: float
) -> None:
    with store_with(history, cuts=cuts) as store:
        without_samples(store)
        found = points(store, selection(step_s, aggregation))
    assert found == pytest.approx(reference(history, step_s, aggregation))


@given(histories(), CUTS, st.sampled_from(Aggregation), st.sampled_from([None, 2.0, 7.0, 30.0]))
@example([Sample(entity="stream:IN", metric=COUNTER, at=T0 + 0.5, value=0.0)], [], Aggregation.MEAN, 7.0)
def test_points_when_finer_ones_are_asked_for_than_are_kept_then_are_minutes_there(
    history: list[Sample], cuts: list[int], aggregation: Aggregation, step_s: float | None
) -> None:
    with store_with(history, cuts=cuts) as store:
        without_samples(store)
        found = store.read(selection(step_s, aggregation), "jfk")
    newest_minute = floor(history[-1].at / 60) * 60
    by_minute = reference(history, 60.0, Aggregation.MEAN if step_s is None else aggregation)
    gone = {at: value for at, value in by_minute.items() if at < newest_minute}
    kept = [s for s in history if s.at >= newest_minute]
    wanted = gone | (
        {s.at: s.value for s in kept}
        if step_s is None
        else reference(history, step_s, aggregation, newest_minute)
    )
    assert {at: value for series in found for at, value in series.points} == pytest.approx(wanted)
    assert {series.by_minute_until for series in found} - {None} == ({newest_minute} if gone else set())


@given(histories(), CUTS)
@share_of_examples(0.5)
def test_samples_when_read_after_reopening_then_are_what_was_added(
    history: list[Sample], cuts: list[int]
) -> None:
    with store_with(history, cuts=cuts) as store:
        assert points(store, selection(None, Aggregation.MEAN)) == {s.at: s.value for s in history}


@given(
    st.lists(st.tuples(histories(), st.integers(0, 300)), min_size=1, max_size=4),
    st.sampled_from(Aggregation),
)
def test_points_when_series_take_turns_and_come_late_then_are_those_of_the_samples(
    late: list[tuple[list[Sample], int]], aggregation: Aggregation
) -> None:
    given_histories = {
        f"stream:OUT_{n}": [
            s.model_copy(update={"entity": f"stream:OUT_{n}", "at": s.at + after}) for s in history
        ]
        for n, (history, after) in enumerate(late)
    }
    with tempfile.TemporaryDirectory() as directory:
        store = MetricStore(Path(directory) / "metrics.db", clock=lambda: NOW)
        for portion in range(0, 60, 7):
            for history in given_histories.values():
                store.add(history[portion : portion + 7])
        found = {s.entity: dict(s.points) for s in store.read(selection(60.0, aggregation), "jfk")}
        store.close()
    for entity, history in given_histories.items():
        assert found.get(entity, {}) == pytest.approx(reference(history, 60.0, aggregation))


@given(st.integers(200, 3000), st.integers(20, 80), st.sampled_from([1.0, 20.0]))
@share_of_examples(0.25)
def test_retention_when_room_is_short_then_older_go_before_newer_and_samples_before_minutes_of_the_same_time(
    count: int, kilobytes: int, apart_s: float
) -> None:
    history = [
        Sample(entity="stream:IN", metric=GAUGE, at=T0 + n * apart_s, value=float(n)) for n in range(count)
    ]
    with (
        patch.object(metric_tables, "CHUNK_ROWS", 37),
        store_with(history, cuts=[], max_bytes=kilobytes * 1024) as store,
    ):
        store.retain()
        (series,) = store.read(selection(None, Aggregation.MEAN), "jfk")
        minutes = points(store, selection(60.0, Aggregation.LAST))
        wanted = reference(history, 60.0, Aggregation.LAST)
    samples = {at: value for at, value in series.points if at >= (series.by_minute_until or 0.0)}
    newest_minute = max(wanted)
    recent = newest_minute - KEPT_SINGLE_S
    first_recent = min(s.at for s in history if s.at >= recent)
    assert list(samples.values()) == [float(n) for n in range(count - len(samples), count)]
    assert list(minutes.items()) == list(wanted.items())[len(wanted) - len(minutes) :]
    assert min(samples) >= recent or len(minutes) == len(wanted), "old samples go before any minute"
    assert min(samples) <= first_recent or min(minutes) >= recent, "an hour of samples outlives old minutes"
    assert min(samples) >= newest_minute or min(minutes) <= recent or min(wanted) > recent
    assert newest_minute in minutes
