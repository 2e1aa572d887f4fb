"""Processing rates of the fog demonstration's jobs, and SpecK's differential output rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from towpath.checker.identity import Identity, WindowIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.job import JobState, JobStatus
from towpath.lab.demonstration.fog.rates import differential_output_rate, stage_rate

START = datetime(2013, 1, 1, tzinfo=UTC)
BEGUN_AT = 1_000.0


def window(job: str, hour: int) -> WindowIdentity:
    return WindowIdentity(
        job, START + timedelta(hours=hour), START + timedelta(hours=hour + 1), (("carrier", "UA"),)
    )


def received(identity: Identity, after_s: float) -> ReceivedMessage:
    return ReceivedMessage(identity, b"{}", BEGUN_AT + after_s)


def reported(job: str, events: int, after_s: float) -> JobStatus:
    committed = datetime.fromtimestamp(BEGUN_AT + after_s, UTC)
    return JobStatus(job=job, epoch=1, state=JobState.RUNNING, events=events, committed_at=committed)


TRUTH: dict[Identity, dict[str, int]] = {
    window("hourly-jfk", 0): {"departures": 60},
    window("hourly-jfk", 1): {"departures": 20},
    window("hourly-lga", 0): {"departures": 20},
    window("delays-jfk", 0): {"departures": 7},
}
ALL = [received(identity, 2.0 + number) for number, identity in enumerate(TRUTH)]


@pytest.mark.parametrize(
    ("fog", "cloud", "expected"),
    [(100.0, 100.0, 0.0), (100.0, 60.0, 40.0), (100.0, 0.0, 100.0), (50.0, 75.0, -50.0), (0.0, 10.0, None)],
)
def test_differential_output_rate_when_fog_and_cloud_are_known_then_it_is_their_difference_in_percent_of_fog(
    fog: float, cloud: float, expected: float | None
) -> None:
    assert differential_output_rate(fog, cloud) == expected


def test_stage_rate_when_all_results_came_then_it_is_all_accepted_events_by_the_time_of_the_last() -> None:
    rate = stage_rate("job 3", ["jfk", "lga"], BEGUN_AT, TRUTH, ALL, {})
    assert (rate.events, rate.of_events, rate.seconds, rate.rate) == (100, 100, 4.0, 25.0)


def test_stage_rate_when_results_are_missing_then_their_events_do_not_count() -> None:
    rate = stage_rate("job 3", ["jfk", "lga"], BEGUN_AT, TRUTH, ALL[:2], {})
    assert (rate.events, rate.of_events, rate.seconds) == (80, 100, 3.0)


def test_stage_rate_when_a_result_comes_twice_then_only_the_first_counts() -> None:
    again = [*ALL, received(window("hourly-jfk", 0), 90.0)]
    assert stage_rate("job 3", ["jfk", "lga"], BEGUN_AT, TRUTH, again, {}).seconds == 4.0


def test_stage_rate_when_another_stage_or_turn_has_results_then_they_do_not_count() -> None:
    others = [*ALL, received(window("hourly-jfk", 9), 50.0), received(window("delays-all", 0), 60.0)]
    rate = stage_rate("job 4", ["jfk", "lga"], BEGUN_AT, TRUTH, others, {})
    assert (rate.events, rate.seconds) == (7, 5.0)


def test_stage_rate_when_nothing_came_then_it_is_zero() -> None:
    rate = stage_rate("job 3", ["jfk", "lga"], BEGUN_AT, TRUTH, [], {})
    assert (rate.events, rate.rate, rate.reported_rate) == (0, 0.0, None)


def test_stage_rate_when_jobs_report_then_it_says_what_they_read_since_before() -> None:
    progress = {
        "hourly-jfk": (reported("hourly-jfk", 1_000, -5.0), reported("hourly-jfk", 1_080, 3.0)),
        "hourly-lga": (reported("hourly-lga", 10, -5.0), reported("hourly-lga", 30, 5.0)),
        "delays-jfk": (reported("delays-jfk", 0, -5.0), reported("delays-jfk", 999, 9.0)),
    }
    rate = stage_rate("job 3", ["jfk", "lga"], BEGUN_AT, TRUTH, ALL, progress)
    assert (rate.reported_events, rate.reported_rate) == (100, 20.0)
