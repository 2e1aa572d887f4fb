"""A metric store keeps, refuses and finds samples."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import Aggregation, MetricSelection, Sample, Series
from towpath.contracts.metrics_table import METRICS_BY_NAME
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.selection import matches

T0 = 1_800_000_000.0


def newest(store: MetricStore) -> list[Series]:
    """The newest sample of each series."""
    return store.read(MetricSelection(), "jfk")


@pytest.fixture
def store(tmp_path: Path) -> MetricStore:
    return MetricStore(tmp_path / "metrics.db", clock=lambda: T0 + 2000)


def sample(at: float, value: float, entity: str = "stream:IN", metric: str = "stream.size") -> Sample:
    return Sample(entity=entity, metric=metric, at=T0 + at, value=value)


def since(seconds: float) -> datetime:
    return datetime.fromtimestamp(T0 + seconds, UTC)


def refusal(store: MetricStore, **selection: object) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        store.read(MetricSelection.model_validate(selection), "jfk")
    assert refused.value.detail.code is ErrorCode.INVALID
    return refused.value


def test_read_when_no_time_is_given_then_answers_the_newest_of_each_series(store: MetricStore) -> None:
    store.add([sample(0, 1), sample(2, 5), sample(1, 7, entity="stream:OUT_a")])
    found = newest(store)
    assert [(s.site, s.entity, s.unit, s.points) for s in found] == [
        ("jfk", "stream:IN", "By", [(T0 + 2, 5.0)]),
        ("jfk", "stream:OUT_a", "By", [(T0 + 1, 7.0)]),
    ]


def test_read_when_patterns_are_given_then_answers_what_they_match(store: MetricStore) -> None:
    store.add([sample(0, 1), sample(0, 1, metric="stream.events"), sample(0, 1, "rule:a", "rule.own")])
    chosen = store.read(MetricSelection(metrics=["*.events", "rule.*"], entities=["stream:*"]), "jfk")
    assert [s.metric for s in chosen] == ["stream.events"]


def test_read_when_a_pattern_can_match_no_metric_then_is_refused_with_those_there_are(
    store: MetricStore,
) -> None:
    refused = refusal(store, metrics=["job.backlog", "job.latancy.*"]).detail
    assert (refused.field, refused.value) == ("metrics", "job.latancy.*")
    assert isinstance(refused.allowed, list)
    assert set(METRICS_BY_NAME) < set(refused.allowed)


def test_patterns_when_they_hold_dots_and_stars_then_only_stars_stand_for_others() -> None:
    assert matches("job.latency.p50", ["job.*.p50"])
    assert not matches("jobxlatency", ["job.latency"])
    assert not matches("Job.latency", ["job.*"])


def test_read_when_it_has_more_points_than_the_limit_then_is_refused_with_a_step_that_fits(
    store: MetricStore,
) -> None:
    store.add(sample(2 * n, n, entity) for n in range(1000) for entity in ("stream:IN", "stream:OUT_a"))
    wanted = {"since": since(0), "limit": 100}
    for selection in (wanted, {**wanted, "step_s": 4}, {**wanted, "step_s": 60, "limit": 10}):
        refused = refusal(store, **selection).detail
        assert (refused.field, refused.value) == ("limit", selection["limit"])
        step_s = float(str(refused.allowed).split("step_s of ")[1].split()[0])
        fits = store.read(MetricSelection.model_validate({**selection, "step_s": step_s}), "jfk")
        assert len(fits) == 2


def test_rate_when_a_counter_began_again_then_counts_from_zero(store: MetricStore) -> None:
    counts = enumerate([100, 110, 120, 4, 14])
    store.add(sample(2.0 * n, value, metric="stream.events") for n, value in counts)
    store.add([sample(0, 3)])
    wanted = MetricSelection(since=since(0), step_s=60, aggregation=Aggregation.RATE)
    found = store.read(wanted, "jfk")
    assert [(s.metric, s.points) for s in found] == [("stream.events", [(T0, 34 / 8)])]


def test_samples_when_they_come_again_or_are_no_numbers_then_are_passed_over(store: MetricStore) -> None:
    store.add([sample(0, 1), sample(2, 2)])
    store.add([sample(0, 9), sample(2, 9), sample(3, float("nan")), sample(4, 3)])
    (series,) = store.read(MetricSelection(since=since(-10)), "jfk")
    assert series.points == [(T0, 1.0), (T0 + 2, 2.0), (T0 + 4, 3.0)]


def test_until_when_given_then_its_moment_is_not_in_the_answer(store: MetricStore) -> None:
    store.add(sample(n, n) for n in range(0, 300, 30))
    by_sample = MetricSelection(since=since(30), until=since(90))
    assert [p for s in store.read(by_sample, "jfk") for p in s.points] == [(T0 + 30, 30), (T0 + 60, 60)]
    by_minute = MetricSelection(since=since(0), until=since(120), step_s=60, aggregation=Aggregation.COUNT)
    assert [p for s in store.read(by_minute, "jfk") for p in s.points] == [(T0, 2), (T0 + 60, 2)]


def test_samples_when_they_are_of_a_time_to_come_then_are_left_out_and_others_stay(tmp_path: Path) -> None:
    store = MetricStore(tmp_path / "metrics.db", max_bytes=80 * 1024, clock=lambda: T0 + 2000)
    store.add([sample(10 * n, n) for n in range(200)])
    store.add(sample(2.5e11, n, f"rule:{n}") for n in range(3000))

    store.retain()

    (series,) = store.read(MetricSelection(since=since(0)), "jfk")
    assert len(series.points) == 200


def test_samples_when_the_clock_was_ahead_and_is_set_back_then_are_kept_again_and_summed_up_once(
    tmp_path: Path,
) -> None:
    now = [T0]
    store = MetricStore(tmp_path / "metrics.db", clock=lambda: now[0])
    store.add(sample(n, 1) for n in range(0, 60, 10))
    now[0] = T0 + 7200
    store.add([sample(7200, 1)])

    now[0] = T0 + 130
    store.add([sample(120, 1)])
    store.add([sample(130, 1)])

    assert [series.points for series in newest(store)] == [[(T0 + 130, 1)]]
    by_minute = MetricSelection(since=since(0), step_s=60, aggregation=Aggregation.COUNT)
    (counted,) = store.read(by_minute, "jfk")
    assert [(at - T0, count) for at, count in counted.points] == [(0, 6), (120, 1)]


def test_retention_when_a_series_is_too_old_then_nothing_of_it_is_left(tmp_path: Path) -> None:
    now = [T0]
    store = MetricStore(tmp_path / "metrics.db", max_age_s=3600, clock=lambda: now[0])
    store.add(sample(n * 10.0, n) for n in range(100))
    now[0] = T0 + 10_000
    store.add([sample(9_999, 1, entity="stream:OUT_a")])
    assert [s.entity for s in newest(store)] == ["stream:OUT_a"]
    assert [s.entity for s in store.read(MetricSelection(since=since(0), step_s=60), "jfk")] == [
        "stream:OUT_a"
    ]


def test_read_when_series_have_had_no_sample_for_an_hour_then_they_are_told_only_if_asked_for(
    tmp_path: Path,
) -> None:
    store = MetricStore(tmp_path / "metrics.db", clock=lambda: T0 + 3601)
    store.add(sample(0, 2.5, f"migration:m{n}", "migration.duration") for n in range(30))
    store.add([sample(1, 1), sample(3600, 1, entity="stream:OUT_a")])
    found = store.read(MetricSelection(limit=2), "hub")
    assert [s.entity for s in found] == ["stream:IN", "stream:OUT_a"]
    assert len(store.read(MetricSelection(stale=True), "hub")) == 32
    assert len(store.read(MetricSelection(since=since(0)), "hub")) == 32


@pytest.mark.parametrize("step_s", [None, 30])
def test_history_when_single_samples_are_gone_then_is_told_by_the_minute_and_says_so(
    tmp_path: Path, step_s: float | None
) -> None:
    store = MetricStore(tmp_path / "metrics.db", max_bytes=80 * 1024, clock=lambda: T0 + 7200)
    store.add(sample(2.0 * n, n) for n in range(3600))
    store.retain()
    (series,) = store.read(MetricSelection(since=since(0), until=since(300), step_s=step_s), "jfk")
    assert [at - T0 for at, _ in series.points] == [0, 60, 120, 180, 240]
    assert [value for _, value in series.points] == [14.5 + 30 * n for n in range(5)]
    assert series.by_minute_until == T0 + 300
    (recent,) = store.read(MetricSelection(since=since(7000), step_s=step_s), "jfk")
    assert recent.by_minute_until is None
    assert recent.points[1][0] - recent.points[0][0] == (step_s or 2)


def test_store_when_its_file_is_damaged_then_begins_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    path.write_bytes(b"no database" * 1000)
    store = MetricStore(path, clock=lambda: T0)
    store.add([sample(0, 1)])
    assert [s.points for s in newest(store)] == [[(T0, 1.0)]]
    assert path.with_name("metrics.db.damaged").exists()


def test_store_when_the_disk_refuses_a_while_then_goes_on_with_what_it_has(tmp_path: Path) -> None:
    store = MetricStore(tmp_path / "missing" / "metrics.db", clock=lambda: T0)
    with pytest.raises(sqlite3.OperationalError):
        store.add([sample(0, 1)])
    (tmp_path / "missing").mkdir()
    store.add([sample(2, 2)])
    assert [s.points for s in newest(store)] == [[(T0 + 2, 2.0)]]


ENDLESS = """
import sys
from pathlib import Path
from towpath.contracts.metrics import (Sample)
from towpath.telemetry.metric_store import MetricStore
n = 0
store = MetricStore(Path(sys.argv[1]), clock=lambda: 1.8e9 + 7 * n)
for n in range(10**9):
    store.add([Sample(entity="stream:IN", metric="stream.events", at=1.8e9 + 7 * n, value=n)])
    print(n, flush=True)
"""


def test_store_when_its_process_is_killed_then_has_what_was_added_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = 0
    try:
        while acknowledged < 50:
            acknowledged = int(writer.stdout.readline())
    finally:
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(n) for n in writer.stdout.read().split("\n")[:-1])])
        writer.wait()
    store = MetricStore(path, clock=lambda: T0 + 7 * acknowledged)
    (series,) = store.read(MetricSelection(since=since(0)), "jfk")
    assert len(series.points) >= acknowledged + 1
    assert [value for _, value in series.points] == list(range(len(series.points)))
    store.add([sample(7 * len(series.points), len(series.points), metric="stream.events")])
    wanted = MetricSelection(since=since(0), step_s=3600, aggregation=Aggregation.COUNT)
    (counted,) = store.read(wanted, "jfk")
    assert sum(value for _, value in counted.points) == len(series.points) + 1
